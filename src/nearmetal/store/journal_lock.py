"""Who measures a run now: its journal bears a lock that everybody who may read it can see, and nobody takes by looking.

The kernel lets go of it when its holder dies, however it dies: what `kill -9` left is seen to be interrupted.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearmetal.errors import HostCannot
from nearmetal.system.files import closing_descriptor, open_regular

_FROM_A_COPY = "restore it from a copy of the run's folder"

_FLOCK = "hhqqi4x"
"""The kernel's `struct flock`: type, whence, start, length (0: all of it), process."""


@contextmanager
def hold_journal(journal: Path) -> Iterator[None]:
    """Hold a run's journal, which may not be there yet. HostCannot when another process holds it.

    On a file system without such locks nothing is held, and nobody sees who measures.
    """
    with closing_descriptor(_open_lockable(journal)) as descriptor:
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise make_taken_error(journal) from None
        yield


def _open_lockable(journal: Path) -> int:
    try:
        return open_regular(journal, _FROM_A_COPY, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        what = f"the run's journal cannot be written: {os.strerror(error.errno)}"
        remedy = "a run is measured in its own folder: make that writable, or copy it and go on with the copy"
        raise HostCannot(what, str(journal), remedy) from None


def make_taken_error(journal: Path) -> HostCannot:
    return HostCannot("this run is measured by another process", str(journal), "wait until it ends")


def is_locked(journal: Path) -> bool:
    """Whether a process holds the journal. OSError when it cannot be read, BadInput when it is no file."""
    descriptor = open_regular(journal, _FROM_A_COPY)
    try:
        asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(struct.unpack(_FLOCK, found)[0] != fcntl.F_UNLCK)
