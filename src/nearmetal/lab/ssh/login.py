"""Logging in to a host of the user's own, by SSH.

Who it is and who we are is the user's business: their known_hosts says which host key is right, their agent and key
files log in, and their ~/.ssh/config may say the rest, jump hosts among it. If OpenSSH is installed, it reads that. A
study can name key, host key and jump host itself. A host whose key is not known, or is another than the known one, is
refused, every jump host too; nothing is ever typed where a password is asked for.
"""

import asyncio
import os
import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, HostCannot, ToolFailed, Unreachable
from nearmetal.lab.ssh.known_hosts import find_readable, join_known_hosts
from nearmetal.lab.ssh.openssh_settings import OpensshSettings, ask_openssh
from nearmetal.lab.ssh_library import asyncssh
from nearmetal.model import HostSpec
from nearmetal.system import files

_TARGET = re.compile(r"(?:(?P<user>.+)@)?(?:\[(?P<bracketed>[^\]]+)\]|(?P<host>[^@\[\]:]+))(?::(?P<port>[0-9]{1,5}))?")
_USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_PORT = 22
_Keys = tuple[Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey]]
"""Trusted, of authorities, revoked."""
_LARGEST_KEY = 2**20
"""Bytes of a key file; the longest have a few thousand."""
_CIPHERS = "^aes128-gcm@openssh.com"
"""First, unless the user's configuration says: a packet is one call to it, and several to asyncssh's own first choice,
so that every command takes longer by that."""
_SILENCE = (15, 3)
"""Seconds between two signs of life on a connection that says nothing, and how many may be missing: a host that lost
its power would otherwise never be missed."""


@dataclass(frozen=True)
class _Way:
    """How a host is reached, and which host keys are right there."""

    host: str
    options: asyncssh.SSHClientConnectionOptions
    jumps: str
    known_files: Sequence[Path]
    config: tuple[()] | None
    """What asyncssh is to read by itself: nothing if OpenSSH told all, else the user's configuration."""


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
    _known(spec, where, ())
    if spec.key:
        _keys(spec, where, [], is_public_fine=False)


async def log_in(spec: HostSpec, where: str) -> asyncssh.SSHClientConnection:
    """A connection, with those to its jump hosts below it. BadInput, or HostCannot with what helps."""
    try:
        async with asyncio.timeout(LIMITS.command):
            return await _log_in(spec, where)
    except TimeoutError:
        raise _unreachable(spec, where, f"no answer within {LIMITS.command:g} s") from None


def describe_error(error: BaseException) -> str:
    """Why something over SSH failed within the limit of a command, which says nothing by itself."""
    return str(error) or f"no answer within {LIMITS.command:g} s"


async def _log_in(spec: HostSpec, where: str) -> asyncssh.SSHClientConnection:
    """By way of its jump hosts, one after the other; what the configuration says of a jump host's own is not heard."""
    way = await asyncio.to_thread(_find_way, spec, where)
    through: asyncssh.SSHClientConnection | None = None
    try:
        for jump in filter(None, (spec.jump or way.jumps).split(",")):
            at = f"the jump host {jump.strip()} of {where}"
            by = _jump_host(jump.strip(), at)
            through = await _connect(by, at, await asyncio.to_thread(_find_way, by, at), through)
        return await _connect(spec, where, way, through)
    except BaseException:
        if through is not None:
            through.abort()  # with those below it: who waits for a machine to boot comes by again and again
        raise


def _jump_host(jump: str, where: str) -> HostSpec:
    """HostCannot for what OpenSSH's configuration may say and nearmetal does not take."""
    try:
        return HostSpec(ssh=jump)
    except ValueError:
        remedy = 'write it as "user@host:port", or name a `Host`'
        raise HostCannot(f"{jump!r} is no address that nearmetal takes", where, remedy) from None


async def _connect(
    spec: HostSpec, where: str, way: _Way, through: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    client = _Client()
    known = _known(spec, where, way.known_files)
    try:
        connection = await asyncssh.connect(
            way.host,
            way.options.port,
            options=way.options,
            config=way.config,
            family=way.options.family,
            tunnel=through,
            known_hosts=known,
            client_factory=lambda: client,
        )
    except asyncssh.HostKeyNotVerifiable as error:
        _refuse_host_key(client.shown, way.known_files, spec, where, str(error))
    except asyncssh.PermissionDenied:
        asks = ", and asks for a password, which nearmetal never types" if client.was_asked else ""
        remedy = f"ssh-copy-id {_by_hand(spec)}; or add the key to ssh-agent"
        raise HostCannot(f"it accepts none of your keys{asks}", where, remedy) from None
    except (asyncssh.Error, OSError, ValueError) as error:
        if client.connection is not None and not client.was_greeted:
            said = f"what answers there is no SSH server, or turns us away before it says so ({_said(error)})"
            raise _unreachable(spec, where, said) from None
        # Only keys of the kinds that are known are asked for, and a server that has none of them just ends.
        shown = await _host_key(way, through) if client.was_greeted else None
        if shown and not shown.is_among(known):
            _refuse_host_key(shown, way.known_files, spec, where, "it is of another kind than the one known")
        raise _unreachable(spec, where, _said(error)) from None
    if through is not None:
        connection.set_tunnel(through)  # which ends with it
    return connection


async def _host_key(way: _Way, through: asyncssh.SSHClientConnection | None) -> "_UntrustedKey | None":
    """Its host key, of whatever kind. None when it cannot be had."""
    options = way.options
    try:
        key = await asyncssh.get_server_host_key(
            way.host,
            options.port,
            options=options,
            config=way.config,
            family=options.family,
            tunnel=through,
            proxy_command=options.proxy_command or (),
            server_host_key_algs="default",
        )
    except (asyncssh.Error, OSError):
        return None
    return _UntrustedKey.of(options.host_key_alias or options.host, options.port, key) if key else None


def _refuse_host_key(
    shown: "_UntrustedKey | None", files: Sequence[Path], spec: HostSpec, where: str, said: str
) -> NoReturn:
    """HostCannot with what is wrong with a host key, as far as it is known."""
    if shown and spec.host_key is None:
        shown.refuse_another(files, where, _by_hand(spec))
    remedy = f"log in once by hand and compare the key (ssh {_by_hand(spec)}), so that it is in ~/.ssh/known_hosts"
    if spec.host_key is not None:
        remedy = "compare host_key with the host's /etc/ssh/ssh_host_*_key.pub"
    raise HostCannot(f"its host key is not one that you know: {said}", where, remedy) from None


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
class _UntrustedKey:
    """A host key that was shown and is not trusted, and the name by which known_hosts has its host."""

    name: str
    key: asyncssh.SSHKey

    @classmethod
    def of(cls, host: str, port: int | None, key: asyncssh.SSHKey) -> "_UntrustedKey":
        return cls(host if port in (None, _PORT) else f"[{host}]:{port}", key)

    def is_among(self, known: "asyncssh.SSHKnownHosts | _Keys") -> bool:
        """`known` as `_known` has it."""
        if isinstance(known, tuple):
            return self.key in known[0]
        return self.key in self._find_known(known)

    def _find_known(self, known: "asyncssh.SSHKnownHosts") -> Sequence[asyncssh.SSHKey]:
        # The port is in the name: by itself, it would have asyncssh take the key of the same host's other servers.
        return asyncssh.match_known_hosts(known, self.name, "", None)[0]

    def refuse_another(self, files: Sequence[Path], where: str, by_hand: str) -> None:
        """HostCannot when one of these files has another key of the same host."""
        for file in files:
            if known := self._find_known(join_known_hosts([file])):
                kind = "" if self.key.get_algorithm() in {key.get_algorithm() for key in known} else "of another kind, "
                prints = ", ".join(map(_print, known))
                raise HostCannot(
                    f"its host key is ANOTHER than the one known: {kind}{_print(self.key)}; {file} has {prints}",
                    where,
                    f"ask whoever runs it; if it was made anew: ssh-keygen -f {shlex.quote(str(file))} "
                    f"-R {shlex.quote(self.name)}, then log in once by hand and compare the key (ssh {by_hand})",
                )


def _print(key: asyncssh.SSHKey) -> str:
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


class _Client(asyncssh.SSHClient):
    """Answers no prompt and trusts no key by itself, and remembers both, and how far it came."""

    was_asked = False
    shown: _UntrustedKey | None = None
    connection: asyncssh.SSHClientConnection | None = None
    """Once it was reached."""

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.connection = conn

    @property
    def was_greeted(self) -> bool:
        """As an SSH server greets, with its version."""
        return self.connection is not None and bool(self.connection.get_extra_info("server_version"))

    def password_auth_requested(self) -> None:
        self.was_asked = True

    def kbdint_auth_requested(self) -> None:
        self.was_asked = True

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.shown = _UntrustedKey.of(host, port, key)
        return False


def _find_way(spec: HostSpec, where: str) -> _Way:
    """What the user's configuration and the study say of the way to a host. BadInput, HostCannot. Blocks."""
    name, user, port = parse(spec, where)
    try:
        settings = ask_openssh(name, user, port)
        return _way_of_openssh(spec, where, settings) if settings else _way_of_asyncssh(spec, where, name, user, port)
    except (asyncssh.Error, OSError, ValueError, ToolFailed) as error:
        said = error.what if isinstance(error, ToolFailed) else str(error)
        what = f"your SSH configuration cannot be used: {said}"
        raise HostCannot(what, where, f"try: ssh {_by_hand(spec)}") from None


def _way_of_openssh(spec: HostSpec, where: str, settings: OpensshSettings) -> _Way:
    is_only = settings.first("identitiesonly") == "yes"
    keys = _keys(spec, where, settings.list_paths("identityfile"), is_only)
    given: dict[str, object] = {
        "username": settings.user,
        "port": settings.port,
        "proxy_command": settings.proxy_command or (),
        "host_key_alias": settings.first("hostkeyalias"),
        "family": {"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(settings.first("addressfamily") or "", ()),
        "client_certs": [str(file) for file in find_readable(settings.list_paths("certificatefile"))],
        **_choose_algorithms(settings),
    }
    if is_only:
        given["agent_identities"] = [f"{file}.pub" for file in keys or () if Path(f"{file}.pub").is_file()]
    if agent := settings.values.get("identityagent"):
        named = agent[0].removeprefix("$")
        given["agent_path"] = None if named == "none" else os.environ.get(named, named)
    options = _make_options(spec, settings.host, keys, None, given)
    return _Way(settings.host, options, settings.jumps, find_readable(settings.known_hosts_files), None)


def _choose_algorithms(settings: OpensshSettings) -> dict[str, object]:
    """Those that the user chose, as far as asyncssh has them; else its own, the quickest cipher first."""
    chosen: dict[str, object] = {"encryption_algs": _CIPHERS}
    for option, name, has in (
        ("ciphers", "encryption_algs", asyncssh.encryption.get_encryption_algs),
        ("kexalgorithms", "kex_algs", asyncssh.kex.get_kex_algs),
        ("macs", "mac_algs", asyncssh.mac.get_mac_algs),
    ):
        wanted = (settings.first(option) or "").split(",")
        if common := [one for one in wanted if one.encode() in has()]:
            chosen[name] = common
    return chosen


def _way_of_asyncssh(spec: HostSpec, where: str, host: str, user: str | None, port: int | None) -> _Way:
    """Without OpenSSH: asyncssh reads the user's configuration, as far as it understands it."""
    named = {"username": user, "port": port}
    given: dict[str, object] = {key: value for key, value in named.items() if value is not None}
    configured = _make_options(spec, host, None, (), given)
    config = configured.config
    is_only = bool(config.get("IdentitiesOnly"))
    keys = _keys(spec, where, [_file(str(name)) for name in cast(list[str], config.get("IdentityFile", []))], is_only)
    given["encryption_algs"] = () if config.get("Ciphers") else _CIPHERS
    options = _make_options(spec, host, keys, (), given)
    names = (
        *cast(Sequence[str], config.get("UserKnownHostsFile") or _USER_KNOWN_HOSTS),
        *cast(Sequence[str], config.get("GlobalKnownHostsFile") or _GLOBAL_KNOWN_HOSTS),
    )
    return _Way(host, options, str(options.tunnel or ""), find_readable(map(_file, names)), ())


def _make_options(
    spec: HostSpec, host: str, keys: Sequence[str] | None, config: tuple[()] | None, given: Mapping[str, object]
) -> asyncssh.SSHClientConnectionOptions:
    interval, missing = _SILENCE
    return asyncssh.SSHClientConnectionOptions(
        host=host,
        config=config,
        client_keys=keys,
        ignore_encrypted=not spec.key,
        login_timeout=LIMITS.command,
        keepalive_interval=interval,
        keepalive_count_max=missing,
        **given,
    )


def _keys(spec: HostSpec, where: str, configured: Sequence[Path], is_public_fine: bool) -> Sequence[str] | None:
    """The key files to log in with; none leaves the user's usual ones and the agent. BadInput, HostCannot.
    `is_public_fine`: only the configured ones are to be used, and the agent may have those."""
    if spec.key:
        named = [str(_file(spec.key))]
        if not _file(spec.key).exists():
            raise BadInput(f"there is no such key file: {named[0]}", f"{where}, `key`", "name one that is there")
        is_public_fine = False
    else:
        # OpenSSH passes over those that are not there, and so do we.
        named = [str(file) for file in configured if os.access(file, os.R_OK)]
        if configured and not named and is_public_fine:
            return None  # only those, and there are none
    for file in named:
        _refuse_unusable_key(file, where, is_public_fine, is_locked_fine=not spec.key)
    return named if configured or spec.key else ()


def _refuse_unusable_key(file: str, where: str, is_public_fine: bool, is_locked_fine: bool) -> None:
    """HostCannot, which names the file. asyncssh has one error for all that is wrong, and its text tells them apart."""
    try:
        for read in (file, *filter(os.path.exists, (f"{file}.pub", f"{file}-cert.pub"))):
            files.refuse_irregular(read, _LARGEST_KEY)
        asyncssh.load_keypairs(file, skip_public=is_public_fine, ignore_encrypted=is_locked_fine)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        why = f"it is no private key ({error})"
        remedy = "name the file of a private key, as ssh-keygen writes it (not its .pub)"
        if "passphrase" in str(error).lower():
            why = "it has a passphrase"
            remedy = f"use it by way of an agent: ssh-add {shlex.quote(file)}, and leave `key` out"
        raise HostCannot(f"the key {file} cannot be used: {why}", where, remedy) from None
    except OSError as error:
        what = f"the key {error.filename or file} cannot be read: {error.strerror or error}"
        raise HostCannot(what, where, "name a file that you can read") from None


def _known(spec: HostSpec, where: str, files: Sequence[Path]) -> "asyncssh.SSHKnownHosts | _Keys":
    """The host keys that are accepted; none rather than any. Without a file of them asyncssh would trust whoever
    answers."""
    if spec.host_key is None:
        return join_known_hosts(files)
    try:
        return [asyncssh.import_public_key(spec.host_key)], [], []
    except asyncssh.KeyImportError:
        remedy = 'write it as in ssh_host_ed25519_key.pub: "ssh-ed25519 AAAA…"'
        raise BadInput("host_key is no public key", f"{where}, `host_key`", remedy) from None


def _file(name: str) -> Path:
    return Path(name).expanduser()
