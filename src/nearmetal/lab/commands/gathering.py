"""Commands that go on in the background, whose output is gathered meanwhile."""

import asyncio
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Protocol

from nearmetal.config import LIMITS
from nearmetal.errors import TimedOut
from nearmetal.model import Completed

_KILL_LIMIT: Final = 2.0
"""Seconds that a killed program has to be gone."""
_KILLED: Final = 128 + signal.SIGKILL
_PIECE: Final = 64 << 10


_gathered: Final[set["asyncio.Future[Completed]"]] = set()
"""What still reads. asyncio keeps none itself, and complains when one is thrown away with a program that goes on."""


class Stream(Protocol):
    async def read(self, most: int) -> bytes: ...


class Gathering(ABC):
    """A `SiteRunning`. Those who inherit read what the program says, and signal it."""

    def __init__(self, name: str = "") -> None:
        """`name`: what it runs on, for errors; it is being read from now on."""
        self.name = name
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._first: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._is_given_up = False
        self._end = asyncio.ensure_future(self._read())
        _gathered.add(self._end)
        self._end.add_done_callback(_gathered.discard)
        # When nobody waits any more, that the machine is gone is no news.
        self._end.add_done_callback(lambda end: end.cancelled() or end.exception())

    @abstractmethod
    async def gather(self) -> int:
        """Read to the end, call `said` and `complained` for each piece, and let go of what they came by: its status.

        It is cancelled when a program was killed and its output goes on.
        """

    @abstractmethod
    async def signal(self, number: signal.Signals) -> None:
        """To the program's process group; nothing where it has ended."""

    async def _read(self) -> Completed:
        try:
            status = await self.gather()
        except asyncio.CancelledError:
            if not self._is_given_up:
                raise
            status = _KILLED
        finally:
            if not self._first.done():
                self._first.set_result(bytes(self.stdout))
        return Completed(status=status, stdout=bytes(self.stdout), stderr=bytes(self.stderr))

    async def hear(self, stdout: Stream, stderr: Stream) -> None:
        """Both to their ends."""
        await asyncio.gather(_each_piece(stdout, self.said), _each_piece(stderr, self.complained))

    def said(self, piece: bytes) -> None:
        self.stdout += piece
        if not self._first.done() and b"\n" in piece:
            self._first.set_result(bytes(self.stdout).partition(b"\n")[0])

    def complained(self, piece: bytes) -> None:
        self.stderr += piece

    @property
    def has_ended(self) -> bool:
        return self._end.done()

    async def first_line(self, timeout: float) -> bytes:
        try:
            line = await asyncio.wait_for(asyncio.shield(self._first), timeout)
        except TimeoutError:
            raise TimedOut(f"the program said nothing for {timeout:g} s", self.name) from None
        if self.has_ended and not line:
            self._end.result()  # which raises when it was the machine that ended
        return line

    async def wait(self, timeout: float) -> Completed:
        try:
            return await asyncio.wait_for(asyncio.shield(self._end), timeout)
        except TimeoutError:
            raise TimedOut(f"the program still runs after {timeout:g} s", self.name) from None

    async def stop(self) -> Completed:
        if not self.has_ended:
            await self.signal(signal.SIGTERM)
        try:
            return await self.wait(LIMITS.stop)
        except TimedOut:
            return await self.kill()

    async def over(self) -> None:
        """Wait until nothing is read any more, for those who have let go of what it came by."""
        await asyncio.wait([self._end], timeout=_KILL_LIMIT)

    async def kill(self) -> Completed:
        if not self.has_ended:
            await self.signal(signal.SIGKILL)
        try:
            return await self.wait(_KILL_LIMIT)
        except TimedOut:
            # Something left its process group and holds on to its output.
            self._is_given_up = True
            self._end.cancel()
            return await self.wait(_KILL_LIMIT)


async def _each_piece(stream: Stream, take: Callable[[bytes], None]) -> None:
    while piece := await stream.read(_PIECE):
        take(piece)
