"""Commands that go on in the background, whose output is gathered meanwhile."""

import asyncio
import signal
from abc import ABC, abstractmethod

from nearmetal.config import LIMITS
from nearmetal.errors import TimedOut
from nearmetal.model import Completed


class Gathering(ABC):
    """A `SiteRunning`. Those who inherit read what the program says, and signal it."""

    def __init__(self, name: str = "") -> None:
        """`name`: what it runs on, for errors; it is being read from now on."""
        self.name = name
        self.stdout = bytearray()
        self._first: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._end = asyncio.ensure_future(self._read())
        # When nobody waits any more, that the machine is gone is no news.
        self._end.add_done_callback(lambda end: end.cancelled() or end.exception())

    @abstractmethod
    async def gather(self) -> Completed:
        """Read to the end, and call `said` for each piece of the standard output."""

    @abstractmethod
    async def signal(self, number: signal.Signals) -> None:
        """To the program's process group; nothing where it has ended."""

    async def _read(self) -> Completed:
        try:
            return await self.gather()
        finally:
            if not self._first.done():
                self._first.set_result(bytes(self.stdout))

    def said(self, piece: bytes) -> None:
        self.stdout += piece
        if not self._first.done() and b"\n" in piece:
            self._first.set_result(bytes(self.stdout).partition(b"\n")[0])

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

    async def kill(self) -> Completed:
        if not self.has_ended:
            await self.signal(signal.SIGKILL)
        return await self.wait(LIMITS.stop)
