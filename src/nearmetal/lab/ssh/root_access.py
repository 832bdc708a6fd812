"""Being root on a host of the user's own: by logging in as root, or as somebody whose sudo asks for no password.

Whoever is not root has sudo start one SSH server, which speaks over this connection's own streams and to nobody else:
docs/adr/root-by-sudo.md.
"""

import asyncio
import contextlib
import socket
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, Unreachable
from nearmetal.lab.ssh.login import log_in
from nearmetal.lab.ssh.login_shell import write_line
from nearmetal.lab.ssh_library import asyncssh
from nearmetal.model import HostSpec

_ROOT = "root"
_KEY = "ssh-ed25519"
_CHUNK = 2**16
_NO_SERVER = "there is no /usr/sbin/sshd"

# $1: the key that may log in. What says that it is ready, and with which host key, is stderr's first line: the other
# streams are the server's. Its files go when it ends; it has read them by the time that one is in.
_SERVE = """
set -e
umask 077
sshd=$(command -v sshd || echo /usr/sbin/sshd)
[ -x "$sshd" ] || { echo "there is no $sshd" >&2; exit 1; }
folder=$(mktemp -d /run/nearmetal-login.XXXXXX)
trap 'rm -rf -- "$folder"' EXIT
mkdir -p -m 755 /run/sshd
ssh-keygen -q -t ed25519 -N '' -f "$folder/host"
echo "$1" >"$folder/keys"
pam=$("$sshd" -T 2>/dev/null | sed -n 's/^usepam //p')
cat >"$folder/config" <<END
HostKey $folder/host
AuthorizedKeysFile $folder/keys
UsePAM ${pam:-no}
PermitRootLogin prohibit-password
AllowUsers root
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UseDNS no
PidFile none
MaxSessions 100
LogLevel ERROR
END
cat "$folder/host.pub" >&2
"$sshd" -i -e -f "$folder/config"
"""


async def log_in_as_root(spec: HostSpec, where: str) -> asyncssh.SSHClientConnection:
    """A connection as root, with those below it. BadInput, or HostCannot with what helps."""
    connection = await log_in(spec, where)
    if connection.get_extra_info("username") == _ROOT:
        return connection
    try:
        async with asyncio.timeout(LIMITS.command):
            return await _risen(connection, where)
    except BaseException as error:
        connection.abort()
        if isinstance(error, asyncssh.Error | OSError | TimeoutError):
            said = str(error) or f"no answer within {LIMITS.command:g} s"
            raise Unreachable(f"sudo's SSH server cannot be reached: {said}", where, "log in as root") from None
        raise


@dataclass(frozen=True)
class _RootServer:
    """An SSH server at the other end of a socket."""

    end: socket.socket
    host_key: asyncssh.SSHKey


async def _risen(connection: asyncssh.SSHClientConnection, where: str) -> asyncssh.SSHClientConnection:
    key = asyncssh.generate_private_key(_KEY)
    server = await _served(connection, key, where)
    address, *_ = connection.get_extra_info("peername")
    risen = await asyncssh.connect(
        address,  # a name for it: what it speaks by is the socket
        sock=server.end,
        username=_ROOT,
        client_keys=[key],
        agent_path=None,
        config=None,
        known_hosts=([server.host_key], [], []),
    )
    risen.set_tunnel(connection)  # which ends with it
    risen.set_extra_info(peername=connection.get_extra_info("peername"))
    return risen


async def _served(connection: asyncssh.SSHClientConnection, key: asyncssh.SSHKey, where: str) -> _RootServer:
    """Have sudo start the server, its streams at one end of a pair of sockets. HostCannot in sudo's own words."""
    public = key.export_public_key().decode().strip()
    near, far = socket.socketpair()
    out_of, into = await asyncio.open_unix_connection(sock=far)
    words = write_line(["sudo", "-n", "--", "sh", "-c", _SERVE, "serve", public], announced=False)
    try:
        process = await connection.create_process(words, encoding=None)
        host_key = await _shown(process.stderr, where)
    except BaseException:
        near.close()
        into.close()
        raise
    _in_the_background(_carry(process.stdout, into))
    _in_the_background(_carry(out_of, process.stdin))
    return _RootServer(near, host_key)


async def _shown(stderr: asyncssh.SSHReader[bytes], where: str) -> asyncssh.SSHKey:
    """The host key of a server that is ready. HostCannot with what it said instead."""
    said = b""
    while line := await stderr.readline():
        if line.startswith(_KEY.encode()):
            return asyncssh.import_public_key(line)
        said += line
    if _NO_SERVER in said.decode("utf-8", "replace"):
        raise HostCannot(f"it has no OpenSSH server that sudo could start: {_NO_SERVER}", where, "log in as root")
    last = said.decode("utf-8", "replace").strip().rpartition("\n")[2][-300:] or "nothing"
    remedy = "let this user use sudo without a password (NOPASSWD in sudoers), or log in as root"
    raise HostCannot(f"namespaces and control groups take root, and its sudo says: {last}", where, remedy)


_carrying: set[asyncio.Task[None]] = set()
"""What carries bytes between a server and its socket: asyncio itself would forget it."""


def _in_the_background(carry: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(carry)
    _carrying.add(task)
    task.add_done_callback(_carrying.discard)


async def _carry(
    source: "asyncio.StreamReader | asyncssh.SSHReader[bytes]", sink: "asyncio.StreamWriter | asyncssh.SSHWriter[bytes]"
) -> None:
    """Until either end is closed; then the other is."""
    with contextlib.suppress(asyncssh.Error, OSError):
        while chunk := await source.read(_CHUNK):
            sink.write(chunk)
            await sink.drain()
    sink.close()
