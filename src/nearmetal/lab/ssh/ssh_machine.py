"""Machines reached by SSH: one connection, kept open, because under emulation a login takes most of a second."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearmetal.config import LIMITS
from nearmetal.errors import NotProvisioned, ToolFailed
from nearmetal.lab import machine_programs
from nearmetal.lab.remote.machine import ReachedMachine
from nearmetal.lab.remote.readiness import AGAIN, Ready, first_to_speak
from nearmetal.lab.ssh.commands import SshCommands
from nearmetal.lab.ssh.login_shell import ask_shell
from nearmetal.lab.ssh_library import asyncssh

_IDENTITY = "cat /proc/sys/kernel/random/boot_id /proc/sys/kernel/arch 2>/dev/null || uname -m"
"""The kernel tells its architecture in a file since Linux 6.1."""


@dataclass(frozen=True)
class SshEndpoint:
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


async def connect(endpoint: SshEndpoint, limit: float, ready: Ready) -> asyncssh.SSHClientConnection:
    """Log in as soon as the machine answers. NotProvisioned when it does not within `limit` seconds, or refuses us.

    `ready` is as of `first_to_speak`.
    """
    try:
        async with asyncio.timeout(limit):
            return await _log_in(endpoint, limit, ready)
    except TimeoutError:
        raise NotProvisioned(f"nothing answered by SSH within {limit:g} s", endpoint.where) from None


async def _log_in(endpoint: SshEndpoint, limit: float, ready: Ready) -> asyncssh.SSHClientConnection:
    while True:
        answering = await first_to_speak(endpoint.host, endpoint.port, ready)
        try:
            return await asyncssh.connect(endpoint.host, sock=answering, options=endpoint.options(limit))
        except asyncssh.HostKeyNotVerifiable:
            what = "what answers there shows another host key than this machine's"
            raise NotProvisioned(what, endpoint.where) from None
        except asyncssh.PermissionDenied:
            raise NotProvisioned("the machine does not accept the key", endpoint.where) from None
        except (asyncssh.Error, OSError):
            await asyncio.sleep(AGAIN)  # it went down again, or was not quite up


class SshMachine(SshCommands, ReachedMachine):
    """A `Machine` at the other end of an SSH connection."""

    def __init__(self, *, endpoint: SshEndpoint, **machine: Any) -> None:
        ReachedMachine.__init__(self, **machine)
        self.endpoint = endpoint

    async def reach(self) -> None:
        self._connection = await connect(self.endpoint, self.boot_limit, self.ready)
        await self._identify()

    async def _identify(self) -> None:
        """Ask what it is and which boot this is, without the probe, by as few programs as can be."""
        try:
            async with asyncio.timeout(LIMITS.command):
                out, err = await ask_shell(self.connection, _IDENTITY)
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise self.lost(error) from None
        words = out.split()
        if len(words) != 2:
            raise ToolFailed(f"this is no Linux that tells its boot id: {words} {err!r}", self.name)
        self.boot_id, self.arch = words

    def started(self, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        # Its parent there is this connection's sshd, so it ends also when we do and cannot say so.
        return machine_programs.build_words(self.probe, argv, env, "--die-with-parent")

    def abort(self) -> None:
        self.connection.abort()

    async def close(self) -> None:
        self.abort()
        await self.connection.wait_closed()
