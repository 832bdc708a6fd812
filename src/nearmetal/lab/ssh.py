"""Machines reached by SSH: one connection, kept open, because under emulation a login takes most of a second."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import asyncssh

from nearmetal.config import LIMITS
from nearmetal.errors import MachineLost, NotProvisioned, TimedOut, ToolFailed
from nearmetal.lab import machine as lab_machine
from nearmetal.lab import network, probe
from nearmetal.lab.ssh_commands import SshCommands
from nearmetal.model import Cost, Site

Ready = Callable[[], Awaitable[bool]]

_AGAIN = 0.02
"""Seconds until the next attempt after one was refused."""
_PATIENCE = 5.0
"""Seconds until a second attempt beside one that is silent: each costs the far side a process."""
_IDENTITY = "cat /proc/sys/kernel/random/boot_id /proc/sys/kernel/arch 2>/dev/null || uname -m"
"""The kernel tells its architecture in a file since Linux 6.1."""


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


async def connect(endpoint: Endpoint, limit: float, ready: Ready) -> asyncssh.SSHClientConnection:
    """Log in as soon as the machine answers. NotProvisioned when it does not within `limit` seconds, or refuses us.

    `ready` is asked before each attempt and says whether to try; it may raise what makes waiting pointless.
    """
    try:
        async with asyncio.timeout(limit):
            return await _log_in(endpoint, limit, ready)
    except TimeoutError:
        raise NotProvisioned(f"nothing answered by SSH within {limit:g} s", endpoint.where) from None


async def _log_in(endpoint: Endpoint, limit: float, ready: Ready) -> asyncssh.SSHClientConnection:
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


async def _first_to_speak(endpoint: Endpoint, ready: Ready) -> socket.socket:
    """A TCP connection on which a server has begun to speak.

    A connection alone says nothing: QEMU's user-mode network accepts it before the guest exists, and what a guest
    without a network was sent is repeated only after seconds.
    """
    attempts: set[asyncio.Task[socket.socket | None]] = set()
    try:
        while True:
            if not await ready():
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


class SshMachine(SshCommands):
    """A `Machine` at the other end of an SSH connection."""

    interface = network.INSIDE
    boot_limit = LIMITS.boot
    """Seconds until it has to answer."""

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
        super().__init__(name)
        self.role = role
        self.site = site
        self.endpoint = endpoint
        self.owned = owned
        self.address = address
        self.peer = peer
        self.probe = probe.INSIDE
        self.arch = ""
        self.boot_id = ""

    async def ready(self) -> bool:
        """Whether it is worth while to try to connect; may raise what makes waiting pointless."""
        return True

    async def connect(self) -> None:
        """Log in as soon as it answers, and see who it is. NotProvisioned when it does not answer in time."""
        self._connection = await connect(self.endpoint, self.boot_limit, self.ready)
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

    def started(self, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        """The words that become the program, in the environment it is to have.

        Its parent there is this connection's sshd, so it ends also when we do and cannot say so.
        """
        return lab_machine.launch(self.probe, argv, env, "--die-with-parent")

    async def reboot(self) -> None:
        before = self.boot_id
        with contextlib.suppress(MachineLost, TimedOut):
            await self.exec(["reboot"], timeout=LIMITS.stop)
        try:
            async with asyncio.timeout(self.boot_limit):
                while self.boot_id == before:
                    await self._connect_again()
        except TimeoutError:
            raise NotProvisioned(f"it did not come back within {self.boot_limit:g} s", self.name) from None

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
