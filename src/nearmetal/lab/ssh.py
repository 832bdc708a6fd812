"""Machines reached by SSH: one connection, kept open, because under emulation a login takes most of a second.

SSH hands the far side one string for its login shell, not an argument vector, so every word is quoted here. The shell
tells its process id as the first line of stderr and then becomes the program, with exactly the environment that
programs have in every machine. By that id the program's process group is signalled: sshd itself passes no signals on
for root.
"""

import asyncio
import contextlib
import shlex
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import asyncssh

from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, MachineLost, NotProvisioned, TimedOut, ToolFailed
from nearmetal.lab import machine as lab_machine
from nearmetal.lab import network, probe
from nearmetal.model import Completed, Cost, Running, Site

_AGAIN = 0.02
"""Seconds until the next attempt after one was refused."""
_PATIENCE = 5.0
"""Seconds until a second attempt beside one that is silent: each costs the far side a process."""
_IDENTITY = "cat /proc/sys/kernel/random/boot_id /proc/sys/kernel/arch 2>/dev/null || uname -m"
"""The kernel tells its architecture in a file since Linux 6.1."""
_KILL_LIMIT = 2.0
"""Seconds that a killed program has to be gone."""


@dataclass(frozen=True)
class Endpoint:
    """Where a machine answers, and who both sides are."""

    host: str
    port: int
    user: str
    client_key: asyncssh.SSHKey
    host_key: asyncssh.SSHKey
    """The only one that is accepted."""

    @property
    def where(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"

    def options(self, limit: float) -> asyncssh.SSHClientConnectionOptions:
        """Nothing of the user's own configuration, agent or known hosts takes part."""
        return asyncssh.SSHClientConnectionOptions(
            config=None,
            username=self.user,
            client_keys=[self.client_key],
            known_hosts=([self.host_key.convert_to_public()], [], []),
            server_host_key_algs=[self.host_key.get_algorithm()],
            agent_path=None,
            preferred_auth="publickey",
            gss_host=None,
            x509_trusted_certs=None,
            compression_algs=None,
            login_timeout=limit,
        )


async def connect(endpoint: Endpoint, limit: float, ready: Callable[[], bool]) -> asyncssh.SSHClientConnection:
    """Log in as soon as the machine answers. NotProvisioned when it does not within `limit` seconds, or refuses us.

    `ready` is asked before each attempt and says whether to try; it may raise what makes waiting pointless.
    """
    try:
        async with asyncio.timeout(limit):
            return await _log_in(endpoint, limit, ready)
    except TimeoutError:
        raise NotProvisioned(f"nothing answered by SSH within {limit:g} s", endpoint.where) from None


async def _log_in(endpoint: Endpoint, limit: float, ready: Callable[[], bool]) -> asyncssh.SSHClientConnection:
    while True:
        answering = await _first_to_speak(endpoint, ready)
        try:
            return await asyncssh.connect(endpoint.host, sock=answering, options=endpoint.options(limit))
        except asyncssh.HostKeyNotVerifiable:
            raise NotProvisioned(
                "what answers there shows another host key than this machine's", endpoint.where
            ) from None
        except asyncssh.PermissionDenied:
            raise NotProvisioned("the machine does not accept the key", endpoint.where) from None
        except (asyncssh.Error, OSError):
            await asyncio.sleep(_AGAIN)  # it went down again, or was not quite up


async def _first_to_speak(endpoint: Endpoint, ready: Callable[[], bool]) -> socket.socket:
    """A TCP connection on which a server has begun to speak.

    A connection alone says nothing: QEMU's user-mode network accepts it before the guest exists, and what a guest
    without a network was sent is repeated only after seconds.
    """
    attempts: set[asyncio.Task[socket.socket | None]] = set()
    try:
        while True:
            if not ready():
                await asyncio.sleep(_AGAIN)
                continue
            attempts.add(asyncio.create_task(_attempt(endpoint)))
            done, attempts = await asyncio.wait(attempts, timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            spoke = [answering for task in done if (answering := task.result())]
            for superfluous in spoke[1:]:
                superfluous.close()
            if spoke:
                return spoke[0]
            if done:
                await asyncio.sleep(_AGAIN)
    finally:
        for task in attempts:
            task.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)


async def _attempt(endpoint: Endpoint) -> socket.socket | None:
    """None when refused, or closed without a word."""
    loop = asyncio.get_running_loop()
    connection = socket.socket(socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        await loop.sock_connect(connection, (endpoint.host, endpoint.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        spoken = asyncio.Event()
        loop.add_reader(connection, spoken.set)
        try:
            await spoken.wait()
        finally:
            loop.remove_reader(connection)
        if connection.recv(1, socket.MSG_PEEK):
            return connection
    except OSError:
        pass
    except asyncio.CancelledError:
        connection.close()
        raise
    connection.close()
    return None


def command_line(argv: Sequence[str]) -> str:
    """What the far shell is given so that exactly `argv` runs, its process id told before. BadInput for a zero byte."""
    if any("\0" in word for word in argv):
        raise BadInput("a word of a command holds a zero byte, which no program can be given", repr(list(argv)))
    return f"echo $$ >&2; exec {shlex.join(argv)}"


class _Command:
    """A `Running` on the far side."""

    def __init__(self, machine: "SshMachine", process: "asyncssh.SSHClientProcess[bytes]") -> None:
        self._machine = machine
        self._process = process
        self._group = asyncio.ensure_future(self._read_group())
        self._end = asyncio.ensure_future(self._gather())
        for task in (self._group, self._end):
            # When nobody waits any more, that the machine is gone is no news.
            task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _read_group(self) -> int:
        """The number of its process group, from the line that comes before all the program says itself."""
        line = await self._process.stderr.readline()
        try:
            return int(line)
        except ValueError:
            if self._machine.connection.is_closed():
                raise self._machine.lost() from None
            raise ToolFailed(f"its login shell does not start commands: {line!r}", self._machine.name) from None

    async def _gather(self) -> Completed:
        await self._group
        try:
            ended = await self._process.wait()
        except (asyncssh.Error, OSError) as error:
            raise self._machine.lost(error) from None
        if ended.returncode is None:
            raise self._machine.lost()
        status = ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
        return Completed(status=status, stdout=_bytes(ended.stdout), stderr=_bytes(ended.stderr))

    async def wait(self, timeout: float) -> Completed:
        try:
            return await asyncio.wait_for(asyncio.shield(self._end), timeout)
        except TimeoutError:
            raise TimedOut(f"the program still runs after {timeout:g} s", self._machine.name) from None

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
                command = f"kill -s {name} -- -{await asyncio.shield(self._group)}"
                await self._machine.connection.run(command, encoding=None, stdin=asyncssh.DEVNULL)
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise self._machine.lost(error) from None


def _bytes(output: bytes | str | None) -> bytes:
    return output if isinstance(output, bytes) else b""


class SshMachine:
    """A `Machine` at the other end of an SSH connection."""

    interface = network.INSIDE

    def __init__(
        self,
        *,
        name: str,
        role: str,
        site: Site,
        endpoint: Endpoint,
        owned: bool,
        address: str,
        peer: str | None,
    ) -> None:
        self.name = name
        self.role = role
        self.site = site
        self.endpoint = endpoint
        self.owned = owned
        self.address = address
        self.peer = peer
        self.probe = probe.INSIDE
        self.arch = ""
        self.boot_id = ""
        self._connection: asyncssh.SSHClientConnection | None = None

    @property
    def connection(self) -> asyncssh.SSHClientConnection:
        if self._connection is None:
            raise self.lost()
        return self._connection

    def ready(self) -> bool:
        """Whether it is worth while to try to connect; may raise what makes waiting pointless."""
        return True

    async def connect(self) -> None:
        """Log in as soon as it answers, and see who it is. NotProvisioned when it does not answer in time."""
        self._connection = await connect(self.endpoint, LIMITS.boot, self.ready)
        await self._identify()

    async def _identify(self) -> None:
        """Ask what it is and which boot this is, without the probe, by as few programs as can be."""
        try:
            async with asyncio.timeout(LIMITS.command):
                told = await self.connection.run(_IDENTITY)
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise self.lost(error) from None
        words = str(told.stdout).split()
        if len(words) != 2:
            raise ToolFailed(f"this is no Linux that tells its boot id: {words} {told.stderr!r}", self.name)
        self.boot_id, self.arch = words

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = LIMITS.command,
    ) -> Completed:
        command = await self._start(argv, env, stdin)
        try:
            return await command.wait(timeout)
        except TimedOut:
            await command.kill()
            raise TimedOut(f"`{' '.join(argv)[:200]}` did not end within {timeout:g} s", self.name) from None
        except asyncio.CancelledError:
            await command.kill()
            raise

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Running:
        return await self._start(argv, env, b"")

    def started(self, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        """The words that become the program, in the environment it is to have.

        Its parent there is this connection's sshd, so it ends also when we do and cannot say so.
        """
        return lab_machine.launch(self.probe, argv, env, "--die-with-parent")

    async def _start(self, argv: Sequence[str], env: Mapping[str, str] | None, stdin: bytes) -> _Command:
        line = command_line(self.started(argv, env or {}))
        try:
            async with asyncio.timeout(LIMITS.command):
                process = await self.connection.create_process(line, input=stdin, encoding=None)
        except asyncssh.ChannelOpenError as error:
            raise MachineLost(
                f"it takes no further command: {error.reason}", self.name, "raise MaxSessions of its sshd"
            ) from None
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise self.lost(error) from None
        return _Command(self, process)

    def lost(self, error: BaseException | None = None) -> MachineLost:
        if isinstance(error, TimeoutError):
            return MachineLost(f"it did not answer for {LIMITS.command:g} s", self.name)
        said = f": {error}" if error and str(error) else ""
        return MachineLost(f"its SSH connection is gone{said}", self.name)

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        await lab_machine.put(self, content, path, mode)

    async def get(self, path: str) -> bytes:
        return await lab_machine.get(self, path)

    async def reboot(self) -> None:
        before = self.boot_id
        with contextlib.suppress(MachineLost, TimedOut):
            await self.exec(["reboot"], timeout=LIMITS.stop)
        try:
            async with asyncio.timeout(LIMITS.boot):
                while self.boot_id == before:
                    await self._connect_again()
        except TimeoutError:
            raise NotProvisioned(f"it did not come back within {LIMITS.boot:g} s", self.name) from None

    async def _connect_again(self) -> None:
        """It may still be the boot that is ending which answers."""
        # A machine that restarts at once says no goodbye: its connection would seem to live on.
        self.connection.abort()
        await asyncio.sleep(_AGAIN)
        with contextlib.suppress(MachineLost, TimedOut):
            await self.connect()

    async def cost(self) -> Cost | None:
        return None

    async def close(self) -> None:
        """Let go of the connection; the machine goes on."""
        self.connection.abort()
        await self.connection.wait_closed()
