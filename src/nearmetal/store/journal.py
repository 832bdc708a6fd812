"""The journal of a run: one JSON line per record or event, append-only, fsynced, safe against a torn last line."""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nearmetal.errors import BadInput
from nearmetal.model import TrialRecord


class Journal:
    """Appends lines. A line is on disk when `append` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._cut_torn_line()

    def append(self, line: dict[str, Any]) -> None:
        """OSError when the disk is full; the journal then ends with the line before."""
        content = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        before = os.fstat(self._descriptor).st_size
        try:
            if os.write(self._descriptor, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise

    def close(self) -> None:
        os.close(self._descriptor)

    def _cut_torn_line(self) -> None:
        """A crash in the middle of a write leaves a line without an end; what it said never counted."""
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            os.ftruncate(self._descriptor, whole)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole line. BadInput, with the line's number, when one is not JSON."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if not raw.endswith(b"\n"):
                return
            try:
                line = json.loads(raw)
            except ValueError as error:
                raise BadInput(
                    f"line {number} is not JSON ({error})", str(path), "restore the file from a copy; it is append-only"
                ) from None
            yield line


def records(path: Path) -> Iterator[TrialRecord]:
    """The trials of a journal, in the order they ended."""
    for line in lines(path):
        if line.get("schema") == "record.v1":
            yield TrialRecord.from_json(line)


def events(path: Path) -> Iterator[dict[str, Any]]:
    """Everything else: events of the run, each `{"schema": "event.v1", "event": NAME, ...}`."""
    for line in lines(path):
        if line.get("schema") == "event.v1":
            yield line
