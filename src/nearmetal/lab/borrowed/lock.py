"""One nearmetal at a time on a machine that is somebody's: a lock that ends with its holder and leaves no file."""

import getpass
import os
import socket
from asyncio import AbstractEventLoop, get_running_loop
from weakref import WeakKeyDictionary

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, MachineLost, TimedOut
from nearmetal.lab.findings import finding
from nearmetal.model import Finding, Site, SiteRunning

FOLDER = "/root"
"""What is locked: no user but root can open it, and it is there already."""
HOLDER = "NEARMETAL_HOLDER"
"""In the environment of the process that holds the lock: who started it."""

_NAME = """cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | sed -n "s/^$2=//p" | grep -m1 . || echo somebody"""
# The kernel lets go of the lock when the last program that has the folder open ends.
_HOLD = f"""
exec 9<"$1" || exit
flock -n 9 || {{ {_NAME}; exit 1; }}
echo held
exec env "$2=$3" sleep 2147483647
"""
_LOOK = f'flock -n "$1" true || {{ {_NAME}; }}'

_held: WeakKeyDictionary[AbstractEventLoop, dict[str, SiteRunning]] = WeakKeyDictionary()
"""By the boot_id of a host: one that a study reaches under two names is held once. Connections are of one loop."""


async def hold(site: Site) -> None:
    """Have the lock until the connection to the site ends. Idempotent; HostCannot with who has it."""
    if await _is_held(site):
        return
    running = await site.spawn(["sh", "-c", _HOLD, "hold", FOLDER, HOLDER, _me()])
    said = (await running.first_line(LIMITS.command)).decode("utf-8", "replace")
    if said != "held":
        ended = await running.wait(LIMITS.command)
        raise _busy(site, said or ended.complaint)
    _held.setdefault(get_running_loop(), {})[site.boot_id] = running


async def found(site: Site) -> Finding:
    """Whether the lock can be had."""
    holder = ""
    if not await _is_held(site):
        holder = (await site.exec(["sh", "-c", _LOOK, "look", FOLDER, HOLDER])).text.strip()
    busy = _busy(site, holder)
    return finding("a machine that nobody else measures", not holder, busy.what, busy.remedy)


def _busy(site: Site, holder: str) -> HostCannot:
    return HostCannot(f"{holder} measures on it", site.name, "wait until that ends")


async def _is_held(site: Site) -> bool:
    """A holder that went with its connection holds nothing any more."""
    running = _held.get(get_running_loop(), {}).get(site.boot_id)
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
    return f"{getpass.getuser()} on {socket.gethostname()} (process {os.getpid()})"
