"""Commands on the other end of an SSH connection: what machines and hosts that are reached so have in common.

The login shell tells its process id on both streams and then becomes the program, with exactly the environment that
programs have in every machine. By that id the program's process group is signalled: sshd itself passes no signals on
for root.
"""

import asyncio
import signal
from abc import abstractmethod
from collections.abc import Mapping, Sequence

from nearmetal.config import LIMITS
from nearmetal.errors import MachineLost, ToolFailed
from nearmetal.lab.commands.background_commands import OutputCollector, list_signals
from nearmetal.lab.commands.command_errors import refuse_no_text, refuse_zero_bytes
from nearmetal.lab.commands.process import exit_status
from nearmetal.lab.remote.commands import RemoteCommands
from nearmetal.lab.ssh.login_shell import read_began, write_line
from nearmetal.lab.ssh_library import asyncssh


def command_line(argv: Sequence[str]) -> str:
    """What the far shell is given so that exactly `argv` runs, its process id told before. BadInput."""
    refuse_zero_bytes(argv)
    refuse_no_text(argv)
    return write_line(argv)


async def begun(
    connection: asyncssh.SSHClientConnection, line: str, stdin: bytes
) -> "asyncssh.SSHClientProcess[bytes]":
    """Hand the login shell a line, and all that it reads there. Raises what asyncssh does."""
    process = await connection.create_process(line, input=stdin, encoding=None)
    if not stdin:
        process.stdin.write_eof()  # asyncssh itself ends the input only where there is some
    return process


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
            what = f"it takes no further command: {error.reason}"
            raise MachineLost(what, self.name, "raise MaxSessions of its sshd") from None
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise self.lost(error) from None

    async def session(self, line: str, stdin: bytes) -> "asyncssh.SSHClientProcess[bytes]":
        """Hand the login shell a line. Raises what asyncssh does."""
        return await begun(self.connection, line, stdin)

    async def wait_lost(self) -> MachineLost:
        """It is lost with its connection too."""
        waiting = [asyncio.ensure_future(one) for one in (super().wait_lost(), self.connection.wait_closed())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()
        return self.lost()

    def describe_failure(self, error: BaseException | None) -> str:
        return f"its SSH connection is gone{f': {error}' if error and str(error) else ''}"


class _Command(OutputCollector):
    """A program on the far side, and the channel that its bytes come by."""

    def __init__(self, commands: SshCommands, process: "asyncssh.SSHClientProcess[bytes]") -> None:
        self._commands = commands
        self._process = process
        self._group = asyncio.ensure_future(self._read_group())
        # When nobody waits any more, that the machine is gone is no news.
        self._group.add_done_callback(lambda task: task.cancelled() or task.exception())
        super().__init__(commands.name)

    async def _read_group(self) -> int:
        """The number of its process group, which both streams tell before all that the program says itself."""
        try:
            group = await read_began(self._process.stderr)
            await read_began(self._process.stdout)
        except (asyncssh.Error, OSError, asyncio.IncompleteReadError) as error:
            raise self._commands.lost(error) from None
        except ToolFailed as error:
            if self._process.get_extra_info("connection").is_closed():
                raise self._commands.lost() from None
            raise ToolFailed(error.what, self._commands.name, error.remedy) from None
        return group

    async def collect_output(self) -> int:
        await self._group
        try:
            await self.read_streams(self._process.stdout, self._process.stderr)
            ended = await self._process.wait()
        except (asyncssh.Error, OSError) as error:
            raise self._commands.lost(error) from None
        finally:
            self._process.close()
        if ended.returncode is None:
            raise self._commands.lost()
        return exit_status(ended.returncode)

    async def signal(self, number: signal.Signals) -> None:
        try:
            async with asyncio.timeout(LIMITS.command):
                group = await asyncio.shield(self._group)
                names = (one.name.removeprefix("SIG") for one in list_signals(number))
                line = " && ".join(f"kill -s {name} -- -{group}" for name in names)
                script = write_line(["sh", "-c", line], announced=False)
                await (await self._commands.session(script, b"")).wait()
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise self._commands.lost(error) from None
