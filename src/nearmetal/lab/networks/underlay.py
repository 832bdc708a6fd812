"""Machines on the network that hosts have between them, with nothing of the lab's in between (docs/hosts.md).

Each machine's port is patched, frame by frame, to a macvlan of its hardware address on an interface of its host.
"""

import asyncio
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from nearmetal.errors import HostCannot, NearmetalError
from nearmetal.lab.host_checks import finding
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.networks import network, trunk
from nearmetal.lab.networks.trunk import ByteCounter, End, PlacedEnd
from nearmetal.model import Finding, Port, Readback, Recorder, Site

_TRIED = """
ip link add tried type veth peer name other &&
ip link add link tried name taken type macvlan mode bridge &&
tc qdisc add dev taken clsact
"""
_OFFLOADS = ("tcp-segmentation-offload", "generic-segmentation-offload", "generic-receive-offload",
             "large-receive-offload", "rx-checksumming", "tx-checksumming")  # fmt: skip


async def find_interfaces(servers: Site, clients: Sequence[Site]) -> Mapping[str, End]:
    """The interface of each host that leads to the others, by the host's name. HostCannot.

    The one that the study names, else the one of the route.
    """
    found: dict[str, End] = {}
    for site in clients:
        for end in await trunk.find_ends(servers, site):
            named = end.site.spec and end.site.spec.interface
            before = found.get(end.site.name)
            if before is not None and not named and before.interface != end.interface:
                what = f"{before.interface} and {end.interface} of {end.site.name} both lead to hosts of clients"
                raise HostCannot(what, remedy="name one: [hosts.NAME] interface")
            found[end.site.name] = dataclasses.replace(end, interface=named) if named else end
    return {name: await _read_interface(end) for name, end in found.items()}


async def _read_interface(end: End) -> End:
    """With the interface's MTU. HostCannot if no machine can have a place on it."""
    (link,) = json.loads(await run_checked(end.site, "ip", "-json", "link", "show", "dev", end.interface))
    if link["link_type"] != "ether":
        what = f"its interface {end.interface} is no Ethernet, so that machines can have no place on it"
        raise HostCannot(what, end.site.name, 'name another: [hosts.NAME] interface; or set link.switch = "bridge"')
    return dataclasses.replace(end, mtu=int(link["mtu"]))


async def check_underlay(servers: Site, clients: Site) -> Finding:
    """Whether machines of two sites can be joined so, with the first reason why not."""
    what = f"the network between {servers.name} and {clients.name}"
    try:
        for site in (servers, clients):
            tried = await site.exec(["unshare", "--net", "sh", "-c", _TRIED])
            if tried.status != 0:
                detail = f"{site.name} has no macvlan with clsact: {tried.complaint[-200:]}"
                return finding(what, False, detail, 'modprobe macvlan; or set link.switch = "bridge"')
        await find_interfaces(servers, [clients])
    except NearmetalError as error:
        return finding(what, False, error.what, error.remedy or "see that the hosts reach each other")
    return Finding(what=what, ok=True)


class Underlay:
    def __init__(self, mtu: int, links: Sequence[PlacedEnd]) -> None:
        self._mtu = mtu
        self._links = links
        self._counter = ByteCounter()

    async def verify(self) -> Readback:
        """Whether all machines still have their place, what their hosts' interfaces are, and what crossed them."""
        links = await trunk.read_ends(self._links)
        ends = {one.end.site.name: one.end for one in self._links}
        told = await asyncio.gather(*map(_describe_interface, ends.values()))
        values = {
            "by": "direct",
            "mtu": self._mtu,
            "overhead": 0,
            "ends": {name: end.address for name, end in ends.items()},
            "interfaces": dict(zip(ends, told, strict=True)),
            "carried": self._counter.count(links),
        }
        return trunk.judge_ends(links, values)


async def _describe_interface(end: End) -> Mapping[str, Any]:
    """What is known of it without changing it; what the host does not tell is absent."""
    told = await end.site.exec(["cat", f"/sys/class/net/{end.interface}/speed"])
    speed = {"speed": int(told.text) * 1_000_000} if told.status == 0 and int(told.text) > 0 else {}
    shown = await end.site.exec(["ethtool", "-k", end.interface])
    lines = (line.split(": ") for line in shown.text.splitlines() if shown.status == 0)
    offloads = {words[0]: words[1].startswith("on") for words in lines if words[0] in _OFFLOADS}
    return {"name": end.interface, "mtu": end.mtu, **speed, **({"offloads": offloads} if offloads else {})}


async def lay_underlay(
    name: str, ports: Sequence[tuple[Port, End]], ledger: Recorder
) -> tuple[Underlay, Mapping[Port, str]]:
    """A place on its host's interface for each machine, and the links' names in the lab's namespaces by port.

    `name` is the lab's own, of 9 characters. Whoever has the names patches them to the ports.
    """
    placed, inside = [], {}
    for index, (port, end) in enumerate(ports):
        namespace, made = network.name_namespace(port), f"{name}-u{index}"
        handle = trunk.note_link(made, namespace, f"own{index}", end.site, ledger)
        link = PlacedEnd(end, handle, {"address": port.mac, "mode": "bridge"})
        placed.append(link)
        inside[port] = link.inside
        made_of = f"link add link {end.interface} name {made} type macvlan mode bridge"
        moved = f"link set {made} address {port.mac} netns {namespace} name {link.inside}"
        await run_checked(end.site, "ip", "-batch", "-", stdin=f"{made_of}\n{moved}\n".encode())
        await network.run_batch(end.site, namespace, f"link set {link.inside} up\n")
    return Underlay(min(end.mtu for _, end in ports), placed), inside
