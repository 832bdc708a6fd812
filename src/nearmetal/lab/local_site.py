"""Sites: hosts where machines live and changes are made. Here: this host."""

import asyncio
import json
import os
import platform
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from nearmetal import cpu_lists
from nearmetal.config import LIMITS, Paths
from nearmetal.errors import HostCannot
from nearmetal.lab import container_privileges, probe
from nearmetal.lab.commands import process
from nearmetal.lab.commands.command_errors import cannot_read, cannot_write, refuse_zero_bytes
from nearmetal.model import Commands, Completed, HostSpec, Site, SiteRunning
from nearmetal.progress_messages import Say, ignore_text
from nearmetal.system.files import closing_descriptor

_SAID = 500
"""Characters of a program's last words that are told."""
_ONLINE = "/sys/devices/system/cpu/online"


class LocalSite:
    name = "local"
    spec: HostSpec | None = None
    underlay: str | None = None

    def __init__(self, say: Say = ignore_text) -> None:
        self.say = say
        self.arch = platform.machine()
        self.boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    @property
    def probe(self) -> str:
        return str(probe.path())

    @property
    def state(self) -> str:
        return str(Paths.default().state)

    @property
    def bound(self) -> Sequence[str]:
        return (f"--die-with-parent={os.getpid()}",)

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = LIMITS.command,
    ) -> Completed:
        return await process.run(argv, stdin=stdin, env=env, timeout=timeout)

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> SiteRunning:
        return process.LocalProcess(await process.start(argv, env=env, stdin=asyncio.subprocess.DEVNULL))

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        refuse_zero_bytes([path])
        file = Path(path)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
            with os.fdopen(descriptor, "wb") as handle:
                handle.write(content)
        except OSError as error:
            raise cannot_write(path, error.strerror, self.name, _find_remedy(error)) from error

    async def get(self, path: str) -> bytes:
        refuse_zero_bytes([path])
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise cannot_read(path, error.strerror, self.name, _find_remedy(error)) from error

    async def part(self, path: str, begin: int, most: int) -> bytes:
        refuse_zero_bytes([path])
        try:
            with Path(path).open("rb") as file:  # noqa: ASYNC230 a part of a local file is there at once
                file.seek(begin)
                return file.read(most)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise cannot_read(path, error.strerror, self.name, _find_remedy(error)) from error

    async def forward(self, port: int) -> int:
        return port

    async def withdraw(self, port: int) -> None:
        """Nothing was made."""

    @asynccontextmanager
    async def socket(self, path: str) -> AsyncIterator[str]:
        folder, _, name = path.rpartition("/")
        with open_short_path(folder) as short:
            yield f"{short}/{name}"

    async def open_socket(self, path: str) -> str:
        return path

    async def place(self, file: Path, sha256: str) -> str:
        return str(file)


class BoundCommands:
    """Of a site, whatever is started ends with the controller, also when that is killed.

    Else a program that changes values could go on doing so while `clean` puts them back, and have the last word.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self.put = site.put
        self.get = site.get

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = LIMITS.command,
    ) -> Completed:
        return await self._site.exec(self._launched(argv), stdin=stdin, env=env, timeout=timeout)

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> SiteRunning:
        return await self._site.spawn(self._launched(argv), env=env)

    def _launched(self, argv: Sequence[str]) -> list[str]:
        return [self._site.probe, "launch", *self._site.bound, "--", *argv]


@contextmanager
def open_short_path(folder: str | Path) -> Iterator[str]:
    """A folder's path in this process by its descriptor, because a socket's path may have 107 bytes only. OSError."""
    with closing_descriptor(os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        yield f"/proc/self/fd/{descriptor}"


def _find_remedy(error: OSError) -> str:
    return "run nearmetal as root" if isinstance(error, PermissionError) and os.geteuid() != 0 else ""


async def run_checked(commands: Commands, *argv: str, stdin: bytes = b"", timeout: float = LIMITS.command) -> bytes:
    """Run a command that has to succeed; its stdout. HostCannot with what it said otherwise."""
    return require_success(argv, await commands.exec(argv, stdin=stdin, timeout=timeout))


def require_success(argv: Sequence[str], ended: Completed) -> bytes:
    """The stdout of a command that has ended. HostCannot with what it said, if its status is not 0. Pure."""
    if ended.status != 0:
        said = ended.complaint or ended.text.strip() or f"status {ended.status}"
        raise HostCannot(f"`{' '.join(argv)[:200]}` failed: {shorten_words(said)}")
    return ended.stdout


def shorten_words(said: str) -> str:
    """The end of what a program said, in whole words. Pure."""
    if len(said) <= _SAID:
        return said
    return f"… {said[-_SAID:].partition(' ')[2]}"


async def list_available_cpus(commands: Commands) -> list[int]:
    """The CPUs that our processes may use there, of those that are on: a process may be allowed what is off, too."""
    *status, online = (await run_checked(commands, "cat", "/proc/self/status", _ONLINE)).decode().splitlines()
    allowed = next(line for line in status if line.startswith("Cpus_allowed_list:"))
    on = set(cpu_lists.parse(online))
    return [cpu for cpu in cpu_lists.parse(allowed.partition(":")[2]) if cpu in on]


async def read_memory(commands: Commands, name: str) -> int:
    """Bytes, as the kernel there counts them by a name of /proc/meminfo: "MemTotal", "MemAvailable"."""
    lines = (await run_checked(commands, "cat", "/proc/meminfo")).decode().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


async def read_host_facts() -> dict[str, Any]:
    """The probe's facts.v1 of this host; in a container also what that keeps from us."""
    facts: dict[str, Any] = json.loads(await run_checked(LocalSite(), str(probe.path()), "facts", "--json"))
    if container_privileges.is_contained():
        facts["container"] = {"lacks": list(container_privileges.find_lacking())}
    return facts
