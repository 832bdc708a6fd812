"""How a container hangs on the lab's switch if not straight by a cable: as engines do it (docs/environments.md).

A second container, the keeper, has the cable: it is to the machine what a host is to its containers. The host's own
network is never touched.
"""

import json
from typing import Final

from nearmetal.errors import HostCannot
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.networks import network
from nearmetal.model import Port, Site

STRAIGHT: Final = "lab"
PRIVATE: Final = "172.29.0.2"
"""A bridged container's address."""
_GATEWAY: Final = "172.29.0.1"
_PREFIX: Final = 16
_BRIDGE: Final = "bridge"
_CABLE: Final = "cable"
_UPLINK: Final = "uplink"
"""The keeper's card below a macvlan."""


async def plug_keeper(mode: str, port: Port, keeper: int, site: Site) -> None:
    """Lay the cable between the switch and the keeper, by its process. HostCannot."""
    if mode == "macvlan":
        await network.plug_bare(port, keeper, _UPLINK, site)
    else:
        await network.plug_veth(port, keeper, site)


async def plug_machine(mode: str, port: Port, keeper: int, machine: int, site: Site) -> None:
    """Lay what is between the keeper and the machine, by their processes. HostCannot."""
    if mode == "macvlan":
        ends = f"link add link {_UPLINK} name {network.INSIDE} address {port.mac} mtu {port.mtu} netns {machine}"
        try:
            await _ip(keeper, f"{ends} type macvlan mode bridge\n", site)
        except HostCannot as error:
            raise HostCannot(error.what, remedy="modprobe macvlan, or use another machine.network") from None
        await _ip(machine, _up(f"{port.address}/{port.prefix}"), site)
    if mode == "bridge":
        await _ip(
            keeper,
            f"link add {_BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n"
            f"address add {_GATEWAY}/{_PREFIX} dev {_BRIDGE}\nlink set {_BRIDGE} mtu {port.mtu} up\n"
            f"link add {_CABLE} mtu {port.mtu} type veth peer name {network.INSIDE} mtu {port.mtu} netns {machine}\n"
            f"link set {_CABLE} master {_BRIDGE} up\n",
            site,
        )
        await _ip(machine, f"{_up(f'{PRIVATE}/{_PREFIX}')}route add default via {_GATEWAY}\n", site)
        await _in(keeper, site, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        # As Docker's, but for what keeps several networks of it apart.
        private = f"{_GATEWAY}/{_PREFIX}"
        for rule in (
            ("PREROUTING", "-d", port.address, "-j", "DNAT", "--to-destination", PRIVATE),
            ("POSTROUTING", "-s", private, "!", "-o", _BRIDGE, "-j", "MASQUERADE"),
        ):
            await _in(keeper, site, "iptables", "--wait", "--table", "nat", "--append", *rule)


async def find_mode(keeper: int | None, machine: int, site: Site) -> str:
    """How the machine hangs there by the kernel's word. HostCannot."""
    if keeper is None:
        return STRAIGHT
    theirs = [f"/proc/{pid}/ns/net" for pid in (keeper, machine)]
    if len(set((await run_checked(site, "readlink", *theirs)).split())) == 1:
        return "host"
    (card,) = json.loads(await _in(machine, site, "ip", "-details", "-json", "link", "show", network.INSIDE))
    if card["linkinfo"]["info_kind"] == "macvlan":
        return "macvlan"
    rules = (await _in(keeper, site, "iptables", "--wait", "--table", "nat", "--list-rules", "PREROUTING")).decode()
    return "bridge" if f"--to-destination {PRIVATE}" in rules else STRAIGHT


def _up(address: str) -> str:
    return f"link set lo up\naddress add {address} dev {network.INSIDE}\nlink set {network.INSIDE} up\n"


async def _ip(pid: int, lines: str, site: Site) -> None:
    await _in(pid, site, "ip", "-batch", "-", stdin=lines.encode())


async def _in(pid: int, site: Site, *argv: str, stdin: bytes = b"") -> bytes:
    """A program of the host's in a process' network namespace."""
    return await run_checked(site, "nsenter", f"--net=/proc/{pid}/ns/net", "--", *argv, stdin=stdin)
