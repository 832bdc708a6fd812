"""Folders that engines of our own cover: those that are made for it stay while one of them runs, and go with the last.

A folder that is removed takes along whatever is mounted on it elsewhere: the cover of another engine too, which would
then write where it lay. So one that is ours bears a mark, and all who need it share the lock of that.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nearmetal.errors import HostCannot
from nearmetal.lab.process_locks import try_lock
from nearmetal.system.files import closing_descriptor

_MARK = ".made-by-nearmetal"
_PATIENCE = 5.0
"""Seconds. Engines that start and end hold the lock for thousandths."""


@dataclass(frozen=True)
class MarkedFolder:
    """A folder of ours, as long as the descriptor of its mark is open."""

    place: Path
    mark: int


def make_needed(places: Iterable[Path]) -> list[MarkedFolder]:
    """Have these folders there. Those that are not somebody else's are returned, for `let_go`. OSError."""
    needed: list[MarkedFolder] = []
    try:
        for place in places:
            place.parent.mkdir(parents=True, exist_ok=True)
            with _alone(place):
                if (mark := _marked(place)) is not None:
                    needed.append(MarkedFolder(place, mark))
    except BaseException:
        let_go(needed)
        raise
    return needed


def let_go(needed: Sequence[MarkedFolder]) -> None:
    """What nobody else needs is removed, of all of them: HostCannot, where one cannot be, comes after the others."""
    for one in needed:
        os.close(one.mark)
    remove_unneeded(one.place for one in needed)


def remove_unneeded(places: Iterable[Path]) -> None:
    """Those that are ours and that nobody needs any more, also where whoever did was killed. HostCannot as above."""
    with contextlib.ExitStack() as each:
        for place in places:
            each.callback(_remove_unneeded, place)


def _remove_unneeded(place: Path) -> None:
    with contextlib.suppress(FileNotFoundError), _alone(place), (place / _MARK).open() as mark:
        if try_lock(mark):
            (place / _MARK).unlink()
            with contextlib.suppress(OSError):  # something that is not ours moved in
                place.rmdir()


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """While nobody else makes or removes it: its parent is locked, for the moment that this takes. HostCannot where
    somebody else, whose lock it may be too, does not let go."""
    with closing_descriptor(os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as parent:
        until = time.monotonic() + _PATIENCE
        while not try_lock(parent):
            if time.monotonic() > until:
                raise HostCannot("another program holds its lock", str(place.parent), "see which: lslocks")
            time.sleep(0.02)
        yield


def _marked(place: Path) -> int | None:
    """The mark of a folder that is ours or becomes so, its lock shared; None of one that is somebody else's."""
    try:
        place.mkdir()
    except FileExistsError:
        if not (place / _MARK).exists():
            return None
    mark = os.open(place / _MARK, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try_lock(mark, shared=True)  # free but of those who share it: who removes it has its parent's
    return mark
