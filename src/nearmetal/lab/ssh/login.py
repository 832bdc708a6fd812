"""Logging in to a host of the user's own, by SSH.

Who it is and who we are is the user's business: their known_hosts says which host key is right, their agent and key
files log in, and their ~/.ssh/config may say the rest, jump hosts among it. A study can name key, host key and jump
host itself. A host whose key is not known, or is another than the known one, is refused, every jump host too; nothing
is ever typed where a password is asked for.
"""

import asyncio
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

from nearmetal import files
from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, HostCannot, Unreachable
from nearmetal.model import HostSpec
from nearmetal.ssh_library import asyncssh

_TARGET = re.compile(r"(?:(?P<user>.+)@)?(?:\[(?P<bracketed>[^\]]+)\]|(?P<host>[^@\[\]:]+))(?::(?P<port>[0-9]{1,5}))?")
_KNOWN_HOSTS = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")
_PORT = 22
_LARGEST_KEY = 2**20
"""Bytes of a key file; the longest have a few thousand."""
_CIPHERS = "^aes128-gcm@openssh.com"
"""First, unless the user's configuration says: a packet is one call to it, and several to asyncssh's own first choice,
so that every command takes longer by that."""
_SILENCE = (15, 3)
"""Seconds between two signs of life on a connection that says nothing, and how many may be missing: a host that lost
its power would otherwise never be missed."""


def parse(spec: HostSpec, where: str = "") -> tuple[str, str | None, int | None]:
    """Host, user and port of "user@host:port", "user@[address]:port" or an address alone. BadInput at `where`."""
    text = spec.ssh
    user, _, rest = text.rpartition("@")
    if rest.count(":") > 1 and not rest.startswith("["):
        return rest, user or None, None  # an IPv6 address without brackets
    found = _TARGET.fullmatch(text)
    if not found or not 0 < int(found["port"] or _PORT) <= 65535:
        raise BadInput(f"{text!r} is no address of an SSH server", where, 'write it as "user@host:port"')
    return found["bracketed"] or found["host"], found["user"], int(found["port"]) if found["port"] else None


def refuse_unusable(spec: HostSpec, where: str, address: str = "ssh") -> None:
    """BadInput or HostCannot, with what helps, for what can be seen to be wrong before anything answers.

    `address` is the option at `where` that the address stands in.
    """
    parse(spec, f"{where}, `{address}`")
    if spec.jump:
        parse(HostSpec(ssh=spec.jump), f"{where}, `jump`")
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
    try:
        for jump in filter(None, str(spec.jump or options.tunnel or "").split(",")):
            at = f"the jump host {jump.strip()} of {where}"
            by = _jump_host(jump.strip(), at)
            through = await _connect(by, at, *_options(by, at), through)
        return await _connect(spec, where, host, options, through)
    except BaseException:
        if through is not None:
            through.abort()  # with those below it: who waits for a machine to boot comes by again and again
        raise


def _jump_host(jump: str, where: str) -> HostSpec:
    """HostCannot for what OpenSSH's configuration may say and nearmetal does not take."""
    try:
        return HostSpec(ssh=jump)
    except ValueError:
        raise HostCannot(
            f"{jump!r} is no address that nearmetal takes", where, 'write it as "user@host:port", or name a `Host`'
        ) from None


async def _connect(
    spec: HostSpec,
    where: str,
    host: str,
    options: asyncssh.SSHClientConnectionOptions,
    through: asyncssh.SSHClientConnection | None,
) -> asyncssh.SSHClientConnection:
    client = _Client()
    known = _known(spec, where, options)
    try:
        connection = await asyncssh.connect(
            host,
            options=options,
            tunnel=through,
            known_hosts=known,
            client_factory=lambda: client,
        )
    except asyncssh.HostKeyNotVerifiable as error:
        _refuse_host_key(client.shown, known, spec, where, str(error))
    except asyncssh.PermissionDenied:
        asks = ", and asks for a password, which nearmetal never types" if client.was_asked else ""
        raise HostCannot(
            f"it accepts none of your keys{asks}", where, f"ssh-copy-id {_by_hand(spec)}; or add the key to ssh-agent"
        ) from None
    except (asyncssh.Error, OSError, ValueError) as error:
        if client.was_reached and not client.was_greeted:
            said = f"what answers there is no SSH server, or turns us away before it says so ({_said(error)})"
            raise _unreachable(spec, where, said) from None
        # Only keys of the kinds that are known are asked for, and a server that has none of them just ends.
        shown = await _host_key(host, options, through) if client.was_greeted else None
        if shown and not shown.is_among(known):
            _refuse_host_key(shown, known, spec, where, "it is of another kind than the one known")
        raise _unreachable(spec, where, _said(error)) from None
    if through is not None:
        connection.set_tunnel(through)  # which ends with it
    return connection


async def _host_key(
    host: str, options: asyncssh.SSHClientConnectionOptions, through: asyncssh.SSHClientConnection | None
) -> "_Shown | None":
    """Its host key, of whatever kind. None when it cannot be had."""
    try:
        key = await asyncssh.get_server_host_key(host, options=options, tunnel=through, server_host_key_algs="default")
    except (asyncssh.Error, OSError):
        return None
    return _Shown.of(options.host_key_alias or options.host, options.port, key) if key else None


def _refuse_host_key(shown: "_Shown | None", known: object, spec: HostSpec, where: str, said: str) -> NoReturn:
    """HostCannot with what is wrong with a host key, as far as it is known."""
    if shown and spec.host_key is None and isinstance(known, list):
        shown.refuse_another(known, where, _by_hand(spec))
    raise HostCannot(
        f"its host key is not one that you know: {said}",
        where,
        f"log in once by hand and compare the key (ssh {_by_hand(spec)}), so that it is in ~/.ssh/known_hosts"
        if spec.host_key is None
        else "compare host_key with the host's /etc/ssh/ssh_host_*_key.pub",
    ) from None


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


@dataclass(frozen=True)
class _Shown:
    """A host key that was shown and is not trusted, and the name by which known_hosts has its host."""

    name: str
    key: asyncssh.SSHKey

    @classmethod
    def of(cls, host: str, port: int | None, key: asyncssh.SSHKey) -> "_Shown":
        return cls(host if port in (None, _PORT) else f"[{host}]:{port}", key)

    def is_among(self, known: object) -> bool:
        """`known` as `_known` has it."""
        if isinstance(known, list):
            return any(self.key in self._known_by(file) for file in known)
        return isinstance(known, tuple) and self.key in known[0]

    def _known_by(self, file: str) -> Sequence[asyncssh.SSHKey]:
        # The port is in the name: by itself, it would have asyncssh take the key of the same host's other servers.
        return asyncssh.match_known_hosts(file, self.name, "", None)[0]

    def refuse_another(self, files: Sequence[str], where: str, by_hand: str) -> None:
        """HostCannot when one of these files has another key of the same host."""
        for file in files:
            known = self._known_by(file)
            if known:
                kind = "" if self.key.get_algorithm() in {key.get_algorithm() for key in known} else "of another kind, "
                prints = ", ".join(map(_print, known))
                raise HostCannot(
                    f"its host key is ANOTHER than the one known: {kind}{_print(self.key)}; {file} has {prints}",
                    where,
                    f"ask whoever runs it; if it was made anew: ssh-keygen -f {shlex.quote(file)} "
                    f"-R {shlex.quote(self.name)}, then log in once by hand and compare the key (ssh {by_hand})",
                )


def _print(key: asyncssh.SSHKey) -> str:
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


class _Client(asyncssh.SSHClient):
    """Answers no prompt and trusts no key by itself, and remembers both, and how far it came."""

    was_asked = False
    shown: _Shown | None = None
    _connection: asyncssh.SSHClientConnection | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self._connection = conn

    @property
    def was_reached(self) -> bool:
        return self._connection is not None

    @property
    def was_greeted(self) -> bool:
        """As an SSH server greets, with its version."""
        return self._connection is not None and bool(self._connection.get_extra_info("server_version"))

    def password_auth_requested(self) -> None:
        self.was_asked = True

    def kbdint_auth_requested(self) -> None:
        self.was_asked = True

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.shown = _Shown.of(host, port, key)
        return False


def _options(spec: HostSpec, where: str) -> tuple[str, asyncssh.SSHClientConnectionOptions]:
    """The host, and what the user's configuration and the study say of the way there."""
    host, user, port = parse(spec, where)
    interval, missing = _SILENCE
    given = {"username": user, "port": port}
    try:
        configured = asyncssh.SSHClientConnectionOptions(
            host=host,
            config=(),  # the user's own, now: what it says of key files, host keys and jump hosts is read below
            client_keys=None,
            login_timeout=LIMITS.command,
            keepalive_interval=interval,
            keepalive_count_max=missing,
            **{key: value for key, value in given.items() if value is not None},
        )
        keys = _keys(spec, where, configured)
        ciphers = () if configured.config.get("Ciphers") else _CIPHERS
        return host, asyncssh.SSHClientConnectionOptions(
            configured, client_keys=keys, ignore_encrypted=not spec.key, encryption_algs=ciphers
        )
    except (asyncssh.Error, OSError, ValueError) as error:
        raise HostCannot(
            f"your SSH configuration cannot be used: {error}", where, f"try: ssh {_by_hand(spec)}"
        ) from None


def _keys(spec: HostSpec, where: str, configured: asyncssh.SSHClientConnectionOptions) -> Sequence[str] | None:
    """The key files to log in with; none leaves the user's usual ones and the agent. BadInput, HostCannot."""
    config = configured.config
    configured_files = [str(_file(str(name))) for name in cast(list[str], config.get("IdentityFile", []))]
    if spec.key:
        named = [str(_file(spec.key))]
        if not _file(spec.key).exists():
            raise BadInput(f"there is no such key file: {named[0]}", f"{where}, `key`", "name one that is there")
        is_public_fine = False
    else:
        # OpenSSH passes over those that are not there, and so do we.
        named = [file for file in configured_files if os.access(file, os.R_OK)]
        is_public_fine = bool(config.get("IdentitiesOnly"))
        if configured_files and not named and is_public_fine:
            return None  # only those, and there are none
    for file in named:
        _refuse_unusable_key(file, where, is_public_fine, is_locked_fine=not spec.key)
    return named if configured_files or spec.key else ()


def _refuse_unusable_key(file: str, where: str, is_public_fine: bool, is_locked_fine: bool) -> None:
    """HostCannot, which names the file. asyncssh has one error for all that is wrong, and its text tells them apart."""
    try:
        for read in (file, *filter(os.path.exists, (f"{file}.pub", f"{file}-cert.pub"))):
            files.refuse_irregular(read, _LARGEST_KEY)
        asyncssh.load_keypairs(file, skip_public=is_public_fine, ignore_encrypted=is_locked_fine)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        if "passphrase" in str(error).lower():
            raise HostCannot(
                f"the key {file} cannot be used: it has a passphrase",
                where,
                f"use it by way of an agent: ssh-add {shlex.quote(file)}, and leave `key` out",
            ) from None
        raise HostCannot(
            f"the key {file} cannot be used: it is no private key ({error})",
            where,
            "name the file of a private key, as ssh-keygen writes it (not its .pub)",
        ) from None
    except OSError as error:
        raise HostCannot(
            f"the key {error.filename or file} cannot be read: {error.strerror or error}",
            where,
            "name a file that you can read",
        ) from None


def _known(spec: HostSpec, where: str, options: asyncssh.SSHClientConnectionOptions) -> object:
    """The host keys that are accepted; none rather than any. Without a file of them asyncssh would trust whoever
    answers."""
    if spec.host_key is None:
        names = cast(Sequence[str], options.known_hosts or _KNOWN_HOSTS)
        return [str(path) for name in names if (path := _file(name)).is_file()] or b""
    try:
        return [asyncssh.import_public_key(spec.host_key)], [], []
    except asyncssh.KeyImportError:
        raise BadInput(
            "host_key is no public key",
            f"{where}, `host_key`",
            'write it as in ssh_host_ed25519_key.pub: "ssh-ed25519 AAAA…"',
        ) from None


def _file(name: str) -> Path:
    return Path(name).expanduser()
