"""The lab's network on a site: a bridge in a network namespace of its own, and a port for each machine.

The host's own network is never touched: links are made inside the lab's namespace and, for a container or chroot,
one end is moved into the machine's. All of it is done by `ip -batch`, one process a step, so that it works the
same on this host and on one reached by SSH. Deleting the namespace deletes every link in it.
"""

import hashlib
import ipaddress
import json

from nearmetal.errors import HostCannot
from nearmetal.lab.local_site import run_checked
from nearmetal.model import Handle, Port, Recorder, SharedNetwork, Site
from nearmetal.system import user_namespace

KIND = "network"
BRIDGE = "switch"
FAR_BRIDGE = "clients"
"""Where clients hang when a shaped link lies between them and the servers."""
INSIDE = "data"
"""The data NIC's name in every machine, whatever makes it."""
TOOLS = {"ip": "iproute2", "nsenter": "util-linux"}
"""Programs that this takes, and the Debian packages that have them."""
MTU = 1500
"""Bytes that a packet of a machine may have, where no trunk takes part of them."""
SUBNET = ipaddress.ip_network("10.111.0.0/16")


def namespace_path(name: str) -> str:
    return f"/run/netns/{name}"


async def create_switch(name: str, site: Site, ledger: Recorder) -> Handle:
    """A namespace called `name` with the lab's two bridges in it. HostCannot if there is one of that name.

    That is asked before the ledger has it: what stands there is somebody else's, and is to stay.
    """
    if await has_namespace(name, site):
        remedy = f"begin again, for another name; or, if nobody needs it: ip netns delete {name}"
        what = f"there is a network namespace {name} already, which is not this run's"
        raise HostCannot(what, site.name, remedy)
    handle = Handle(kind=KIND, name=name, site=site.name, data={})
    ledger.creating(handle)
    if user_namespace.is_entered() and site.spec is None:
        # `ip netns add` returns to the network that it came from, which only root of the host may.
        await run_checked(site, "unshare", "--net", "sh", "-c", 'exec ip netns attach "$0" $$', name)
    else:
        await run_checked(site, "ip", "netns", "add", name)
    bridges = "".join(
        # A bridge learns nothing from timers: no spanning tree, and ports forward at once.
        f"link add {bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\nlink set {bridge} up\n"
        for bridge in (BRIDGE, FAR_BRIDGE)
    )
    await run_batch(site, name, f"link set lo up\n{bridges}")
    return handle


async def run_batch(site: Site, namespace: str, lines: str) -> None:
    """Lines of `ip`, without the word ip, in a namespace. HostCannot with the first that fails."""
    await run_checked(site, "ip", "-netns", namespace, "-batch", "-", stdin=lines.encode())


async def has_namespace(namespace: str, site: Site) -> bool:
    listed = await run_checked(site, "ip", "netns", "list")
    return namespace in (line.split()[0] for line in listed.decode().splitlines() if line)


async def destroy_switch(handle: Handle, site: Site) -> None:
    """Idempotent. Links that stand in the namespace go with it."""
    if await has_namespace(handle.name, site):
        await run_checked(site, "ip", "netns", "delete", handle.name)


def make_port(switch: str, number: int, bridge: str | None = BRIDGE, mtu: int = MTU) -> Port:
    """The port of the lab's n-th machine (from 1): address, MAC and link name all follow from the number."""
    address = SUBNET[number]
    digest = hashlib.sha256(f"{switch}/{number}".encode()).digest()
    return Port(
        address=str(address),
        prefix=SUBNET.prefixlen,
        # Locally administered, unicast.
        mac="02:" + ":".join(f"{byte:02x}" for byte in digest[:5]),
        switch=namespace_path(switch),
        bridge=bridge,
        outside=f"port{number}",
        mtu=mtu,
    )


def name_namespace(port: Port) -> str:
    """The name of the namespace that a port's outer end stands in."""
    return port.switch.rsplit("/", 1)[1]


def name_peer(port: Port | None) -> str | None:
    """A port's end at the switch as "NAMESPACE/INTERFACE", for `Machine.peer`; None without a port."""
    return f"{name_namespace(port)}/{port.outside}" if port else None


def _up(port: Port) -> str:
    """The line of a batch that puts a port's outer end into service."""
    return f"link set {port.outside} mtu {port.mtu} {f'master {port.bridge} ' if port.bridge else ''}up\n"


async def plug_veth(port: Port, pid: int, site: Site) -> None:
    """Lay a cable between the switch and the network namespace of a process, where it is called `data`.

    The loopback there is brought up too.
    """
    ends = f"{port.outside} mtu {port.mtu} type veth peer name {INSIDE} mtu {port.mtu}"
    cable = f"link add {ends} address {port.mac} netns {pid}\n"
    await run_batch(site, name_namespace(port), cable + _up(port))
    lines = f"link set lo up\naddress add {port.address}/{port.prefix} dev {INSIDE}\nlink set {INSIDE} up\n"
    await run_checked(site, *_enter(pid), "ip", "-batch", "-", stdin=lines.encode())


def _enter(pid: int) -> tuple[str, ...]:
    return ("nsenter", f"--net=/proc/{pid}/ns/net")


async def plug_bare(port: Port, pid: int, name: str, site: Site) -> None:
    """Lay a cable between the switch and the network namespace of a process, whose end there has no address."""
    ends = f"{port.outside} mtu {port.mtu} type veth peer name {name} mtu {port.mtu} netns {pid}"
    await run_batch(site, name_namespace(port), f"link add {ends}\n{_up(port)}")
    await run_checked(site, *_enter(pid), "ip", "link", "set", name, "up")


async def plug_tap(port: Port, site: Site) -> None:
    """A tap at the switch for a virtual machine monitor to open; it keeps existing when nobody has it open."""
    await run_batch(site, name_namespace(port), f"tuntap add dev {port.outside} mode tap vnet_hdr\n{_up(port)}")


async def move_tap(port: Port, device: str, site: Site) -> None:
    """Take a tap of the site's own network, which somebody has open already, to the switch."""
    await run_checked(site, "ip", "link", "set", device, "netns", name_namespace(port), "name", port.outside)
    await run_batch(site, name_namespace(port), _up(port))


async def patch_links(one: str, other: str, namespace: str, site: Site) -> None:
    """Hand every frame that comes in at one link of a namespace out at the other, both ways."""
    for source, sink in ((one, other), (other, one)):
        tc = ("ip", "netns", "exec", namespace, "tc")
        await run_checked(site, *tc, "qdisc", "add", "dev", source, "clsact")
        everything = ("protocol", "all", "u32", "match", "u32", "0", "0")
        onward = ("action", "mirred", "egress", "redirect", "dev", sink)
        await run_checked(site, *tc, "filter", "add", "dev", source, "ingress", *everything, *onward)


async def unplug(port: Port | None, site: Site) -> None:
    """Remove a machine's link, if it has one. Idempotent: a veth goes by itself with its machine's namespace."""
    if port:
        await site.exec(["ip", "-netns", name_namespace(port), "link", "delete", port.outside])


async def find_route(address: str, site: Site) -> SharedNetwork:
    """Where a site's own network leads to an address. HostCannot when nowhere."""
    route = json.loads(await run_checked(site, "ip", "-json", "route", "get", address))[0]
    return SharedNetwork(address=route["prefsrc"], interface=route["dev"])


async def find_interface(address: str, site: Site) -> SharedNetwork | None:
    """Which interface of a site's own network has this address; None when none has."""
    found = json.loads(await run_checked(site, "ip", "-json", "address", "show", "to", address))
    interfaces = [interface["ifname"] for interface in found if interface]
    return SharedNetwork(address=address, interface=interfaces[0]) if interfaces else None
