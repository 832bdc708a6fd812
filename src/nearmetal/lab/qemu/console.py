"""The guest's console, which QEMU writes to a file."""

from pathlib import Path
from typing import Final

_UP: Final = b"nearmetal: up after"
"""What the image's process 1 says before it starts sshd."""
_PANIC: Final = b"Kernel panic - not syncing"
LINES: Final = 15


class Console:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin = 0

    def forget(self) -> None:
        """Look from now on only at what is written later: another boot."""
        self._begin = len(self._read())

    def is_up(self) -> bool:
        return _UP in self._read()[self._begin :]

    def has_panicked(self) -> bool:
        return _PANIC in self._read()[self._begin :]

    def tail(self) -> str:
        """The last lines, for a person who asks why a guest did not come up."""
        lines = self._read().decode("utf-8", "replace").replace("\r", "").splitlines()
        last = [line for line in lines if line.strip()][-LINES:]
        return "\n".join(["last lines of its console:", *(f"  {line}" for line in last or ["(nothing)"])])

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""
