"""Who a restored guest is: every guest of one snapshot wakes up as the same one, and is told otherwise.

By a serial port of its own, because a login takes an emulated guest most of a second. What listens there is the probe's
`awake`, which runs from before the guest is saved until the guest has been told.
"""

import asyncio
import base64
import json
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from nearmetal.config import LIMITS
from nearmetal.errors import MALFORMED, NotProvisioned
from nearmetal.lab import probe
from nearmetal.lab.networks import network
from nearmetal.model import Port, Site

from .arguments import IDENTITY

NOBODY: Final = Port(address="192.0.2.1", prefix=32, mac="52:54:00:6e:6d:02", switch="", outside="data", bridge=None)
"""The place of a guest that is to be saved. Its NIC keeps this MAC as its own, whatever it is told to answer to."""

ENTROPY: Final = 64
"""Bytes."""

LISTEN: Final = f"""# A guest that is to be saved runs this: when its SSH server is there, all is as it shall be found.
until grep -q ':0016 00000000:0000 0A' /proc/net/tcp; do sleep 0.1; done
if [ -e /sys/class/net/{network.INSIDE} ]; then
    ip address flush dev {network.INSIDE}
    # 1: no address of its own making, which would be that of the MAC it has not got yet.
    echo 1 >/proc/sys/net/ipv6/conf/{network.INSIDE}/addr_gen_mode
fi
# What a login passes through, so that it need not be read from the disk.
bash -c 'exec env -i true'
sync
sleep 1
exec {probe.INSIDE} awake --port /dev/ttyS1
"""

Ended = Callable[[], Awaitable[str | None]]


def restore_mac(port: Port | None) -> str:
    """What gives a restored guest its MAC back when it boots for itself."""
    return f"exec ip link set {network.INSIDE} address {port.mac}\n" if port else ""


async def wait_ready(site: Site, folder: str, ended: Ended) -> None:
    """Return when the guest can be saved: it is up, and waits to be told. NotProvisioned."""
    await _talk(site, folder, b"", "awake.waiting.v1", LIMITS.boot, ended)


async def tell_identity(name: str, secret: bytes, port: Port | None, site: Site, folder: str, ended: Ended) -> None:
    """Tell a guest that was just restored who it is, where, and the time; return when it is so. NotProvisioned.

    `secret` is what its agent knows from then on.
    """
    place = port and {"interface": network.INSIDE, "mac": port.mac, "address": port.address, "prefix": port.prefix}
    said = {
        "hostname": name[:63],
        "entropy": base64.b64encode(os.urandom(ENTROPY)).decode(),
        "secret": base64.b64encode(secret).decode(),
        "network": place,
        "time_ns": time.time_ns(),
    }
    answer = await _talk(site, folder, json.dumps(said).encode() + b"\n", "awake.v1", LIMITS.command, ended)
    if answer["problem"]:
        raise NotProvisioned(f"the restored guest could not become what it was told to be: {answer['problem']}")


async def _talk(site: Site, folder: str, said: bytes, expected: str, limit: float, ended: Ended) -> dict[str, Any]:
    """Say something on the guest's port, and return the document that it answers."""
    async with site.socket(f"{folder}/{IDENTITY}") as path:
        reader, writer = await asyncio.open_unix_connection(path)
    try:
        async with asyncio.timeout(limit):
            writer.write(said)
            answer = await reader.readline()
    except TimeoutError:
        raise NotProvisioned(f"the guest did not say {expected} within {limit:g} s") from None
    finally:
        writer.close()
    try:
        document: dict[str, Any] = json.loads(answer)
        if document["schema"] == expected:
            return document
    except MALFORMED:
        pass
    raise NotProvisioned(await ended() or f"the guest said {answer[:200]!r} instead of {expected}")
