"""Locks between processes. The kernel lets go of them when their holder dies, however it dies."""

import contextlib
import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from nearmetal.config import LIMITS, Paths
from nearmetal.errors import HostCannot
from nearmetal.lab import concurrent_runs, host_lock
from nearmetal.progress_messages import Say, ignore_text
from nearmetal.system.files import closing_descriptor, name_file

LOCK_FILE = ".lock"
"""Of a folder, whose lock it bears."""

_MEASURING = "measuring.lock"
_PRETENDING = "pretending"
_NAMED = re.compile(rb'^process ([0-9]+)\b|"process": ?([0-9]+)')
_LONGEST_HOLDER = 5000
"""Characters: a path has at most 4,096."""
_AGAIN = 0.05
"""Seconds between two attempts."""
_LOOKS = 3
"""Into /proc/locks, before it is believed that nobody took a lock who could be seen."""
_TOLD = 1.0
"""Seconds after which it is said what is waited for."""


def try_lock(file: int | IO[Any], *, shared: bool = False) -> bool:
    """Have the lock that a file bears, until the file is closed; without waiting. Whether it was free.

    A shared one keeps only those out who want it for themselves. On NFS one's own takes a file that is open for
    writing. HostCannot if its file system gives none.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        place = Path(f"/proc/self/fd/{file if isinstance(file, int) else file.fileno()}").readlink()
        remedy = "name a folder on a disk of this host: NEARMETAL_HOME"
        raise HostCannot(f"its file system gives no lock: {error.strerror}", str(place), remedy) from error
    return True


@contextmanager
def hold_measuring_lock(say: Say = ignore_text, what: str = "") -> Iterator[int]:
    """One measurement at a time on a host, and nothing that would disturb it. Other homes are seen, not kept out.

    `what` is measured: who has to wait is told so. HostCannot, also if somebody who came by SSH measures here.

    The descriptor that bears the lock: a process that has it too holds the lock as long as it lives.
    """
    path = Paths.default().state / _MEASURING
    busy = "another run is measuring on this host"
    with hold_exclusive_lock(path, busy, say, what) as descriptor, host_lock.share_here(), concurrent_runs.present():
        yield descriptor


@contextmanager
def hold_pretending_lock() -> Iterator[int]:
    """A lock that each run of pretended machines has for itself: who cleans waits for what is left of a dead one.

    The descriptor that bears it, as of `hold_measuring_lock`. OSError.
    """
    folder = Paths.default().state / _PRETENDING
    folder.mkdir(parents=True, exist_ok=True)
    unseen = folder / secrets.token_hex(8)
    path = unseen.with_suffix(".lock")  # it is locked before it is seen
    with unseen.open("x") as file:
        try:
            try_lock(file)
            _write_holder(file, unseen)
            unseen.rename(path)
            yield file.fileno()
        finally:
            for each in (unseen, path):
                each.unlink(missing_ok=True)


@contextmanager
def hold_exclusive_lock(path: Path, busy: str, say: Say = ignore_text, what: str = "") -> Iterator[int]:
    """Hold a lock on a file, which says who does and for what, and give its descriptor. HostCannot, with what is busy
    and who, when somebody else has it.

    OSError, which names the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        if not lock_after_dead(file, LIMITS.boot, say):
            file.seek(0)
            holder = file.read(_LONGEST_HOLDER).strip()
            raise HostCannot(f"{busy}{f' ({holder})' if holder else ''}", str(path), "wait until it ends")
        _write_holder(file, path, what)
        yield file.fileno()


def _write_holder(file: IO[Any], path: Path, what: str = "") -> None:
    """OSError, which names the file."""
    with name_file(path):
        file.truncate(0)
        holder = f"process {os.getpid()}{what and ': '}{what}"
        os.write(file.fileno(), holder.encode())  # what a file object keeps fails once more later


def wait_for_dead_run(say: Say = ignore_text) -> None:
    """Wait while what is left of a run whose controller is dead puts right what it made. Nobody else is waited for."""
    state = Paths.default().state
    for path in (state / _MEASURING, *(state / _PRETENDING).glob("*.lock")):
        with contextlib.suppress(FileNotFoundError), path.open("r+") as file:
            if lock_after_dead(file, LIMITS.boot, say) and path.parent != state:
                path.unlink()


def lock_after_dead(file: int | IO[Any], limit: float, say: Say = ignore_text) -> bool:
    """`try_lock`, but wait for at most `limit` seconds if the process that took the lock is dead.

    What it started may have the lock still: what is left of its run, until all is put right, or a child that was to
    become another program when its parent was killed.
    """
    began = time.monotonic()
    is_told = False
    unseen = 0
    while not (is_ours := try_lock(file)) and time.monotonic() < began + limit:
        taker = _find_taker(file) or _read_named_holder(file)
        if taker is None:  # the lock has become free just now, or others have, which hides lines of /proc/locks
            unseen += 1
            if unseen == _LOOKS:
                break
            continue
        if Path(f"/proc/{taker}").exists():
            break
        if not is_told and time.monotonic() > began + _TOLD:
            say(f"a run whose controller was killed still puts right what it made: it has up to {limit:g} s")
            is_told = True
        time.sleep(_AGAIN)
    return is_ours


def _find_taker(file: int | IO[Any]) -> int | None:
    """The process that took a file's lock, which may be dead; None where the kernel tells of none."""
    inode = os.fstat(file if isinstance(file, int) else file.fileno()).st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        match line.split():
            case [_, "FLOCK", _, _, process, place, *_] if place.rpartition(":")[2] == str(inode):
                return int(process)
    return None


def _read_named_holder(file: int | IO[Any]) -> int | None:
    """The process that a file names as its holder: `hold_exclusive_lock` and ledgers write it.

    In a process namespace, as of a container, /proc/locks leaves out locks that a dead process took.
    """
    said = os.pread(file if isinstance(file, int) else file.fileno(), 512, 0)
    found = _NAMED.search(said)
    return int(found[1] or found[2]) if found else None


@contextmanager
def lock_file(folder: Path, *, is_private: bool = False) -> Iterator[int]:
    """The file that bears the lock of a folder in the cache, as a descriptor; both are made. HostCannot.

    `is_private`: for their owner alone.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700 if is_private else 0o777)
        flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
        descriptor = os.open(folder / LOCK_FILE, flags, 0o600 if is_private else 0o644)
    except OSError as error:
        raise HostCannot(
            f"the cache cannot be written: {error.strerror}", str(folder), "run as root, or set NEARMETAL_HOME"
        ) from error
    with closing_descriptor(descriptor):
        yield descriptor
