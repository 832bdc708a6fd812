"""Values that a host has once, whoever changes them: one ledger at a time does.

Each puts back what it found. Two at once, of different homes, would find each other's values, and leave the last of
them. So a file of the host's names the ledger that changed such values last, and nobody else changes any while it holds
some. It outlives its owner, so that after a `kill -9` the host is put right first. It goes when all is put back.
"""

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab import concurrent_runs
from nearmetal.lab.changes.ledger import outstanding
from nearmetal.lab.process_locks import try_lock
from nearmetal.model import Change, ChangeKind
from nearmetal.system.files import closing_descriptor

HERE = "site:local"
_SHARED: frozenset[ChangeKind] = frozenset({"sysctl", "irq", "cpuset", "bystanders"})
_FILE = "nearmetal-changes"
_LONGEST = 10.0
"""Seconds that another may take to note what it found."""
_AGAIN = 0.05


def is_shared(change: Change) -> bool:
    """Whether it is of a value that this host has once."""
    return change.on == HERE and change.kind in _SHARED


@contextmanager
def change_host(ledger: Path) -> Iterator[None]:
    """Note what is about to be changed in this ledger, and be the one who changes such values until it holds none any
    more. HostCannot if another one does.

    Where this user may not have the file, or another user made it, nobody is kept out.
    """
    with _hold_note() as descriptor:
        if descriptor is not None:
            holder = _read_holder(descriptor)
            if holder not in (Path(), ledger.resolve()) and _holds_some(holder):
                what = "another nearmetal has changed this host, and is to put back what it found"
                ends = "with its NEARMETAL_HOME, `nearmetal isolate off` or `nearmetal clean` ends it"
                raise HostCannot(what, str(holder), f"wait until it ends; {ends}")
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, os.fsencode(ledger.resolve()), 0)
        yield


def release_host(ledger: Path) -> None:
    """Take the file away, if it names this ledger, which holds no such value any more."""
    with _hold_note() as descriptor:
        if descriptor is not None and _read_holder(descriptor) == ledger.resolve() and not _holds_some(ledger):
            _path().unlink(missing_ok=True)


def _path() -> Path:
    return concurrent_runs.folder() / _FILE


@contextmanager
def _hold_note() -> Iterator[int | None]:
    """The file, and its lock; None where it cannot be had. HostCannot if another has it for long."""
    until = time.monotonic() + _LONGEST
    while True:
        try:
            descriptor = os.open(_path(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        except OSError:
            yield None
            return
        with closing_descriptor(descriptor):
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                yield None
                return
            if try_lock(descriptor) and _lies_there(descriptor):
                yield descriptor
                return
        if time.monotonic() > until:
            raise HostCannot("another nearmetal is changing this host", remedy="wait until it ends")
        time.sleep(_AGAIN)


def _lies_there(descriptor: int) -> bool:
    """Who had the lock before may have taken the file away."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), _path().stat())
    return False


def _read_holder(descriptor: int) -> Path:
    return Path(os.fsdecode(os.pread(descriptor, 4096, 0)))


def _holds_some(ledger: Path) -> bool:
    try:
        return any(is_shared(change) for _, change in outstanding(ledger).changes)
    except (FileNotFoundError, BadInput):  # nothing can be put back by what lies there
        return False
