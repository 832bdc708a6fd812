"""Locks between processes. The kernel lets go of them when their holder dies, however it dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from nearmetal.config import Paths
from nearmetal.errors import HostCannot


def measuring() -> AbstractContextManager[None]:
    """One measurement at a time on a host, and nothing that would disturb it."""
    return exclusive(Paths.default().state / "measuring.lock", "another run is measuring on this host")


@contextmanager
def exclusive(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock on a file, which says who does. HostCannot, with what is busy and who, when somebody else has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip()
            raise HostCannot(f"{busy}{f' ({holder})' if holder else ''}", str(path), "wait until it ends") from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        yield
