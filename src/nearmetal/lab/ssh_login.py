"""Logging in to a host of the user's own, by SSH.

Who it is and who we are is the user's business: their known_hosts says which host key is right, their agent and key
files log in, and their ~/.ssh/config may say the rest, jump hosts among it. A study can name key, host key and jump
host itself. A host whose key is not known, or is another than the known one, is refused, every jump host too; nothing
is ever typed where a password is asked for.
"""

import asyncio
import os
import re
from pathlib import Path

import asyncssh

from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, HostCannot, Unreachable
from nearmetal.model import HostSpec

_TARGET = re.compile(
    r"(?:(?P<user>[^@]+)@)?(?:\[(?P<bracketed>[^\]]+)\]|(?P<host>[^\[\]]+?))(?::(?P<port>[0-9]{1,5}))?"
)
_KNOWN_HOSTS = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")
_SILENCE = (15, 3)
"""Seconds between two signs of life on a connection that says nothing, and how many may be missing: a host that lost
its power would otherwise never be missed."""


def parse(spec: HostSpec) -> tuple[str, str | None, int | None]:
    """Host, user and port of "user@host:port", "user@[address]:port" or an address alone. BadInput."""
    text = spec.ssh
    user, _, rest = text.rpartition("@")
    if rest.count(":") > 1 and not rest.startswith("["):
        return rest, user or None, None  # an IPv6 address without brackets
    found = _TARGET.fullmatch(text)
    if not found or int(found["port"] or 22) > 65535:
        raise BadInput(f"{text!r} is no address of an SSH server", "[hosts] ssh", 'write it as "user@host:port"')
    return found["bracketed"] or found["host"], found["user"], int(found["port"]) if found["port"] else None


def refuse_unusable(spec: HostSpec, where: str) -> None:
    """BadInput or HostCannot, with what helps, for what can be seen to be wrong before anything answers."""
    _known(spec, where, _options(spec, where)[1])


async def log_in(spec: HostSpec, where: str) -> asyncssh.SSHClientConnection:
    """A connection, with those to its jump hosts below it. BadInput, or HostCannot with what helps."""
    try:
        async with asyncio.timeout(LIMITS.command):
            return await _log_in(spec, where)
    except TimeoutError:
        raise _unreachable(spec, where, f"no answer within {LIMITS.command:g} s") from None


async def _log_in(spec: HostSpec, where: str) -> asyncssh.SSHClientConnection:
    """By way of its jump hosts, one after the other; what the configuration says of a jump host's own is not heard."""
    host, options = _options(spec, where)
    through: asyncssh.SSHClientConnection | None = None
    for jump in filter(None, str(spec.jump or options.tunnel or "").split(",")):
        by, at = HostSpec(ssh=jump), f"the jump host {jump} of {where}"
        through = await _connect(by, at, *_options(by, at), through)
    return await _connect(spec, where, host, options, through)


async def _connect(
    spec: HostSpec,
    where: str,
    host: str,
    options: asyncssh.SSHClientConnectionOptions,
    through: asyncssh.SSHClientConnection | None,
) -> asyncssh.SSHClientConnection:
    client = _Client()
    try:
        connection = await asyncssh.connect(
            host,
            options=options,
            tunnel=through,
            known_hosts=_known(spec, where, options),
            client_factory=lambda: client,
        )
    except asyncssh.HostKeyNotVerifiable as error:
        raise HostCannot(
            f"its host key is not one that you know: {error}",
            where,
            f"log in once by hand and compare the key (ssh {_by_hand(spec)}), so that it is in ~/.ssh/known_hosts"
            if spec.host_key is None
            else "compare host_key with the host's /etc/ssh/ssh_host_*_key.pub",
        ) from None
    except asyncssh.PermissionDenied:
        asks = ", and asks for a password, which nearmetal never types" if client.was_asked else ""
        raise HostCannot(
            f"it accepts none of your keys{asks}", where, f"ssh-copy-id {_by_hand(spec)}; or add the key to ssh-agent"
        ) from None
    except (asyncssh.Error, OSError, ValueError) as error:
        raise _unreachable(spec, where, _said(error)) from None
    if through is not None:
        connection.set_tunnel(through)  # which ends with it
    return connection


def _unreachable(spec: HostSpec, where: str, said: str) -> Unreachable:
    return Unreachable(f"it cannot be reached: {said}", where, f"try: ssh {_by_hand(spec)}")


def _said(error: Exception) -> str:
    """The system's own words where it is the system's error: asyncio's speak of calls and of pairs."""
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _by_hand(spec: HostSpec) -> str:
    """The words with which OpenSSH's own programs take the same address."""
    host, user, port = parse(spec)
    return f"{f'-p {port} ' if port else ''}{f'{user}@' if user else ''}{host}"


class _Client(asyncssh.SSHClient):
    """Answers no prompt, and remembers that there was one."""

    was_asked = False

    def password_auth_requested(self) -> None:
        self.was_asked = True

    def kbdint_auth_requested(self) -> None:
        self.was_asked = True


def _options(spec: HostSpec, where: str) -> tuple[str, asyncssh.SSHClientConnectionOptions]:
    """The host, and what the user's configuration and the study say of the way there."""
    host, user, port = parse(spec)
    interval, missing = _SILENCE
    given = {"username": user, "port": port, "client_keys": [str(_file(spec.key))] if spec.key else None}
    try:
        return host, asyncssh.SSHClientConnectionOptions(
            host=host,
            login_timeout=LIMITS.command,
            keepalive_interval=interval,
            keepalive_count_max=missing,
            **{key: value for key, value in given.items() if value is not None},
        )
    except FileNotFoundError as error:
        raise BadInput("there is no such key file", str(error.filename), "name one that is there") from None
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise HostCannot(
            f"a key cannot be used: {error}",
            where,
            "a key with a passphrase is used by way of an agent: ssh-add KEY, and leave `key` out",
        ) from None
    except (asyncssh.Error, OSError, ValueError) as error:
        raise HostCannot(
            f"your SSH configuration cannot be used: {error}", where, f"try: ssh {_by_hand(spec)}"
        ) from None


def _known(spec: HostSpec, where: str, options: asyncssh.SSHClientConnectionOptions) -> object:
    """The host keys that are accepted; none rather than any. Without a file of them asyncssh would trust whoever
    answers."""
    if spec.host_key is None:
        return options.known_hosts or [str(path) for name in _KNOWN_HOSTS if (path := _file(name)).is_file()] or b""
    try:
        return [asyncssh.import_public_key(spec.host_key)], [], []
    except asyncssh.KeyImportError:
        raise BadInput(
            "host_key is no public key", where, 'write it as in ssh_host_ed25519_key.pub: "ssh-ed25519 AAAA…"'
        ) from None


def _file(name: str) -> Path:
    return Path(name).expanduser()
