"""A Podman of an ordinary user's own, in the user namespace that this process is root of.

No link of ours can be laid into a container of the service that the user runs: it is in Podman's own user namespace. So
the first process that needs a service starts one here, and the service ends with it. Images and what containers write
lie in the cache. All else lies in this namespace's own /run and goes with it, so a service of a later namespace takes
the host for booted anew. That is why only one namespace has a service at a time.
"""

import os
import shutil
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from nearmetal.config import Paths
from nearmetal.errors import HostCannot
from nearmetal.lab import probe
from nearmetal.lab.containers.api import PODMAN, ping
from nearmetal.lab.containers.private_engine import wait_for_engine
from nearmetal.lab.packages import describe_install, find_manager
from nearmetal.lab.process_locks import hold_exclusive_lock
from nearmetal.system import user_namespace

RUN: Final = Path("/run/nearmetal-podman")
_SOCKET: Final = RUN / "socket"
ADDRESS: Final = f"unix://{_SOCKET}"
_BUSY: Final = "another nearmetal of yours has its Podman at work"
_CONF: Final = """
[containers]
default_ulimits = []  # those of who starts it may be lower
pids_limit = 0
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"  # those in memory are shared with the user's other Podman
"""

_started: list[subprocess.Popen[bytes]] = []
_lock = ExitStack()


def _folder() -> Path:
    return Paths.default().cache / "podman"


def has_images() -> bool:
    """Whether there may be any, because it ran before."""
    return (_folder() / "storage").is_dir()


def remove_temporary() -> None:
    """Remove what nobody loads any more: Podman 4.3 keeps the file that an image came by."""
    for file in (_folder() / "tmp").glob("api_load.tar*"):
        file.unlink()


async def ensure_running() -> None:
    """Have it answer at `ADDRESS`. HostCannot."""
    if not user_namespace.is_entered():
        raise user_namespace.explain_refusal()
    with suppress(HostCannot):
        await ping(ADDRESS, PODMAN)
        return
    if not any(one.poll() is None for one in _started):
        _lock.close()
        _start()
    (service,) = _started
    await wait_for_engine(ADDRESS, PODMAN, lambda: service.poll() is not None, _folder() / "log")


def _start() -> None:
    """Nothing of it, nor of what it starts, knows the user's own Podman: neither its settings nor its folders."""
    home = _folder()
    if shutil.which("podman") is None:
        raise HostCannot("there is no Podman to start", remedy=describe_install(find_manager(), "podman"))
    try:
        _lock.enter_context(hold_exclusive_lock(home / "lock", _BUSY))
    except HostCannot:
        if not _is_of_this_namespace(home / "lock"):
            raise
    shutil.rmtree(home / "tmp", ignore_errors=True)
    for made in (home / "tmp", RUN):
        made.mkdir(parents=True, exist_ok=True)
    _SOCKET.unlink(missing_ok=True)
    (home / "containers.conf").write_text(_CONF)
    (home / "storage.conf").write_text('[storage]\ndriver = "overlay"\n')
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "XDG_RUNTIME_DIR": str(RUN),
        "CONTAINERS_CONF": str(home / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(home / "storage.conf"),
        # The namespace is made, so that Podman makes none; and whose it is.
        "_CONTAINERS_USERNS_CONFIGURED": "done",
        "_CONTAINERS_ROOTLESS_UID": Path("/proc/self/uid_map").read_text().split()[1],
    }
    with (home / "log").open("wb") as log:
        service = subprocess.Popen(
            [
                *(str(probe.path()), "launch", f"--die-with-parent={os.getpid()}", "--"),
                *("podman", "--root", str(home / "storage"), "--runroot", str(RUN / "storage")),
                *("--tmpdir", str(RUN / "tmp"), "system", "service", "--time", "0", ADDRESS),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=home,
            start_new_session=True,
        )
    _started[:] = [service]


def _is_of_this_namespace(lock: Path) -> bool:
    """Whether the process that a lock names, whose service has died, is in our namespaces."""
    holder = lock.read_text().rpartition(" ")[2]
    with suppress(OSError):
        return os.path.samestat(Path(f"/proc/{holder}/ns/user").stat(), Path("/proc/self/ns/user").stat())
    return False
