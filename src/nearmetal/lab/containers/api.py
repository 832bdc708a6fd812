"""The API of a Docker engine, and of Podman's service: the SDK in threads, and the streams it cannot give us whole.

The SDK hands out the socket of a stream after having read ahead on it, so that the first bytes can be missing; those
two requests are made here instead.
"""

import asyncio
import contextlib
import errno
import json
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from nearmetal.errors import MALFORMED, HostCannot, NearmetalError
from nearmetal.lab.local_site import read_memory
from nearmetal.model import Site

_STDERR = 2
_TIMEOUT = 60
"""Seconds that one answer may take."""

P = ParamSpec("P")
T = TypeVar("T")

NOT_FOUND = 404
_NOT_YET = (409, 500)
"""HTTP statuses: Docker's while a container is being removed, as after its own death, and Podman's while one is
ending."""


class EngineRefusal(NearmetalError):
    """The engine answered, but not as was wished; `status` is that of HTTP."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status = status


@dataclass(frozen=True)
class Brand:
    """Whose engine it is: how it is found, and started."""

    called: str
    variable: str
    """Of the environment; names an engine."""
    usual: str
    """The address that it has when nothing names another."""
    start: str
    """The command that starts it."""
    client: str
    """Its program for the command line, and the kind of its environment."""
    to_engine: tuple[str, ...]
    """Options of that program, before the address of an engine."""
    component: str
    """What it calls itself among what it is made of."""
    other_runtime: str
    """How it is made to run containers by another runtime."""
    server: str
    """The program that serves."""
    package: str
    """Debian's package that has it."""

    def address(self, options: Mapping[str, Any], site: Site | None = None) -> str:
        """The engine that [environments.NAME] names, or for this host the environment, else the usual one."""
        variable = os.environ.get(self.variable) if site is None or site.spec is None else None
        return str(options.get("engine") or variable or self.usual)

    @property
    def remedy(self) -> str:
        return f"start it ({self.start}), or name another: {self.variable}, or engine in [environments.NAME]"


DOCKER = Brand(
    called="Docker engine",
    variable="DOCKER_HOST",
    usual="unix:///var/run/docker.sock",
    start="systemctl start docker, or for a run --engine own",
    client="docker",
    to_engine=("--host",),
    component="Engine",
    other_runtime="name one of these, or install it and tell the engine of it in /etc/docker/daemon.json",
    server="dockerd",
    package="docker.io",
)
PODMAN = Brand(
    called="Podman service",
    variable="CONTAINER_HOST",
    usual="unix:///run/podman/podman.sock",
    start="systemctl start podman.socket",
    client="podman",
    to_engine=("--remote", "--url"),
    component="Podman Engine",
    other_runtime="name that, or start a service with the other: podman --runtime NAME system service",
    server="podman",
    package="podman",
)
BRANDS = (DOCKER, PODMAN)


async def ping(address: str, brand: Brand, socket_here: str | None = None) -> None:
    """HostCannot when no engine answers there. Without the SDK, whose import takes longer than many a command.

    `socket_here`: the path by which the socket of an engine on another host is reached.
    """
    try:
        async with asyncio.timeout(_TIMEOUT):
            reader, writer = await asyncio.open_unix_connection(socket_here or address.removeprefix("unix://"))
            try:
                writer.write(b"GET /_ping HTTP/1.0\r\n\r\n")
                answer = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        raise describe_silence(address, error, brand) from error
    if not answer.endswith(b"OK"):
        raise describe_silence(address, EOFError() if not answer else ValueError(), brand)


class ContainerEngine:
    """One engine on the host of its machines, reached by its Unix socket."""

    def __init__(self, address: str, client: Any, brand: Brand = DOCKER, socket_here: str | None = None) -> None:
        self.address = address
        """As that host has it."""
        self.socket_here = socket_here or address.removeprefix("unix://")
        self.brand = brand
        self.client = client
        """The SDK's low-level client; blocking, so to be used through `call`."""
        self.default_runtime: str | None = None
        """By which it runs containers, once it was asked."""
        self._is_here = False
        """Whether it was found to be on this kernel."""

    @classmethod
    async def connect(cls, address: str, brand: Brand = DOCKER, site: Site | None = None) -> "ContainerEngine":
        """HostCannot when no engine answers there: on a site, or else on this host."""
        if address.startswith("/"):
            remedy = f'write engine = "unix://{address}", or set {brand.variable} so'
            raise HostCannot(f"the {brand.called} is named by its socket's URL, not by its path", address, remedy)
        if not address.startswith("unix://"):
            what = f"the {brand.called} must be on the host of its machines, because they are put on the lab's switch"
            remedy = f'name its socket there: engine = "{brand.usual}", or set {brand.variable} so'
            raise HostCannot(what, address, remedy)
        path = address.removeprefix("unix://")
        here = await site.open_socket(path) if site else path
        return cls(address, await asyncio.to_thread(_client, address, here, brand), brand, here)

    async def refuse_other(self) -> None:
        """HostCannot where an engine of the other brand answers: much of their API is alike, and not all of it."""
        version = await self.call(self.client.version)
        names = {part["Name"] for part in version.get("Components") or ()}
        answers = next((one for one in BRANDS if one.component in names), self.brand)
        if answers != self.brand:
            another = f"{self.brand.called}: {self.brand.variable}, or engine in [environments.NAME]"
            remedy = f'for that one the kind is "{answers.client}"; or name a {another}'
            what = f"a {answers.called} answers at {self.address}, and no {self.brand.called}"
            raise HostCannot(what, self.address, remedy)

    async def refuse_elsewhere(self, site: Site) -> None:
        """HostCannot if its containers run on another kernel: their process ids would name programs of the site.

        Docker Desktop, and a socket forwarded from another host, answer on a socket of the site all the same.
        """
        if self._is_here:
            return
        info = await self.call(self.client.info)
        self.default_runtime = info.get("DefaultRuntime")  # Podman takes a second to tell all that it knows
        if differences := await _compare_kernels(info, site):
            what = f"the {self.brand.called} runs its containers on another kernel than its host's: {differences}"
            remedy = "place them on the host of that engine, or name an engine of this one"
            by = f"{self.brand.variable}, or engine in [environments.NAME]"
            raise HostCannot(what, self.address, f"{remedy}: {by}")
        # Who answers on another host is not seen from here; its containers' processes are looked for there.
        if site.spec is None and await asyncio.to_thread(_is_of_other_processes, self.socket_here):
            what = f"the {self.brand.called} counts processes otherwise than nearmetal does, which runs in a container"
            remedy = "run nearmetal outside of it, or with the host's processes (--pid=host)"
            raise HostCannot(what, self.address, remedy)
        self._is_here = True

    async def call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask by a method of `client`. EngineRefusal with what the engine said, HostCannot when it says nothing."""
        from docker.errors import APIError, DockerException
        from requests.exceptions import RequestException

        try:
            return await asyncio.to_thread(method, *args, **kwargs)
        except APIError as error:
            status = error.status_code or 500
            raise EngineRefusal(status, str(error.explanation or f"it answers with HTTP status {status}")) from error
        except (RequestException, DockerException) as error:
            raise describe_silence(self.address, error, self.brand) from error

    async def call_until_ready(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `call`, again and again for ten seconds while the engine is not ready for it: a container is going."""
        for _ in range(100):
            try:
                return await self.call(method, *args, **kwargs)
            except EngineRefusal as error:
                if error.status not in _NOT_YET:
                    raise
            await asyncio.sleep(0.1)
        return await self.call(method, *args, **kwargs)

    async def remove_container(self, container: str) -> None:
        """Kill and remove one, by its name or number; nothing if it is gone. EngineRefusal if it stays."""
        if self.brand is PODMAN:
            # Podman 4.3 leaves /run/libpod/exits/ID of one that was made ready and never started, if it is not stopped.
            with contextlib.suppress(EngineRefusal):
                await self.call(self.client.stop, container, timeout=0)
        try:
            await self.call_until_ready(self.client.remove_container, container, force=True, v=True)
        except EngineRefusal as error:
            if error.status != NOT_FOUND:
                raise

    async def stream(self, path: str, body: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Ask for a stream: what is written goes to standard input, what is read are `frames`."""
        try:
            reader, writer = await asyncio.open_unix_connection(self.socket_here)
        except OSError as error:
            raise describe_silence(self.address, error, self.brand) from error
        content = json.dumps(body).encode()
        head = (
            f"POST /v{self.client.api_version}/{path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\n"
            f"Upgrade: tcp\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        try:
            writer.write(head.encode() + content)
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _TIMEOUT)
            status = int(answer.split(b" ", 2)[1])
            if status not in (101, 200):
                raise EngineRefusal(status, await asyncio.wait_for(_reason(reader, answer), _TIMEOUT))
        except (OSError, EOFError, ValueError, IndexError, asyncio.LimitOverrunError, EngineRefusal) as error:
            writer.close()
            if isinstance(error, EngineRefusal):
                raise
            raise describe_silence(self.address, error, self.brand) from error
        return reader, writer


async def _compare_kernels(info: Mapping[str, Any], site: Site) -> str:
    """What of an engine's kernel is unlike the site's; "" if nothing is. What it does not tell is alike. Two kernels of
    one release hardly ever have the same number of pages."""
    release = (await site.get("/proc/sys/kernel/osrelease")).decode().strip()
    pairs = (
        ("release", info.get("KernelVersion"), release),
        ("bytes of memory", info.get("MemTotal"), await read_memory(site, "MemTotal")),
    )
    return ", ".join(f"{what} {there} (host: {host})" for what, there, host in pairs if there and there != host)


def _is_of_other_processes(path: str) -> bool:
    """Whether who listens on a socket has no number among the processes that are seen from here."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TIMEOUT)
        try:
            connection.connect(path)
            (pid,) = struct.unpack_from("i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:
            return False  # that nobody answers is found by whoever asks it next
    return bool(pid == 0)


def describe_silence(address: str, error: BaseException, brand: Brand) -> HostCannot:
    """That no engine answers there, and why, in words of ours: the libraries' speak of their own insides."""
    return HostCannot(f"no {brand.called} answers: {_why(error, brand)}", address, brand.remedy)


_REASONS = {
    errno.ENOENT: "there is no such socket",
    errno.ENOTDIR: "there is no such socket",
    errno.ECONNREFUSED: "nobody listens on that socket",
    errno.EACCES: "this user may not use that socket",
    errno.EPERM: "this user may not use that socket",
    errno.ECONNRESET: "it closed the connection",
    errno.EPIPE: "it closed the connection",
}


def _why(error: BaseException, brand: Brand) -> str:
    """What lies at the bottom of an error: the system's own where there is one."""
    from docker.errors import APIError

    inner = list(_within(error))
    for one in inner:
        if isinstance(one, OSError) and one.errno is not None:
            return _REASONS.get(one.errno) or os.strerror(one.errno)
    if any(isinstance(one, TimeoutError) or "timeout" in type(one).__name__.lower() for one in inner):
        return f"not within {_TIMEOUT} s"
    if any(isinstance(one, EOFError | ConnectionError) for one in inner):
        return "it closed the connection"
    if statuses := [one.status_code for one in inner if isinstance(one, APIError)]:
        return f"it answers with HTTP status {statuses[0]}"
    return f"what does answer there is no {brand.called}"


def _within(error: BaseException) -> Iterator[BaseException]:
    """An error and all it was made of: urllib3 and requests hand the system's error on as an argument of theirs."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [part for part in (one.__cause__, one.__context__, *one.args) if isinstance(part, BaseException)]


def _client(address: str, socket_here: str, brand: Brand) -> Any:
    import docker
    from docker.errors import DockerException

    try:
        return docker.APIClient(base_url=f"unix://{socket_here}", version="auto", timeout=_TIMEOUT)
    except DockerException as error:
        raise describe_silence(address, error, brand) from error


async def _reason(reader: asyncio.StreamReader, head: bytes) -> str:
    """Why a stream was refused, from the JSON that follows the header."""
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    content = await reader.readexactly(int(lengths[0].partition(b":")[2])) if lengths else b""
    try:
        return str(json.loads(content)["message"])
    except MALFORMED:
        return content.decode("utf-8", "replace") or head.decode("latin-1").splitlines()[0]


async def read_frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bool, bytes]]:
    """Pieces of standard output, or (True) of standard error, until the stream ends. A frame is cut only when the
    machine is, and then left out."""
    while True:
        try:
            header = await reader.readexactly(8)
            frame = await reader.readexactly(int.from_bytes(header[4:], "big"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        yield header[0] == _STDERR, frame
