"""Commands on the other side of a connection: what is the same whatever the connection is."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property

from nearmetal.config import LIMITS
from nearmetal.errors import MachineLost, TimedOut
from nearmetal.lab import machine_files
from nearmetal.model import Completed, SiteRunning


class StartedCommands(ABC):
    """`exec` and `spawn` of `Commands`. Those who inherit start each command."""

    name: str
    trouble: MachineLost | None = None
    """Why it counts as lost although it answers, once that is so."""

    @abstractmethod
    async def start(self, argv: Sequence[str], env: Mapping[str, str] | None, stdin: bytes) -> SiteRunning:
        """MachineLost; BadInput for words that no program can be given."""

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = LIMITS.command,
    ) -> Completed:
        command = await self._started(argv, env, stdin)
        try:
            return await command.wait(timeout)
        except TimedOut:
            await command.kill()
            raise TimedOut(f"`{' '.join(argv)[:200]}` did not end within {timeout:g} s", self.name) from None
        except asyncio.CancelledError:
            await command.kill()
            raise

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> SiteRunning:
        return await self._started(argv, env, b"")

    async def _started(self, argv: Sequence[str], env: Mapping[str, str] | None, stdin: bytes) -> SiteRunning:
        if self.trouble:
            raise self.trouble
        return await self.start(argv, env, stdin)


class RemoteCommands(StartedCommands):
    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def _losing(self) -> asyncio.Event:
        return asyncio.Event()

    def lose(self, why: MachineLost) -> None:
        """From now on it counts as lost, and whoever waits for it hears so."""
        self.trouble = why
        self._losing.set()

    async def wait_lost(self) -> MachineLost:
        await self._losing.wait()
        return self.lost()

    def lost(self, error: BaseException | None = None) -> MachineLost:
        """What is told when the connection fails, with its error where there is one."""
        if self.trouble:
            return self.trouble
        late = f"it did not answer for {LIMITS.command:g} s"
        return MachineLost(late if isinstance(error, TimeoutError) else self.describe_failure(error), self.name)

    @abstractmethod
    def describe_failure(self, error: BaseException | None) -> str:
        """Of a connection of its kind."""

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        await machine_files.put_file(self, content, path, mode)

    async def get(self, path: str) -> bytes:
        return await machine_files.read_file(self, path)
