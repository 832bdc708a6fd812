"""A host of the user's own, reached by SSH: `[hosts.NAME]` in a study.

What is started there ends when the connection does, so nothing outlives the controller but what the ledger knows of.

An sshd serves ten commands at once on a connection by default, and every machine takes one for as long as it lives.
Where one connection is full, the next one is opened.
"""

import asyncio
import contextlib
import json
import os
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, ToolFailed, Unreachable
from nearmetal.lab import machine_files, machine_programs, probe
from nearmetal.lab.local_site import open_short_path, run_checked
from nearmetal.lab.ssh.commands import SshCommands, begun
from nearmetal.lab.ssh.login import describe_error
from nearmetal.lab.ssh.login_shell import ask_shell
from nearmetal.lab.ssh.root_access import log_in_as_root
from nearmetal.lab.ssh_library import asyncssh
from nearmetal.model import HostSpec
from nearmetal.progress_messages import Say
from nearmetal.system.temporary_folders import temporary_folder
from nearmetal.units import show_size

CACHE = "/var/cache/nearmetal"
"""What is sent to a host once and may be removed at any time: probe and images, by their hashes."""
STATE = "/var/lib/nearmetal"

_IDENTITY = "uname -s && uname -m && id -u && cat /proc/sys/kernel/random/boot_id"
_CHUNK = 8 * 2**20
"""Bytes of a file that are sent at a time."""
_HASHING = 600.0
"""Seconds that the far side may take to read a large file through."""
_MOST_CONNECTIONS = 100

# A file appears under its name only when it is whole: what was begun is called otherwise, and begun again.
_KEEP = """
set -e
unfinished=$1.unfinished
found=$(sha256sum "$unfinished")
[ "${found%% *}" = "$2" ] || { echo "it arrived changed: ${found%% *}"; exit 1; }
chmod "$3" "$unfinished"
mv -f -- "$unfinished" "$1"
"""


class SshSite(SshCommands):
    """A `Site` at the other end of SSH connections. Made by `open`."""

    bound = ("--die-with-parent",)
    """The parent is the connection's sshd."""
    state = STATE

    def __init__(self, name: str, spec: HostSpec, say: Say) -> None:
        super().__init__(name)
        self.spec = spec
        self.arch = ""
        self.boot_id = ""
        self.probe = ""
        """Empty until it lies there."""
        self.say = say
        self._more: list[asyncssh.SSHClientConnection] = []
        self._forwarded: dict[int, asyncssh.SSHListener] = {}
        """By the port there."""
        self._sockets: dict[str, tuple[asyncssh.SSHClientConnection, str]] = {}
        """By the socket's path there: the connection that leads to it, and its path here."""
        self._to_sockets = contextlib.AsyncExitStack()
        self._placed: set[str] = set()
        """Hashes of files that were seen there."""
        self._connecting = asyncio.Lock()
        self._address = ""
        """That the study names, or its interface has."""

    @classmethod
    async def open(cls, name: str, spec: HostSpec, say: Say) -> "SshSite":
        """Log in, see what it is, and have the probe there. BadInput, or HostCannot with what helps."""
        site = cls(name, spec, say)
        try:
            site._connection = await log_in_as_root(spec, site.where)
            await site._identify()
            await site._bring_probe()
            site._address = await site._find_address()
        except BaseException:
            await site.close()
            raise
        return site

    @property
    def where(self) -> str:
        return f"the host {self.name} ({self.spec.ssh})"

    @property
    def underlay(self) -> str:
        """The address that the connection leads to, unless the study names another."""
        return self._address or str(self.connection.get_extra_info("peername")[0])

    async def _identify(self) -> None:
        try:
            async with asyncio.timeout(LIMITS.command):
                out, err = await ask_shell(self.connection, _IDENTITY)
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise Unreachable(f"it lets us in, and runs no command: {describe_error(error)}", self.where) from None
        except ToolFailed as error:
            raise HostCannot(f"it lets us in, and {error.what}", self.where, error.remedy) from None
        words = out.split()
        if len(words) != 4 or words[0] != "Linux":
            raise HostCannot(f"this is no Linux: {out[:100]!r} {err[:200]!r}", self.where)
        _, self.arch, user, self.boot_id = words
        if user != "0":
            raise HostCannot("namespaces and control groups take root", self.where, 'log in as root: ssh = "root@…"')

    async def _find_address(self) -> str:
        """By which the study has other hosts reach it; "" if it does not say. HostCannot."""
        if self.spec.interface is None:
            return str(self.spec.trunk or "")
        shown = await self.exec(["ip", "-json", "address", "show", "dev", self.spec.interface, "up"])
        found = json.loads(shown.stdout) if shown.status == 0 and shown.stdout.strip() else []
        told = [one for link in found for one in link.get("addr_info", ())]
        addresses = [str(one["local"]) for one in told if one.get("scope") == "global"]
        if not addresses:
            has = (await self.exec(["ls", "/sys/class/net"])).text.split()
            what = f"its interface {self.spec.interface} is not up, or has no address"
            raise HostCannot(what, self.where, f"see `ip address` there; its interfaces: {', '.join(has)}")
        return addresses[0]

    async def session(self, line: str, stdin: bytes) -> "asyncssh.SSHClientProcess[bytes]":
        """On the first connection that takes one more; one that was lost is made again."""
        for connection in (self.connection, *self._more):
            if not connection.is_closed():
                with contextlib.suppress(asyncssh.ChannelOpenError):
                    return await begun(connection, line, stdin)
        return await begun(await self._another(), line, stdin)

    async def _another(self) -> asyncssh.SSHClientConnection:
        async with self._connecting:
            self._more = [connection for connection in self._more if not connection.is_closed()]
            if len(self._more) >= _MOST_CONNECTIONS:
                raise asyncssh.ChannelOpenError(asyncssh.OPEN_RESOURCE_SHORTAGE, "too many commands at once")
            try:
                connection = await log_in_as_root(self.spec, self.where)
                if self.connection.is_closed():
                    self._connection = connection
                    await self._identify()
                else:
                    self._more.append(connection)
            except HostCannot as error:
                raise asyncssh.ConnectionLost(error.what) from None
            return connection

    async def log_in_again(self) -> None:
        """On a connection of its own, and see which boot it is: what went on over the others has ended. HostCannot."""
        for connection in (self.connection, *self._more):
            connection.abort()
        self._more.clear()
        self._connection = await log_in_as_root(self.spec, self.where)
        await self._identify()

    def started(self, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        # Who has the probe launch something has told it how to end; and words in braces are for that launch alone.
        if self.probe and list(argv[:2]) != [self.probe, "launch"]:
            return machine_programs.build_launch(self, argv, env)
        if "--clear-env" in argv[: argv.index("--") if "--" in argv else 0]:
            return list(argv)  # which is `launch` too: `env` would be one more program to start
        return machine_programs.build_env(argv, env)

    async def close(self) -> None:
        """Let go of it; what still runs there ends."""
        for port in list(self._forwarded):
            await self.withdraw(port)
        await self._to_sockets.aclose()
        for connection in (*self._more, *([self._connection] if self._connection else [])):
            connection.abort()
            await connection.wait_closed()

    async def part(self, path: str, begin: int, most: int) -> bytes:
        return await machine_files.read_part(self, path, begin, most)

    async def forward(self, port: int) -> int:
        if port not in self._forwarded:
            try:
                made = await self.connection.forward_local_port("127.0.0.1", 0, "127.0.0.1", port)
            except (asyncssh.Error, OSError) as error:
                raise self.lost(error) from None
            self._forwarded[port] = made
        return self._forwarded[port].get_port()

    async def withdraw(self, port: int) -> None:
        if port in self._forwarded:
            await _closed(self._forwarded.pop(port))

    @asynccontextmanager
    async def socket(self, path: str) -> AsyncIterator[str]:
        with temporary_folder() as folder, open_short_path(folder) as short:
            try:
                listener = await self.connection.forward_local_path(f"{short}/socket", path)
            except (asyncssh.Error, OSError) as error:
                raise self.lost(error) from None
            try:
                yield f"{short}/socket"
            finally:
                await _closed(listener)

    async def open_socket(self, path: str) -> str:
        connection, here = self._sockets.get(path, (None, ""))
        if connection is not self.connection:
            here = await self._to_sockets.enter_async_context(self.socket(path))
            self._sockets[path] = (self.connection, here)
        return here

    async def _bring_probe(self) -> None:
        here = os.uname().machine
        if self.arch != here:
            what = f"its processor is {self.arch}, and this installation has a probe for {here} only"
            remedy = "run nearmetal on a host like it, with NEARMETAL_PROBE naming a probe for it"
            raise HostCannot(what, self.where, remedy)
        self.probe = await self._have(probe.path(), f"{CACHE}/probe/{probe.sha256()}", probe.sha256(), "755")

    async def place(self, file: Path, sha256: str) -> str:
        path = f"{CACHE}/files/{sha256}"
        if sha256 not in self._placed:
            await self._have(file, path, sha256, "644")
            self._placed.add(sha256)
        return path

    async def _have(self, file: Path, path: str, sha256: str, mode: str) -> str:
        there = await self.exec(["sha256sum", "--", path], timeout=_HASHING)
        if there.text.partition(" ")[0] != sha256:
            await run_checked(self, "mkdir", "-p", "--", str(PurePosixPath(path).parent))
            await self._send(file, f"{path}.unfinished")
            await run_checked(self, "sh", "-c", _KEEP, "keep", path, sha256, mode, timeout=_HASHING)
        return path

    async def _send(self, file: Path, path: str) -> None:
        """By appending: every part is acknowledged, and memory stays small."""
        size = file.stat().st_size
        telling = size > _CHUNK
        sent = 0
        with file.open("rb") as source:
            while chunk := await asyncio.to_thread(source.read, _CHUNK):
                append = ">>" if sent else ">"
                await run_checked(self, "sh", "-c", f"exec cat {append} {shlex.quote(path)}", stdin=chunk)
                sent += len(chunk)
                if telling and (sent == size or sent // _CHUNK % 8 == 0):
                    self.say(f"{self.where}: {file.name}: {show_size(sent)} of {show_size(size)} sent")


async def _closed(listener: asyncssh.SSHListener) -> None:
    """Whoever still speaks by way of it is not waited for without an end."""
    listener.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LIMITS.stop):
            await listener.wait_closed()
