"""A Docker engine of one's own, where no other answers: it shares nothing with any other and dies with its starter.

It has its own data, sockets and control groups, makes no bridge and no firewall rule, and lives in a mount namespace
in which the places that every engine uses are covered, so that it leaves nothing there.
"""

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab import cgroup, probe
from nearmetal.lab.changes.ledger import held, ledgers_folder
from nearmetal.lab.containers import mount_points
from nearmetal.lab.containers.api import DOCKER, Brand, ContainerEngine, EngineRefusal, ping
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.packages import describe_install, find_manager
from nearmetal.lab.process_locks import hold_exclusive_lock
from nearmetal.model import Handle, MachineSpec
from nearmetal.system import user_namespace

KIND = "engine"
"""Of its handle in the ledger; see `lab.remove`."""

_COVERED = ("/etc/docker", "/opt/containerd", "/run/containerd", "/run/docker")
"""Where engines write whatever they are told; a running containerd in /run would also be used instead of an own one."""
_START = """
set -e
while [ "$1" != -- ]; do mount -t tmpfs tmpfs "$1"; shift; done
shift
exec "$@"
"""
_SOCKET, _LOCK, _DATA = "docker.sock", "lock", "data"
_BUSY = "another process runs an engine of its own there"
_SOCKET_LIMIT = 107
"""Bytes in the path of a Unix socket."""
_LONGEST = "exec/containerd/containerd-debug.sock"
"""Of the engine's sockets, the one with the longest path."""
_NO_OTHERS: Mapping[str, Path] = {}


@asynccontextmanager
async def run_private_engine(folder: Path, runtimes: Mapping[str, Path] = _NO_OTHERS) -> AsyncIterator[str]:
    """Run an engine whose data lie in `folder` (not below /run), kept for the next time; the URL of its socket.

    Beside Docker's own runtime it knows `runtimes`: names to programs. What an engine left there that was killed is
    removed first, and so are its containers. HostCannot when it does not come up, with its last words.
    """
    folder = folder.resolve()
    if len(os.fsencode(folder / _LONGEST)) > _SOCKET_LIMIT:
        raise BadInput("the path is too long for the sockets in it", str(folder), "choose a shorter folder")
    if user_namespace.is_entered():
        raise HostCannot("a Docker engine takes root of this host", remedy="run nearmetal as root")
    if shutil.which("dockerd") is None:
        raise HostCannot("there is no Docker engine to start", remedy=describe_install(find_manager(), "docker.io"))
    name = _name(folder)
    handle = Handle(kind=KIND, name=name, site="local", data={"folder": str(folder)})
    with hold_exclusive_lock(folder / _LOCK, _BUSY), held(ledgers_folder() / f"{name}.jsonl") as ledger:
        ledger.creating(handle)
        await _sweep(folder, name)
        needed = mount_points.make_needed(map(Path, _COVERED))
        try:
            daemon = await _start(folder, name, runtimes)
            try:
                url = f"unix://{folder / _SOCKET}"
                await wait_for_engine(url, DOCKER, lambda: daemon.returncode is not None, folder / "log")
                await _remove_containers(url)
                yield url
            finally:
                await _stop(daemon)
        finally:
            try:
                await _sweep(folder, name)
            finally:
                mount_points.let_go(needed)
            ledger.destroyed(handle)


def is_own(address: str) -> bool:
    """Whether the engine at a URL is, or was, an `run_private_engine`."""
    socket = Path(address.removeprefix("unix://"))
    # What lies at /run/lock is a folder.
    return socket.name == _SOCKET and (socket.parent / _LOCK).is_file() and (socket.parent / _DATA).is_dir()


async def remove(handle: Handle) -> None:
    await bury_engine(f"unix://{handle.data['folder']}/{_SOCKET}")


async def bury_engine(address: str) -> None:
    """Kill and remove what is left of an `run_private_engine` whose starter died, but not its data. Idempotent.

    HostCannot while its starter, or another that buries it, lives.
    """
    folder = Path(address.removeprefix("unix://")).parent
    with hold_exclusive_lock(folder / _LOCK, _BUSY):
        await _sweep(folder, _name(folder))
        mount_points.remove_unneeded(map(Path, _COVERED))


def _name(folder: Path) -> str:
    return f"engine-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"


async def _start(folder: Path, name: str, runtimes: Mapping[str, Path]) -> asyncio.subprocess.Process:
    group = await cgroup.create_group(name, MachineSpec(), "", LocalSite(), limit_memory=False)
    with (folder / "log").open("wb") as log:
        return await asyncio.create_subprocess_exec(
            *(str(probe.path()), "launch", f"--die-with-parent={os.getpid()}"),
            *group.joined,
            # SIGTERM at its starter's death, not SIGKILL, which would leave its containers running.
            *("--", "setpriv", "--pdeathsig", "TERM", "--"),
            *("unshare", "--mount", "--propagation", "slave", "--", "sh", "-c", _START, "start", *_COVERED, "--"),
            *("dockerd", "--host", f"unix://{folder}/{_SOCKET}", "--pidfile", f"{folder}/docker.pid"),
            *("--data-root", f"{folder}/{_DATA}", "--exec-root", f"{folder}/exec"),
            *("--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
            *("--cgroup-parent", f"/{_containers(name)}"),
            *(word for called, program in runtimes.items() for word in ("--add-runtime", f"{called}={program}")),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _containers(name: str) -> str:
    return f"nearmetal-{name}-containers"


async def wait_for_engine(url: str, brand: Brand, has_ended: Callable[[], bool], log: Path) -> None:
    """Wait until an engine answers that was just started. HostCannot with its last words if it does not come up."""
    deadline = asyncio.get_running_loop().time() + LIMITS.boot
    while asyncio.get_running_loop().time() < deadline and not has_ended():
        with contextlib.suppress(HostCannot):
            return await ping(url, brand)
        await asyncio.sleep(0.05)
    said = log.read_text(errors="replace").strip()[-1000:]
    raise HostCannot(f"the {brand.called} did not come up: {said}", str(log))


async def _remove_containers(url: str) -> None:
    """Those of an earlier life: they are all ours, and nobody is left who would remove them."""
    engine = await ContainerEngine.connect(url)
    try:
        for container in await engine.call(engine.client.containers, all=True):
            await engine.remove_container(container["Id"])
    except EngineRefusal as error:
        raise HostCannot(f"a container of an earlier life could not be removed: {error.what}", url) from error


async def _stop(daemon: asyncio.subprocess.Process) -> None:
    """It stops its containers before it ends, if it is given the time."""
    if daemon.returncode is None:
        daemon.terminate()
        try:
            await asyncio.wait_for(daemon.wait(), LIMITS.stop)
        except TimeoutError:
            daemon.kill()
    await daemon.wait()


async def _sweep(folder: Path, name: str) -> None:
    """Kill and remove what is left of an engine, but not its data. Its mounts go with its last process."""
    site = LocalSite()
    await cgroup.remove_group(name, site)
    groups = [*cgroup.ROOT.glob(_containers(name)), *cgroup.ROOT.glob(f"*/{_containers(name)}")]
    await site.exec(["sh", "-c", cgroup.REMOVE, "remove", *map(str, groups)])
    for leftover in (folder / _SOCKET, folder / "docker.pid"):
        leftover.unlink(missing_ok=True)
    await asyncio.to_thread(shutil.rmtree, folder / "exec", ignore_errors=True)
