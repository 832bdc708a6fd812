"""The guest's console, which QEMU appends to a file. A guest may do so without an end: its middle is given up."""

import os
from typing import Final

from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.lab.local_site import run_checked
from nearmetal.model import Site

_UP: Final = b"nearmetal-agent: listening on"
"""What the probe's agent says in a guest of the lab's image."""
_PANIC: Final = b"Kernel panic - not syncing"
_END: Final = "---[ end "
"""By which a kernel says once more, last, that it panicked."""
_CAUSES: Final = ("BUG: ", "Oops: ", "RIP: 0010:")
"""Lines by which a kernel says what went wrong, and where, before it panics of that."""
_TRACE: Final = 100
"""Lines that registers and stacks take in between."""
_CARRIED: Final = max(len(_UP), len(_PANIC)) - 1
"""Bytes of a look that the next one has too: what is looked for may have come in two."""
_LOOK: Final = 1 << 20
"""Bytes that are read at a time, while all else waits."""
_TAIL: Final = 64 << 10
_BLOCK: Final = 512
"""Bytes; the unit of stat(2)."""
LINES: Final = 15
MOST: Final = 16 << 20
"""Bytes of disk that it may take before its middle is given back."""
_KEPT: Final = 1 << 20
"""Bytes that stay of its begin and of its end."""
_SIZES: Final = '[ ! -e "$1" ] || exec stat -c "%s %b" -- "$1"'
_NO_TEXT: Final = str.maketrans("", "", "\r\0")


class Console:
    """What it tells is of one boot, as far as somebody looked."""

    def __init__(self, site: Site, path: str) -> None:
        self._site = site
        self._path = path
        self._begin_at(0)

    def _begin_at(self, offset: int) -> None:
        self.is_up = False
        self._panic: int | None = None
        """Where the line begins that says so first."""
        self._read = offset
        self._carried = b""

    @property
    def has_panicked(self) -> bool:
        return self._panic is not None

    async def forget(self) -> None:
        """Look from now on only at what is written later: another boot."""
        self._begin_at((await self._sizes())[0])

    async def look(self) -> None:
        """At what was written since the last look, or a part of it."""
        text = self._carried + await self._site.part(self._path, self._read, _LOOK)
        begin = self._read - len(self._carried)
        self.is_up = self.is_up or _UP in text
        if self._panic is None and (panic := text.find(_PANIC)) >= 0:
            self._panic = begin + text.rfind(b"\n", 0, panic) + 1
        self._read = begin + len(text)
        self._carried = text[-_CARRIED:]

    async def bound(self) -> None:
        """Give back the disk that the middle takes: what follows stays where it is. HostCannot.

        QEMU has no way to do so itself, and a file that is cut would be another one to who reads on.
        """
        size, taken = await self._sizes()
        if taken > MOST:
            hole = ("--offset", str(_KEPT), "--length", str(size - 2 * _KEPT))
            await run_checked(self._site, "fallocate", "--punch-hole", *hole, self._path)

    async def tail(self) -> str:
        """The last lines, for a person who asks why a guest is not up; of a panic the first, and what led to it."""
        try:
            last = await self._last_lines()
        except (HostCannot, ToolFailed) as error:
            last = [f"({error.what})"]  # what made somebody ask is told all the same
        return "\n".join(["last lines of its console:", *(f"  {line}" for line in last or ["(nothing)"])])

    async def _last_lines(self) -> list[str]:
        filled = await self._lines(max(0, (await self._sizes())[0] - _TAIL))
        panics = [number for number, line in enumerate(filled) if _PANIC.decode() in line and _END not in line]
        if self._panic is not None and not panics:
            filled = await self._lines(self._panic) or filled[-LINES:]  # unless it was in the middle of a flood
            return filled[:LINES]
        if not panics:
            return filled[-LINES:]
        trace = filled[max(0, panics[-1] - _TRACE) : panics[-1]]
        causes = [line for line in trace if any(sign in line for sign in _CAUSES)]
        return [*causes[-3:], *filled[panics[-1] :]][:LINES]

    async def _lines(self, begin: int) -> list[str]:
        """Those from there on that are not empty."""
        text = (await self._site.part(self._path, begin, _TAIL)).decode("utf-8", "replace")
        return [line for line in text.translate(_NO_TEXT).splitlines() if line.strip()]

    async def _sizes(self) -> tuple[int, int]:
        """Bytes that it has, and that it takes of the disk."""
        if self._site.spec is None:  # without a program: this may be asked while somebody measures
            try:
                found = os.stat(self._path)  # noqa: PTH116
            except FileNotFoundError:
                return 0, 0
            return found.st_size, found.st_blocks * _BLOCK
        words = (await run_checked(self._site, "sh", "-c", _SIZES, "sizes", self._path)).split()
        return (int(words[0]), int(words[1]) * _BLOCK) if words else (0, 0)
