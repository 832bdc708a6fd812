"""Output whose reader may go away, as `head` does: the work goes on, since trials are worth more than words."""

import os
import sys
from collections.abc import Iterable
from typing import IO, Any, TextIO


class PatientStream:
    """A text stream that falls silent instead of failing once nobody reads it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            fall_silent(self._stream)
            return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            fall_silent(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def fall_silent(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def write_whole(stream: IO[bytes], content: bytes) -> None:
    """Where Python was told not to buffer (PYTHONUNBUFFERED), a write may take less than it was given."""
    rest = memoryview(content)
    while rest:
        rest = rest[stream.write(rest) :]
    stream.flush()


def wait_on_full_pipes() -> None:
    """Have both of this process's outputs so. Standard streams that are closed lead nowhere.

    Left closed, their numbers would be given to the next files that are opened, and what is said would go there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
            os.set_inheritable(nowhere, True)
            setattr(sys, name, open(nowhere, "w" if number else "r", closefd=False))  # noqa: SIM115
    sys.stdout, sys.stderr = PatientStream(sys.stdout), PatientStream(sys.stderr)
