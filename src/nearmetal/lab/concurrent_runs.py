"""Who else measures on this host: runs of other homes, which no lock of one home keeps out.

Each holds a byte of one file of the host's, that of its process, by a lock that the kernel lets go of when its holder
dies. Who may not have that file, or has another /run/lock, as in a container, is not seen and sees nobody.

Any user can lock any byte of it. So a lock counts only if a process stands behind it that is root's or our own user's,
runs nearmetal and has the file open.
"""

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearmetal.model import Warned
from nearmetal.system import user_namespace
from nearmetal.system.files import closing_descriptor

_FILE = "nearmetal-measuring"
"""Not the lock of a machine that is measured by SSH (`nearmetal.lab.host_lock`)."""
_FLOCK = "hhqqi4x"
"""The kernel's `struct flock`: type, whence, start, length (0: to the end), process."""
_NOBODY = "65534"
"""As what the kernel shows users who are not in a namespace (/proc/sys/kernel/overflowuid)."""
_PIDS = 1 << 22
"""No process id is as large."""


def folder() -> Path:
    """Where files of this host lie that its runs see each other by, of whatever home."""
    return Path(os.environ.get("NEARMETAL_LOCKS", "/run/lock"))


def _path() -> Path:
    return folder() / _FILE


_acting_for: list[int] = []
"""The process of the same run that is seen by others, if it is not this one."""


def act_for(process: int) -> None:
    """Be a part of the run of this process, which is no other."""
    _acting_for[:] = [process]


def run_process() -> int:
    """The process of this run that is seen by others."""
    return (_acting_for or [os.getpid()])[0]


def _own() -> int:
    """The byte of this run's process: containers count theirs by themselves."""
    return Path("/proc/self/ns/pid").stat().st_ino * _PIDS + run_process()


@contextmanager
def present() -> Iterator[None]:
    """Be seen by others."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            descriptor = _opened()
            held.callback(os.close, descriptor)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock(fcntl.F_WRLCK, _own(), 1))
        yield


def _opened() -> int:
    """Everybody's. Who comes second may not be allowed to make it, where it is another user's."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with contextlib.suppress(FileNotFoundError):
        return os.open(_path(), flags)
    # Only what we made has its mode changed: who may write in the folder may have put something else there since.
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(_path(), flags | os.O_CREAT | os.O_EXCL, 0o666)
        os.fchmod(descriptor, 0o666)  # whatever the umask
        return descriptor
    return os.open(_path(), flags)


def other() -> int | None:
    """The process of another nearmetal that measures on this host; None for none."""
    try:
        descriptor = os.open(_path(), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    # A file system may be without such locks.
    with closing_descriptor(descriptor), contextlib.suppress(OSError):
        own = _own()
        found = _locked(descriptor, 0, own) or _locked(descriptor, own + 1, 0)
        return None if found is None else next(_holders(descriptor, own), _out_of_sight(found, own))
    return None


def _locked(descriptor: int, start: int, length: int) -> int | None:
    """The first byte of a lock that covers some of these."""
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock(fcntl.F_RDLCK, start, length))
    kind, _, found, *_ = struct.unpack(_FLOCK, answer)
    return None if kind == fcntl.F_UNLCK else found


def _holders(descriptor: int, own: int) -> Iterator[int]:
    """The processes that lock a byte of theirs, as their own namespace counts them."""
    # In a namespace of an ordinary user's, root of the host looks like all others who are not in it.
    users = {"0", str(os.geteuid()), *([_NOBODY] if user_namespace.is_entered() else ())}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, KeyError):
            if b"nearmetal" not in (process / "cmdline").read_bytes():
                continue
            status = dict(line.partition(":")[::2] for line in (process / "status").read_text().splitlines())
            # The owner of the folder says nothing: it is root also for what anybody keeps from being looked into.
            if not set(status["Uid"].split()[:2]) <= users:
                continue
            number = int(status["NSpid"].split()[-1])
            byte = _namespace(process, own) * _PIDS + number
            if byte != own and _locked(descriptor, byte, 1) is not None and _may_have_open(process, descriptor):
                yield number


def _namespace(process: Path, own: int) -> int:
    """Of its process ids. One that may not be looked at is taken to be in ours."""
    try:
        return (process / "ns/pid").stat().st_ino
    except PermissionError:
        return own // _PIDS


def _may_have_open(process: Path, descriptor: int) -> bool:
    """Whether a process has the same file open. True if that may not be looked at: it is root's then."""
    try:
        files = list((process / "fd").iterdir())
    except PermissionError:
        return True
    for file in files:
        with contextlib.suppress(OSError):
            if os.path.samestat(file.stat(), os.fstat(descriptor)):
                return True
    return False


def _out_of_sight(byte: int, own: int) -> int | None:
    """The process of another container, of which no more is seen: it counts if containers were given a folder of locks
    to share."""
    return byte % _PIDS if "NEARMETAL_LOCKS" in os.environ and byte // _PIDS != own // _PIDS else None


def _lock(kind: int, start: int, length: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, start, length, 0)


def disturbs(process: int) -> str:
    """What is said to whoever begins something beside it."""
    return f"another nearmetal (process {process}) measures on this host, and this disturbs it"


def warning() -> Warned | None:
    """What a trial is to say that is measured now."""
    if other() is None:
        return None
    # Not which process: of several trials numbers are told as a range.
    return Warned(code="another-run", text="another nearmetal was at work on this host: each disturbed the other")
