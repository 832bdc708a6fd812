"""Files that are as before or complete, never in between, whoever looks and whatever ends their writer; and how a file
of ours is opened that somebody else may have put there."""

import contextlib
import errno
import glob
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from nearmetal.errors import BadInput


def refuse_irregular(path: str | Path, most: int | None = None) -> None:
    """OSError for a file of the user's that is no regular one, which might never end, or not even open.

    Also for one of more than `most` bytes, if it is to be read as a whole.
    """
    found = os.stat(path)  # noqa: PTH116  the path of a message is as the user wrote it
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    if most is not None and found.st_size > most:
        raise OSError(errno.EFBIG, f"it has {found.st_size} bytes, and at most {most} are read", str(path))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is either as before or complete, also after a power cut; its folders are made.

    OSError, which names the file.
    """
    make_folder(path.parent)
    _replace_content(path, content, lasting=True)
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents; they are there after a power cut too. OSError."""
    new = list_missing(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for place in reversed(new):
        sync_folder(place.parent)


def sync_folder(folder: Path) -> None:
    """Have on disk which files a folder has: fsync of a new file alone does not keep its name (fsync(2)). OSError."""
    with closing_descriptor(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def closing_descriptor(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file at once, for content that a power cut may take: no disk is waited for.

    OSError, also where its folder is not there.
    """
    _replace_content(path, content, lasting=False)


@contextlib.contextmanager
def name_file(path: Path) -> Iterator[None]:
    """An OSError meanwhile that names no file, such as of a full disk, is about this one."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def _replace_content(path: Path, content: bytes, *, lasting: bool) -> None:
    # Several may write the same file: the last one's stays, and it is whole. And the folder may be somebody else's: a
    # name that can be guessed could be a link there, and one that is made anew is followed nowhere.
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with name_file(path), unfinished.open("xb") as file:
            file.write(content)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def remove_file(path: Path) -> None:
    """With what writers that were killed had not finished: nobody may write it any more. OSError."""
    path.unlink(missing_ok=True)
    for unfinished in path.parent.glob(f".{glob.escape(path.name)}.*"):
        unfinished.unlink(missing_ok=True)


def claim_file(path: Path, content: bytes) -> bool:
    """Write a file that is not there yet, for its owner alone; whether it was not. OSError, which names the file.

    Another process may do the same at this moment: the first to link its file wins, and the file is whole.
    """
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=".")  # readable by its owner alone
    try:
        with name_file(path), os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.link(unfinished, path)
    except FileExistsError:
        return False
    finally:
        Path(unfinished).unlink()
    return True


def open_regular(path: Path, remedy: str, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
    """A descriptor of a regular file. BadInput, with that remedy, for a pipe or a device: whoever opens or reads one of
    these waits for its other end, or finds no end. OSError."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadInput("this is not a file", str(path), remedy)
    return descriptor


def read_regular(path: Path, remedy: str) -> bytes:
    """The content of a regular file. BadInput and OSError as of `open_regular`."""
    with os.fdopen(open_regular(path, remedy), "rb") as file:
        return file.read()


def list_missing(folder: Path) -> list[Path]:
    """A folder and its parents as far as they are not there yet, innermost first."""
    return list(takewhile(lambda place: not place.exists(), (folder, *folder.parents)))


def remove_empty(folders: Iterable[Path]) -> None:
    """Those that are there and hold nothing."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
