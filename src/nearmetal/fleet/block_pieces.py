"""What dispatches brought home, in the run's folder until its turn comes to stand in the journal.

Each lies in `ahead/BLOCK-ATTEMPT-DISPATCH-SITE/`: its events and its artifacts, whole or not at all. A run that ended
at a look keeps there what sites had measured beyond it.
"""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from nearmetal.fleet import site as on_site
from nearmetal.fleet.cluster import Fleet, SiteLost
from nearmetal.fleet.messages import ARTIFACTS, EVENTS, Part, Spool, SpooledFile
from nearmetal.model import TrialRecord
from nearmetal.run.block_events import TRANSIENT_PREFIXES, read_event, write_event
from nearmetal.run.events import TrialEnded
from nearmetal.store.events import Event
from nearmetal.store.run_folder import AHEAD, RunFolder
from nearmetal.system.files import make_folder, sync_folder, write_whole

CHUNK = 4 * 2**20
"""Bytes that cross at once."""
_UNFINISHED = "."


@dataclass(frozen=True)
class Piece:
    """One dispatch, as far as it came."""

    block: int
    attempt: int
    dispatch: int
    site: str
    folder: Path

    @classmethod
    def name_piece(cls, folder: RunFolder, block: int, attempt: int, dispatch: int, site: str) -> "Piece":
        path = folder.path / AHEAD / f"{block}-{attempt}-{dispatch}-{site}"
        return cls(block, attempt, dispatch, site, path)

    def read_events(self) -> Iterator[Event]:
        """In their order but for passing ones, each trial's record with the name of the site.

        A line that was cut does not count.
        """
        for line in (self.folder / EVENTS).read_bytes().split(b"\n")[:-1]:
            if line.startswith(TRANSIENT_PREFIXES):
                continue
            event = read_event(line)
            if isinstance(event, TrialEnded):
                event = event.model_copy(update={"record": event.record.model_copy(update={"site": self.site})})
            yield event

    def read_records(self) -> Iterator[TrialRecord]:
        return (event.record for event in self.read_events() if isinstance(event, TrialEnded))

    def place_artifacts(self, folder: RunFolder) -> None:
        """Move its files to those of the run. Once more, it goes on where it ended."""
        make_folder(folder.artifacts)
        for trial in sorted((self.folder / ARTIFACTS).glob("*")):
            target = folder.artifacts / trial.name
            try:
                trial.rename(target)
            except OSError:  # an earlier dispatch of this attempt had some of them
                for file in trial.iterdir():
                    file.replace(target / file.name)
                sync_folder(target)
        sync_folder(folder.artifacts)

    def remove_file(self) -> None:
        """The journal has all of it."""
        shutil.rmtree(self.folder)


def list_pieces(folder: RunFolder) -> list[Piece]:
    """In the order of their dispatches. What was not whole is removed."""
    found = []
    for path in (folder.path / AHEAD).glob("*"):
        if path.name.startswith(_UNFINISHED):
            shutil.rmtree(path)
            continue
        block, attempt, dispatch, site = path.name.split("-", 3)
        found.append(Piece(int(block), int(attempt), int(dispatch), site, path))
    return sorted(found, key=lambda piece: piece.dispatch)


def write_piece(piece: Piece, events: list[Event]) -> None:
    """One that the controller tells by itself."""
    unfinished = _begin_piece(piece)
    write_whole(unfinished / EVENTS, b"".join(map(write_event, events)))
    _finish(piece, unfinished)


async def fetch_piece(fleet: Fleet, run: str, piece: Piece, spool: Spool) -> None:
    """Bring home what a site has of a dispatch that has ended. SiteLost, also if what comes is not what was hashed."""
    if piece.folder.exists():  # who fetched it was cancelled, and it came home all the same
        return
    unfinished = _begin_piece(piece)
    for parts in _divide_files(spool.files):
        # A block has a file or more for each trial: one after the other each would be a message to the site and back.
        contents = await fleet.ask_site(piece.site, on_site.read_parts, run, piece.dispatch, parts)
        for part, content in zip(parts, contents, strict=False):
            target = unfinished / part.path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab") as written:
                written.write(content)
    # In a thread: what waits for the disk there does not keep other sites waiting.
    keeping = asyncio.ensure_future(asyncio.to_thread(_keep, piece, spool, unfinished))
    try:
        await asyncio.shield(keeping)
    except asyncio.CancelledError:
        await asyncio.wait({keeping})  # whoever fetches it once more is alone with its files
        raise


def _keep(piece: Piece, spool: Spool, unfinished: Path) -> None:
    """Have on disk what was brought home, if that is what was hashed. SiteLost."""
    for file in spool.files:
        with (unfinished / file.path).open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != file.sha256:
                what = f"what the site {piece.site} has of {file.path} is not what it was: its SHA-256 is another"
                raise SiteLost(what)
            os.fsync(content.fileno())
    for folder in {unfinished / folder for file in spool.files for folder in PurePath(file.path).parents}:
        sync_folder(folder)
    _finish(piece, unfinished)


def _divide_files(files: Iterable[SpooledFile]) -> Iterator[list[Part]]:
    """All of each file, by parts that cross at once."""
    parts: list[Part] = []
    for file in files:
        for offset in range(0, max(1, file.size), CHUNK):
            part = Part(file.path, offset, min(CHUNK, file.size - offset))
            if parts and sum(one.size for one in parts) + part.size > CHUNK:
                yield parts
                parts = []
            parts.append(part)
    yield parts


def _begin_piece(piece: Piece) -> Path:
    unfinished = piece.folder.with_name(f"{_UNFINISHED}{piece.folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    make_folder(unfinished)
    return unfinished


def _finish(piece: Piece, unfinished: Path) -> None:
    sync_folder(unfinished)
    unfinished.rename(piece.folder)
    sync_folder(piece.folder.parent)
