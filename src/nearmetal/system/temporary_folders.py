"""Folders for what one command needs while it runs. `clean` removes those of a command that was killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from nearmetal.config import Paths
from nearmetal.system.files import closing_descriptor

_LOCK = ".lock"
"""In each folder. NFS gives the lock for oneself alone only to a file that is open for writing."""
_WRITING = os.O_RDWR | os.O_CREAT


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """For its owner alone, and removed at the end. It is locked meanwhile, by which `sweep_folders` knows that it
    is in use.

    OSError if none can be made.
    """
    parent = _find_parent()
    with ExitStack() as held:
        with ExitStack() as making:
            try:
                parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                making.enter_context(
                    _lock(parent, os.O_DIRECTORY, fcntl.LOCK_SH)
                )  # no sweep before the new folder is locked
            except OSError:  # a user without a folder of state can analyse a capture all the same
                parent = Path(tempfile.gettempdir())
            made = Path(tempfile.mkdtemp(dir=parent, prefix="nearmetal-"))
            held.callback(shutil.rmtree, made, ignore_errors=True)
            held.enter_context(_lock(made / _LOCK, _WRITING, fcntl.LOCK_EX))
        yield made


def sweep_folders() -> None:
    """Remove the folders whose commands are dead. Blocks. On NFS, which lets nobody have a folder alone, they stay."""
    alone = fcntl.LOCK_EX | fcntl.LOCK_NB
    with suppress(OSError), _lock(_find_parent(), os.O_DIRECTORY, alone):
        for folder in _find_parent().iterdir():
            with suppress(OSError), _lock(folder / _LOCK, _WRITING, alone):
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _lock(path: Path, flags: int, how: int) -> Iterator[None]:
    """OSError, also if it is locked already and `how` is not to wait."""
    with closing_descriptor(os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)) as descriptor:
        fcntl.flock(descriptor, how)
        yield


def _find_parent() -> Path:
    return Paths.default().state / "temporary"
