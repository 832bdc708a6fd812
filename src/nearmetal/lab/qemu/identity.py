"""Who a restored guest is: every guest of one snapshot wakes up as the same one, and is told otherwise.

By a serial port of its own, because a login takes an emulated guest most of a second and its server is to be reached
at once. What listens there was started before the guest was saved, and ends when it has been told.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from nearmetal.config import LIMITS
from nearmetal.errors import NotProvisioned
from nearmetal.lab import network
from nearmetal.model import Port, Site

from .arguments import IDENTITY

NOBODY: Final = Port(address="192.0.2.1", prefix=32, mac="52:54:00:6e:6d:02", switch="", outside="data", bridge=None)
"""The place of a guest that is to be saved. The NIC keeps this MAC as its own, whatever it is told to answer to."""

_SAVED: Final = b"to be saved\n"
_TOLD: Final = b"told\n"

LISTEN: Final = f"""#!/bin/sh
# Runs from before the guest is saved until it has been restored and told who it is.
exec 3<>/dev/ttyS1
stty raw -echo <&3
until grep -q ':0016 00000000:0000 0A' /proc/net/tcp; do sleep 0.1; done
nic={network.INSIDE}
if [ -e /sys/class/net/$nic ]; then
    ip address flush dev $nic
    # 1: no address of its own making, which would be that of the MAC it has not got yet.
    echo 1 >/proc/sys/net/ipv6/conf/$nic/addr_gen_mode
fi
# Already started, and only waiting for its lines, so that no time is spent on it afterwards.
mkfifo /run/nearmetal/lines
ip -batch /run/nearmetal/lines &
exec 4>/run/nearmetal/lines
date >/dev/null
sync
sleep 1
echo to be saved >&3

read -r now name mac address <&3
[ -z "$mac" ] || printf '%s\\n' "link set $nic address $mac" "address add $address dev $nic" >&4
exec 4>&-
date -s "@$now" >/dev/null &
echo "$name" >/proc/sys/kernel/hostname
wait
[ -z "$mac" ] || echo 0 >/proc/sys/net/ipv6/conf/$nic/addr_gen_mode
rm /run/nearmetal/lines
echo told >&3
"""


def again(port: Port | None) -> str:
    """What gives a restored guest its MAC back when it boots for itself."""
    return f"#!/bin/sh\nexec ip link set {network.INSIDE} address {port.mac}\n" if port else "#!/bin/sh\n"


Ended = Callable[[], Awaitable[str | None]]


async def waiting(site: Site, folder: str, ended: Ended) -> None:
    """Return when the guest can be saved: it is up, and waits to be told. NotProvisioned."""
    await _talk(site, folder, b"", _SAVED, LIMITS.boot, ended)


async def tell(name: str, port: Port | None, site: Site, folder: str, ended: Ended) -> None:
    """Tell a guest that was just restored who it is, where, and the time; return when it is so. NotProvisioned."""
    place = f" {port.mac} {port.address}/{port.prefix}" if port else ""
    said = f"{time.time():.6f} {name[:63]}{place}\n"
    await _talk(site, folder, said.encode(), _TOLD, LIMITS.command, ended)


async def _talk(site: Site, folder: str, said: bytes, expected: bytes, limit: float, ended: Ended) -> None:
    async with site.socket(f"{folder}/{IDENTITY}") as path:
        reader, writer = await asyncio.open_unix_connection(path)
    try:
        async with asyncio.timeout(limit):
            writer.write(said)
            answer = await reader.readline()
    except TimeoutError:
        raise NotProvisioned(f"the guest did not say {expected.decode().strip()!r} within {limit:g} s") from None
    finally:
        writer.close()
    if answer != expected:
        raise NotProvisioned(await ended() or f"the guest said {answer[:100]!r} instead of {expected!r}")
