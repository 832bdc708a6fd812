"""A real SSH server on loopback that runs real programs, and a machine behind it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import asyncssh

from nearmetal.lab import probe
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.ssh import ssh_machine as ssh

SHELL = "/bin/sh"
"""Everybody's login shell."""
CLIENT = asyncssh.generate_private_key("ssh-ed25519")
HOST = asyncssh.generate_private_key("ssh-ed25519")
OTHER = asyncssh.generate_private_key("ssh-ed25519")


class Server(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return key == CLIENT.convert_to_public()


async def feed(process: "asyncssh.SSHServerProcess[bytes]", into: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncssh.Error, OSError):
        while chunk := await process.stdin.read(65536):
            into.write(chunk)
            await into.drain()
    into.close()


async def pump(source: asyncio.StreamReader, into: "asyncssh.SSHWriter[bytes]") -> None:
    while chunk := await source.read(65536):
        into.write(chunk)
        await into.drain()


async def run(process: "asyncssh.SSHServerProcess[bytes]") -> None:
    """As sshd does: the command to a shell that leads a session of its own, and how it ended back."""
    shell = await asyncio.create_subprocess_exec(
        *(SHELL, "-c", process.command or ""),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert shell.stdin and shell.stdout and shell.stderr
    feeding = asyncio.create_task(feed(process, shell.stdin))
    await asyncio.gather(pump(shell.stdout, process.stdout), pump(shell.stderr, process.stderr))
    status = await shell.wait()
    feeding.cancel()
    if status < 0:
        process.exit_with_signal("KILL" if status == -9 else "TERM")
    else:
        process.exit(status)


@contextlib.asynccontextmanager
async def serving(port: int = 0, host_key: asyncssh.SSHKey = HOST) -> AsyncIterator[asyncssh.SSHAcceptor]:
    server = await asyncssh.listen(
        "127.0.0.1", port, server_factory=Server, server_host_keys=[host_key], process_factory=run, encoding=None
    )
    try:
        yield server
    finally:
        server.close()
        await server.wait_closed()


def endpoint(port: int, client_key: asyncssh.SSHKey = CLIENT) -> ssh.SshEndpoint:
    return ssh.SshEndpoint("127.0.0.1", port, "root", client_key, HOST)


def machine_at(port: int) -> ssh.SshMachine:
    machine = ssh.SshMachine(
        name="far",
        role="server",
        site=LocalSite(),
        endpoint=endpoint(port),
        owned=False,
        address="127.0.0.1",
        peer=None,
    )
    machine.probe = str(probe.path())
    return machine
