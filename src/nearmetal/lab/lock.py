"""Locks between processes. The kernel lets go of them when their holder dies, however it dies."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearmetal.errors import HostCannot


@contextmanager
def exclusive(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock on a file. HostCannot, saying what is busy, when somebody else holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HostCannot(busy, str(path), "wait until it ends") from None
        yield
