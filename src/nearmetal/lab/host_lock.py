"""One nearmetal at a time on a machine that is somebody's: a lock that ends with its holder and leaves no file.

Who comes by SSH has the lock for itself. Runs on that host itself share it: those of one home keep each other out by a
lock of their own (`nearmetal.lab.process_locks`).
"""

import asyncio
import contextlib
import fcntl
import getpass
import os
import socket
import subprocess
import time
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, MachineLost, TimedOut
from nearmetal.lab import concurrent_runs
from nearmetal.lab.host_checks import finding
from nearmetal.model import Finding, Site, SiteRunning

FOLDER = "/root"
"""What is locked: no user but root can open it, and it is there already."""
HOLDER = "NEARMETAL_HOLDER"
"""In the environment of the process that holds the lock: who started it."""

_MOMENT = 1
"""Seconds: who only looks whether it can be had has it for an instant."""

# Hosts that share their processes, as namespaces do, have holders of their own: which has this folder open counts.
_NAME = """
for process in $(grep -lz "^$2=" /proc/[0-9]*/environ 2>/dev/null); do
    for file in "${process%environ}"fd/*; do
        [ "$file" -ef "$1" ] && tr '\\0' '\\n' <"$process" | sed -n "s/^$2=//p" && exit 1
    done
done
echo somebody
"""
# The kernel lets go of the lock when the last program that has the folder open ends.
_HOLD = f"""
exec 9<"$1" || exit
flock -n 9 || {{ held=$({_NAME}); [ "$held" = "$3" ] && echo "$held" && exit 1; }}
flock -w {_MOMENT} 9 || {{ {_NAME} exit 1; }}
echo held
exec env "$2=$3" sleep 2147483647
"""
_LOOK = f'flock -w {_MOMENT} "$1" true || {{ {_NAME} }}'

_held: WeakKeyDictionary[AbstractEventLoop, dict[tuple[str, str], SiteRunning]] = WeakKeyDictionary()
"""By a host's boot_id and name. Connections are of one loop."""


async def hold_host(site: Site) -> None:
    """Have the lock until the connection to the site ends. Idempotent; HostCannot with who has it.

    Our own run may have it already: by another name of the host, or since it runs there.
    """
    if await _is_held(site):
        return
    running = await site.spawn(["sh", "-c", _HOLD, "hold", FOLDER, HOLDER, _me()])
    said = (await running.first_line(LIMITS.command)).decode("utf-8", "replace")
    if said == "held":
        _held.setdefault(get_running_loop(), {})[site.boot_id, site.name] = running
        return
    ended = await running.wait(LIMITS.command)
    if said != _me():
        raise _busy(said or ended.complaint, site.name)


async def hold_all(names: Iterable[str], open_site: Callable[[str], Awaitable[Site]]) -> None:
    """Hold several hosts in the order of their names, so that of two who want the same ones one has them all.

    HostCannot with who measures there. One that does not answer is told by whoever needs it.
    """
    sites = await asyncio.gather(*(open_site(name) for name in sorted(names)), return_exceptions=True)
    for site in sites:
        if not isinstance(site, BaseException):
            await hold_host(site)
        elif not isinstance(site, HostCannot):
            raise site


@contextmanager
def share_here() -> Iterator[None]:
    """Keep those out who come by SSH to measure on this host. HostCannot with who does.

    Who is not root may not have the lock, and keeps nobody out.
    """
    try:
        descriptor = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    with contextlib.ExitStack() as held:
        held.callback(os.close, descriptor)
        if not _share(descriptor):
            command = ["sh", "-c", _NAME, "look", FOLDER, HOLDER]
            holder = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
            raise _busy(holder, "this host")
        # Its environment has our name; it ends with the last process of this run, by its standard input.
        named = subprocess.Popen(
            ["cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", os.defpath), HOLDER: _me()},
            pass_fds=[descriptor],
            start_new_session=True,
        )
        held.callback(named.wait)
        assert named.stdin is not None
        held.callback(named.stdin.close)
        held.callback(named.kill)
        yield


def _share(descriptor: int) -> bool:
    end = time.monotonic() + _MOMENT
    while time.monotonic() < end:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return True
        time.sleep(0.02)
    return False


async def check_holder(site: Site) -> Finding:
    holder = ""
    if not await _is_held(site):
        holder = (await site.exec(["sh", "-c", _LOOK, "look", FOLDER, HOLDER])).text.strip()
    busy = _busy(holder, site.name)
    return finding("a machine that nobody else measures", holder in ("", _me()), busy.what, busy.remedy)


def _busy(holder: str, where: str) -> HostCannot:
    remedy = "wait until that ends, or end it; or place this study on other hosts"
    return HostCannot(f"{holder} measures on it", where, remedy)


async def _is_held(site: Site) -> bool:
    """A holder that went with its connection holds nothing any more."""
    running = _held.get(get_running_loop(), {}).get((site.boot_id, site.name))
    if running is None:
        return False
    try:
        await running.wait(0)
    except TimedOut:
        return True
    except MachineLost:
        pass
    return False


def _me() -> str:
    return f"{getpass.getuser()} on {socket.gethostname()} (process {concurrent_runs.run_process()})"
