"""Commands on the other end of an SSH connection: what machines and hosts that are reached so have in common.

SSH hands the far side one string for its login shell, not an argument vector, so every word is quoted here. The shell
tells its process id as the first line of stderr and then becomes the program, with exactly the environment that
programs have in every machine. By that id the program's process group is signalled: sshd itself passes no signals on
for root.
"""

import asyncio
import shlex
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal

import asyncssh

from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, MachineLost, TimedOut, ToolFailed
from nearmetal.lab.remote import RemoteCommands
from nearmetal.model import Completed

_KILL_LIMIT = 2.0
"""Seconds that a killed program has to be gone."""


def command_line(argv: Sequence[str]) -> str:
    """What the far shell is given so that exactly `argv` runs, its process id told before. BadInput for a zero byte."""
    if any("\0" in word for word in argv):
        raise BadInput("a word of a command holds a zero byte, which no program can be given", repr(list(argv)))
    return f"echo $$ >&2; exec {shlex.join(argv)}"


class SshCommands(RemoteCommands):
    """`Commands` by way of one connection, which is made by those who inherit."""

    _connection: asyncssh.SSHClientConnection | None = None

    @property
    def connection(self) -> asyncssh.SSHClientConnection:
        if self._connection is None:
            raise self.lost()
        return self._connection

    @abstractmethod
    def started(self, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        """The words that become the program, in the environment it is to have."""

    async def start(self, argv: Sequence[str], env: Mapping[str, str] | None, stdin: bytes) -> "_Command":
        line = command_line(self.started(argv, env or {}))
        try:
            async with asyncio.timeout(LIMITS.command):
                return _Command(self, await self.session(line, stdin))
        except asyncssh.ChannelOpenError as error:
            raise MachineLost(
                f"it takes no further command: {error.reason}", self.name, "raise MaxSessions of its sshd"
            ) from None
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise self.lost(error) from None

    async def session(self, line: str, stdin: bytes) -> "asyncssh.SSHClientProcess[bytes]":
        """Hand the login shell a line. Raises what asyncssh does."""
        return await self.connection.create_process(line, input=stdin, encoding=None)

    def lost(self, error: BaseException | None = None) -> MachineLost:
        if isinstance(error, TimeoutError):
            return MachineLost(f"it did not answer for {LIMITS.command:g} s", self.name)
        said = f": {error}" if error and str(error) else ""
        return MachineLost(f"its SSH connection is gone{said}", self.name)


class _Command:
    """A `SiteRunning` on the far side."""

    def __init__(self, commands: SshCommands, process: "asyncssh.SSHClientProcess[bytes]") -> None:
        self._commands = commands
        self._process = process
        self._first: asyncio.Future[bytes] | None = None
        self._group = asyncio.ensure_future(self._read_group())
        self._end = asyncio.ensure_future(self._gather())
        for task in (self._group, self._end):
            # When nobody waits any more, that the machine is gone is no news.
            task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _read_group(self) -> int:
        """The number of its process group, from the line that comes before all the program says itself."""
        try:
            line = await self._process.stderr.readline()
        except (asyncssh.Error, OSError, asyncio.IncompleteReadError) as error:
            raise self._commands.lost(error) from None
        try:
            return int(line)
        except ValueError:
            if self._process.get_extra_info("connection").is_closed():
                raise self._commands.lost() from None
            raise ToolFailed(f"its login shell does not start commands: {line!r}", self._commands.name) from None

    async def _gather(self) -> Completed:
        await self._group
        try:
            ended = await self._process.wait()
        except (asyncssh.Error, OSError) as error:
            raise self._commands.lost(error) from None
        if ended.returncode is None:
            raise self._commands.lost()
        before = await self._first if self._first else b""
        status = ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
        return Completed(status=status, stdout=before + _bytes(ended.stdout), stderr=_bytes(ended.stderr))

    async def first_line(self, timeout: float) -> bytes:
        if self._first is None:
            self._first = asyncio.ensure_future(self._process.stdout.readline())
        try:
            line = await asyncio.wait_for(asyncio.shield(self._first), timeout)
            if not line.endswith(b"\n"):
                # It ended, and what it said last may be in its end already.
                line = (await self.wait(timeout)).stdout
        except TimeoutError:
            raise TimedOut(f"the program said nothing for {timeout:g} s", self._commands.name) from None
        except (asyncssh.Error, OSError) as error:
            raise self._commands.lost(error) from None
        return line.partition(b"\n")[0]

    async def wait(self, timeout: float) -> Completed:
        try:
            return await asyncio.wait_for(asyncio.shield(self._end), timeout)
        except TimeoutError:
            raise TimedOut(f"the program still runs after {timeout:g} s", self._commands.name) from None

    async def stop(self) -> Completed:
        if not self._end.done():
            await self._signal("TERM")
        try:
            return await self.wait(LIMITS.stop)
        except TimedOut:
            await self.kill()
            return await self._end

    async def kill(self) -> None:
        """MachineLost when it cannot be."""
        if self._end.done():
            return
        await self._signal("KILL")
        try:
            await self.wait(_KILL_LIMIT)
        except TimedOut:
            # Something left its process group and holds on to its output.
            self._process.close()

    async def _signal(self, name: Literal["TERM", "KILL"]) -> None:
        try:
            async with asyncio.timeout(LIMITS.command):
                line = f"kill -s {name} -- -{await asyncio.shield(self._group)}"
                await (await self._commands.session(line, b"")).wait()
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise self._commands.lost(error) from None


def _bytes(output: bytes | str | None) -> bytes:
    return output if isinstance(output, bytes) else b""
