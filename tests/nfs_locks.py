"""Locks as NFS gives them: the one that is for oneself alone takes a file that is open for writing (flock(2))."""

import errno
import fcntl
import os
from typing import IO, Any

import pytest

_FLOCK = fcntl.flock


def lock_as_on_nfs(monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: int | IO[Any], how: int) -> None:
        number = file if isinstance(file, int) else file.fileno()
        if how & fcntl.LOCK_EX and fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        _FLOCK(number, how)

    monkeypatch.setattr(fcntl, "flock", flock)
