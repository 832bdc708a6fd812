"""A file that another process appends lines to, read as it grows."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearmetal.store.journal import open_journal

Mark = tuple[int, int, int, int]
"""Of a file: device, inode, size, time of the last change in ns."""


@dataclass(frozen=True)
class Growth:
    """What has come since the last reading."""

    lines: Sequence[bytes]
    """Whole ones, without their ends; a last line that is still being written has not come yet."""
    rest: bytes
    """What there is of that one, also of a line that was begun before."""
    anew: bool
    """They begin another file than the one read so far: what that one said does not hold any more."""


class Follower:
    """Reads what has been appended since, from the file's beginning on. A file that is not there has no lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._seen: Mark | None = None

    def has_changed(self) -> bool:
        """Whether a reading might find anything: a look at the folder's entry, and none into the file."""
        return mark_file(self.path) != self._seen

    def read(self) -> Growth:
        """OSError when the file is there and cannot be read, BadInput when it is no file."""
        try:
            file = open_journal(self.path)
        except (FileNotFoundError, NotADirectoryError):
            was_there = self._seen is not None
            self._seen, self._offset = None, 0
            return Growth((), b"", was_there)
        with file:
            mark = _make_mark(os.fstat(file.fileno()))
            # Replaced, or cut to less than was read: an append-only file never is.
            anew = self._seen is not None and (mark[:2] != self._seen[:2] or mark[2] < self._offset)
            if anew:
                self._offset = 0
            self._seen = mark
            file.seek(self._offset)
            content = file.read()
        *whole, rest = content.split(b"\n")
        self._offset += len(content) - len(rest)
        return Growth(whole, rest, anew)


def mark_file(path: Path) -> Mark | None:
    """What tells a file from what it was; None of one that is not there, or may not be seen."""
    try:
        return _make_mark(path.stat())
    except OSError:
        return None


def _make_mark(status: os.stat_result) -> Mark:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
