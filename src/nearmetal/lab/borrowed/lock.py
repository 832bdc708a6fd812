"""One nearmetal at a time on a machine that is somebody's: a lock that lies there, and ends with its holder."""

import getpass
import os
import socket
from asyncio import AbstractEventLoop, get_running_loop
from weakref import WeakKeyDictionary

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, MachineLost, TimedOut
from nearmetal.lab.findings import finding
from nearmetal.model import Finding, Site, SiteRunning

FILE = "/run/nearmetal.lock"

# The kernel lets go of the lock when the last program that has the file open ends.
_HOLD = """
umask 077
exec 9>>"$1"
flock -n 9 || { cat "$1"; exit 1; }
echo "$2" >"$1"
echo held
exec sleep 2147483647
"""
_LOOK = '[ ! -e "$1" ] || flock -n "$1" true || cat "$1"'

_held: WeakKeyDictionary[AbstractEventLoop, dict[str, SiteRunning]] = WeakKeyDictionary()
"""By the boot_id of a host: one that a study reaches under two names is held once. Connections are of one loop."""


async def hold(site: Site) -> None:
    """Have the lock until the connection to the site ends. Idempotent; HostCannot with who has it."""
    if await _is_held(site):
        return
    running = await site.spawn(["sh", "-c", _HOLD, "hold", FILE, _me()])
    said = (await running.first_line(LIMITS.command)).decode("utf-8", "replace")
    if said != "held":
        ended = await running.wait(LIMITS.command)
        raise _busy(site, said or ended.complaint)
    _held.setdefault(get_running_loop(), {})[site.boot_id] = running


async def found(site: Site) -> Finding:
    """Whether the lock can be had."""
    holder = ""
    if not await _is_held(site):
        holder = (await site.exec(["sh", "-c", _LOOK, "look", FILE])).text.strip()
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
