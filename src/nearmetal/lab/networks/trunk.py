"""The way from host to host: tunnels that join the lab's switches of several sites as one.

docs/hosts.md says from where to where they lead, and why machines then send smaller packets (`DATA_MTU`). An end of a
tunnel is made in its host's own network, where the tunnelled packets travel, and moved at once to the lab's namespace,
where it is a port of a bridge. A shaped link lies on the servers' site, between the bridge of the servers and the one
that the trunk's ends are ports of.
"""

import asyncio
import hashlib
import ipaddress
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nearmetal.errors import HostCannot, NearmetalError
from nearmetal.lab.host_checks import finding
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.networks import network
from nearmetal.model import Finding, Handle, Readback, Recorder, Site

KIND = "trunk"
Tunnel = Literal["vxlan", "gre"]

DATA_MTU = 1400
"""Bytes: 1500 less the most that a tunnel takes (70), and room for an underlay that is itself a tunnel (1450)."""

_PORT = 4789
"""UDP, of VXLAN (RFC 7348)."""
_ETHERNET, _VXLAN, _UDP, _GRE = 14, 8, 8, 8
"""Bytes of headers; GRE's with its key."""


def count_overhead(tunnel: Tunnel, address: str) -> int:
    """Bytes of a packet of the underlay that are the tunnel's own."""
    internet = 20 if ipaddress.ip_address(address).version == 4 else 40
    return internet + _ETHERNET + (_UDP + _VXLAN if tunnel == "vxlan" else _GRE)


def make_number(name: str, index: int = 0) -> int:
    """What tells a tunnel of this lab from all others that end on one of its hosts: 24 bits, never 0."""
    return (int.from_bytes(hashlib.sha256(name.encode()).digest()[:3], "big") + index) % 2**24 or 2**23


def build_device(tunnel: Tunnel, name: str, identity: int, near: str, far: str) -> str:
    """The words of `ip link` that make an end. Pure."""
    family = ipaddress.ip_address(far).version
    if tunnel == "vxlan":
        # Cut packets would pass unnoticed: rather none.
        whole = " df set" if family == 4 else ""
        kind = f"vxlan id {identity} dstport {_PORT} nolearning{whole}"
    else:
        kind = f"gretap key {identity}" if family == 4 else f"ip6gretap key {identity} encaplimit none"
    return f"link add {name} type {kind} local {near} remote {far} ttl 64"


@dataclass(frozen=True)
class End:
    site: Site
    address: str
    """By which the other side reaches it."""
    interface: str
    """Of the host's own network, that leads there."""
    mtu: int
    """Of that interface."""

    @property
    def described(self) -> str:
        return f"{self.site.name} {self.interface} {self.address}"


async def find_ends(servers: Site, clients: Site) -> tuple[End, End]:
    """How two hosts reach each other. HostCannot when they do not, or are one and the same."""
    known = {servers.name: servers.underlay, clients.name: clients.underlay}
    for site, other in ((servers, clients), (clients, servers)):
        if known[site.name] is None:
            known[site.name] = (await network.find_route(str(known[other.name]), site)).address
    addresses = str(known[servers.name]), str(known[clients.name])
    if addresses[0] == addresses[1]:
        both = f"{servers.name} and {clients.name} are both reached as {addresses[0]}"
        remedy = "use one host, or name another address by which it is reached: [hosts.NAME] trunk"
        raise HostCannot(f"{both}: no tunnel leads from a host to itself", remedy=remedy)
    return await _end(servers, *addresses), await _end(clients, *reversed(addresses))


async def _end(site: Site, own: str, other: str) -> End:
    interface = (await network.find_route(other, site)).interface
    links = json.loads(await run_checked(site, "ip", "-json", "link", "show", "dev", interface))
    return End(site, own, interface, int(links[0]["mtu"]))


async def check_trunk(tunnel: Tunnel, servers: Site, clients: Site) -> Finding:
    """Whether two sites can be joined, with the first reason why not."""
    what = f"a trunk from {servers.name} to {clients.name}"
    try:
        for site in (servers, clients):
            if not await kernel_has(tunnel, site):
                remedy = 'set link.tunnel = "vxlan"' if tunnel == "gre" else "modprobe vxlan"
                return finding(what, False, f"the kernel of {site.name} has no {tunnel}", remedy)
        for end in await find_ends(servers, clients):
            needed = DATA_MTU + count_overhead(tunnel, end.address)
            if end.mtu < needed:
                detail = f"packets to it may have {end.mtu} bytes from {end.site.name}, and {tunnel} takes {needed}"
                return finding(what, False, detail, "raise the MTU of the network between the hosts")
    except NearmetalError as error:
        return finding(what, False, error.what, error.remedy or "see that the hosts reach each other")
    return Finding(what=what, ok=True)


async def kernel_has(tunnel: Tunnel, site: Site) -> bool:
    """Tried in a namespace that ends with the trial."""
    words = build_device(tunnel, "tried", 1, "127.0.0.1", "127.0.0.2").split()
    return (await site.exec(["unshare", "--net", "ip", *words])).status == 0


@dataclass(frozen=True)
class PlacedEnd:
    """A link of ours in the lab's namespace that leads out of its host: an end of a tunnel, or a machine's macvlan."""

    end: End
    handle: Handle
    made: Mapping[str, Any]
    """What the kernel is to say of it, by its own words."""

    @property
    def inside(self) -> str:
        return str(self.handle.data["inside"])

    async def read(self) -> Mapping[str, Any] | None:
        """What the kernel says of it; None if it is gone."""
        words = ["ip", "-netns", self.handle.data["namespace"], "-details", "-statistics", "-json"]
        shown = await self.end.site.exec([*words, "link", "show", self.inside])
        return dict(json.loads(shown.stdout)[0]) if shown.status == 0 else None

    def find_fault(self, link: Mapping[str, Any] | None) -> str:
        """What is not as it was made; "" if nothing is."""
        if link is None:
            return f"its end on {self.end.site.name} is gone"
        told = {**link, **link.get("linkinfo", {}).get("info_data", {})}
        changed = [name for name, value in self.made.items() if told.get(name) != value]
        if "UP" not in link["flags"] or changed:
            return f"its end on {self.end.site.name} was changed: {link}"
        return ""


LinksRead = Sequence[tuple[PlacedEnd, Mapping[str, Any] | None]]
"""Ends, and what the kernel says of each."""


class ByteCounter:
    """Bytes that crossed links since they were looked at before."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, int]] = {}

    def count(self, links: LinksRead) -> Mapping[str, Mapping[str, int]]:
        """Sent and received, by the names of their hosts."""
        found: dict[str, dict[str, int]] = {}
        for one, link in links:
            if link is not None:
                now = (int(link["stats64"]["tx"]["bytes"]), int(link["stats64"]["rx"]["bytes"]))
                before = self._before.get(one.handle.name, (0, 0))
                self._before[one.handle.name] = now
                host = found.setdefault(one.end.site.name, {"sent": 0, "received": 0})
                host["sent"] += now[0] - before[0]
                host["received"] += now[1] - before[1]
        return found


class Trunk:
    """A trunk that lies, until all of its ends are removed."""

    def __init__(self, tunnel: Tunnel, ends: Sequence[tuple[PlacedEnd, PlacedEnd]]) -> None:
        """`ends`: of each tunnel that on the servers' host, and that on the clients'."""
        self._tunnel = tunnel
        self._pairs = ends
        self._counter = ByteCounter()

    @property
    def handles(self) -> tuple[Handle, ...]:
        return tuple(one.handle for pair in self._pairs for one in pair)

    async def verify(self) -> Readback:
        """Whether all ends are as they were made, which way packets to each host take, and what took it."""
        ends = [one for pair in self._pairs for one in pair]
        addresses: dict[str, dict[str, None]] = {}
        for one in ends:
            addresses.setdefault(one.end.site.name, {})[one.end.address] = None
        links = await read_ends(ends)
        values = {
            "by": self._tunnel,
            "mtu": DATA_MTU,
            "overhead": max(count_overhead(self._tunnel, one.end.address) for one in ends),
            "ends": {name: ", ".join(those) for name, those in addresses.items()},
            # Through which interfaces a packet goes from a client's host to the servers'.
            "ways": {far.end.site.name: f"{far.end.described} > {near.end.described}" for near, far in self._pairs},
            # The hub's ends carry the same once more.
            "carried": self._counter.count(links[1::2]),
        }
        return judge_ends(links, values)


async def read_ends(ends: Sequence[PlacedEnd]) -> LinksRead:
    return list(zip(ends, await asyncio.gather(*(one.read() for one in ends)), strict=True))


def judge_ends(links: LinksRead, values: Mapping[str, Any]) -> Readback:
    """With the first fault of an end, if one has any. Pure."""
    fault = next(filter(None, (one.find_fault(link) for one, link in links)), "")
    return Readback(values=values, ok=not fault, reason=fault)


async def lay_trunk(
    name: str,
    tunnel: Tunnel,
    pairs: Sequence[tuple[End, End]],
    namespaces: Mapping[str, str],
    bridge: str,
    ledger: Recorder,
) -> Trunk:
    """Join the bridges of that name in the lab's namespaces (by site) by a tunnel between each two ends.

    `name` is the lab's own, of 9 characters.
    """
    placed: list[tuple[PlacedEnd, PlacedEnd]] = []
    for index, both in enumerate(pairs):
        of_tunnel = []
        for side, (end, other) in enumerate((both, both[::-1])):
            made, namespace = f"{name}-t{2 * index + side}", namespaces[end.site.name]
            handle = note_link(made, namespace, f"trunk{index}", end.site, ledger)
            six = "6" if tunnel == "vxlan" and ":" in end.address else ""  # as iproute2 calls them
            known = {"mtu": DATA_MTU, "master": bridge, f"local{six}": end.address, f"remote{six}": other.address}
            of_tunnel.append(one := PlacedEnd(end, handle, known))
            moved = f"link set {made} mtu {DATA_MTU} netns {namespace} name {one.inside}"
            made_of = build_device(tunnel, made, make_number(name, index), end.address, other.address)
            await run_checked(end.site, "ip", "-batch", "-", stdin=f"{made_of}\n{moved}\n".encode())
            await network.run_batch(end.site, namespace, f"link set {one.inside} master {bridge} up\n")
        placed.append((of_tunnel[0], of_tunnel[1]))
    return Trunk(tunnel, placed)


def note_link(made: str, namespace: str, inside: str, site: Site, ledger: Recorder) -> Handle:
    """Have it in the ledger that a link of this name is made on a site and moved to the lab's namespace there."""
    data = {"namespace": namespace, "device": made, "inside": inside}
    handle = Handle(kind=KIND, name=made, site=site.name, data=data)
    ledger.creating(handle)
    return handle


async def remove_end(handle: Handle, site: Site) -> None:
    """Take one end out, wherever it stands. Idempotent."""
    await site.exec(["ip", "link", "delete", handle.data["device"]])
    if await network.has_namespace(handle.data["namespace"], site):
        await site.exec(["ip", "-netns", handle.data["namespace"], "link", "delete", handle.data["inside"]])
