"""The guest's console, which QEMU writes to a file."""

from typing import Final

from nearmetal.errors import ToolFailed
from nearmetal.model import Site

_UP: Final = b"nearmetal-agent: listening on"
"""What the probe's agent says in a guest of the lab's image."""
_PANIC: Final = b"Kernel panic - not syncing"
LINES: Final = 15


class Console:
    def __init__(self, site: Site, path: str) -> None:
        self._site = site
        self._path = path
        self._begin = 0

    async def forget(self) -> None:
        """Look from now on only at what is written later: another boot."""
        self._begin = len(await self._read())

    async def is_up(self) -> bool:
        return _UP in (await self._read())[self._begin :]

    async def has_panicked(self) -> bool:
        return _PANIC in (await self._read())[self._begin :]

    async def tail(self) -> str:
        """The last lines, for a person who asks why a guest did not come up; of a panic the first, which say why."""
        lines = (await self._read()).decode("utf-8", "replace").replace("\r", "").splitlines()
        filled = [line for line in lines if line.strip()]
        panics = [number for number, line in enumerate(filled) if _PANIC.decode() in line]
        begin = panics[-1] if panics else max(0, len(filled) - LINES)
        last = filled[begin : begin + LINES]
        return "\n".join(["last lines of its console:", *(f"  {line}" for line in last or ["(nothing)"])])

    async def _read(self) -> bytes:
        try:
            return await self._site.get(self._path)
        except ToolFailed:
            return b""
