"""Commands that go on in the background, and the collector of their output."""

import asyncio
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from typing import Final, Protocol

from nearmetal.config import LIMITS
from nearmetal.errors import TimedOut, ToolFailed
from nearmetal.model import Completed
from nearmetal.units import show_size

MOST: Final = 256 << 20
"""Bytes that a program may print, unless `limit_output` says another number. Reports of tools take a few MiB; a machine
that says more, and ever more, must not take this host's memory."""

_KILL_LIMIT: Final = 2.0
"""Seconds that a killed program has to be gone."""
_KILLED: Final = 128 + signal.SIGKILL
_PIECE: Final = 64 << 10


def list_signals(number: signal.Signals) -> Sequence[signal.Signals]:
    """What is sent to a process group for a signal: what is stopped hears that it shall end no sooner than it is
    continued. Pure. The probe does the same by itself."""
    return (number, signal.SIGCONT) if number is signal.SIGTERM else (number,)


_gathered: Final[set["asyncio.Future[Completed]"]] = set()
"""What still reads. asyncio keeps none itself, and complains when one is thrown away with a program that goes on."""

_most: Final[ContextVar[int | None]] = ContextVar("most", default=None)
_kept: Final[ContextVar[int | None]] = ContextVar("kept", default=None)


@contextmanager
def _set_within(variable: ContextVar[int | None], value: int) -> Iterator[None]:
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def limit_output(most: int) -> AbstractContextManager[None]:
    """What is started in here may print so many bytes, as a file that is fetched whole."""
    return _set_within(_most, most)


def keep_last_output(kept: int) -> AbstractContextManager[None]:
    """Of what is started in here the last bytes of each stream are kept, at least so many, however much it prints."""
    return _set_within(_kept, kept)


async def write_stdin(writer: asyncio.StreamWriter, content: bytes) -> None:
    """Hand a program all that it reads on standard input, and the end of that. It need not read it."""
    with suppress(OSError):
        writer.write(content)
        await writer.drain()
        writer.write_eof()


class ByteStream(Protocol):
    async def read(self, most: int) -> bytes: ...


class OutputCollector(ABC):
    """A `SiteRunning`. Those who inherit read what the program says, and signal it."""

    def __init__(self, name: str = "") -> None:
        """`name`: what it runs on, for errors; it is being read from now on."""
        self.name = name
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._most = _most.get() or MOST
        self._kept = _kept.get()
        self._first: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._is_given_up = False
        self._killing: asyncio.Future[Completed] | None = None
        """Because it printed more than it may."""
        self.unsignalled = ""
        """Why a signal did not reach it, where it did not."""
        self._end = asyncio.ensure_future(self._read())
        _gathered.add(self._end)
        self._end.add_done_callback(_gathered.discard)
        # When nobody waits any more, that the machine is gone is no news.
        self._end.add_done_callback(lambda end: end.cancelled() or end.exception())

    @abstractmethod
    async def collect_output(self) -> int:
        """Read to the end with `add_stdout` and `add_stderr` for each piece, close the streams, and return the status.

        It is cancelled when a program was killed and its output goes on.
        """

    @abstractmethod
    async def signal(self, number: signal.Signals) -> None:
        """To the program's process group; nothing where it has ended."""

    async def _read(self) -> Completed:
        try:
            status = await self.collect_output()
        except asyncio.CancelledError:
            if not self._is_given_up:
                raise
            status = _KILLED
        finally:
            if not self._first.done():
                self._first.set_result(bytes(self.stdout))
        if self._killing:
            what = f"the program printed more than {show_size(self._most)}, of which no more is read"
            if self._is_given_up and self.unsignalled:
                what += f"; it may go on running: {self.unsignalled}"
            raise ToolFailed(what, self.name, "have it write to a file")
        return Completed(status=status, stdout=bytes(self.stdout), stderr=bytes(self.stderr))

    async def read_streams(self, stdout: ByteStream, stderr: ByteStream) -> None:
        """Both to their ends."""
        await asyncio.gather(_read_pieces(stdout, self.add_stdout), _read_pieces(stderr, self.add_stderr))

    def add_stdout(self, piece: bytes) -> None:
        if self._is_too_much(piece):
            return
        self._take(self.stdout, piece)
        if not self._first.done() and b"\n" in piece:
            self._first.set_result(bytes(self.stdout).partition(b"\n")[0])

    def add_stderr(self, piece: bytes) -> None:
        if not self._is_too_much(piece):
            self._take(self.stderr, piece)

    def _take(self, stream: bytearray, piece: bytes) -> None:
        stream += piece
        if self._kept is not None and len(stream) > 2 * self._kept:  # seldom, for all that follows has to move
            del stream[: -self._kept]

    def _is_too_much(self, piece: bytes) -> bool:
        """Then it is killed, and what it says until it is gone is thrown away."""
        if self._kept is not None:
            return False
        if self._killing is None and len(self.stdout) + len(self.stderr) + len(piece) > self._most:
            self._killing = asyncio.ensure_future(self.kill())
            self._killing.add_done_callback(lambda killed: killed.cancelled() or killed.exception())
        return self._killing is not None

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

    async def wait_read_end(self) -> None:
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


async def _read_pieces(stream: ByteStream, take: Callable[[bytes], None]) -> None:
    while piece := await stream.read(_PIECE):
        take(piece)
