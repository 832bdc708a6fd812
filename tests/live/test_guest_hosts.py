"""Guests as hosts: what this host's kernel may lack, theirs has: netem, and GRE tunnels."""

import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal.config import Paths
from nearmetal.lab.changes.ledger import Ledger
from nearmetal.lab.image import Image
from nearmetal.lab.keys import lab_keys
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.networks import link, network, trunk
from nearmetal.lab.qemu.guest import QemuMachine
from nearmetal.lab.site_registry import Sites
from nearmetal.model import HostSpec, LinkSpec, Site

from .laboratory import laboratory, machine, spec

pytestmark = [pytest.mark.live, pytest.mark.long]

SWITCH = "nm-guests"


@dataclass(frozen=True)
class Station:
    """Who can be asked something over a switch: a namespace with one interface."""

    site: Site
    name: str

    async def ping(self, address: str, *options: str) -> str:
        words = ("ip", "netns", "exec", self.name, "ping", "-n", *options, address)
        return (await self.site.exec(words, timeout=60)).text


async def station(site: Site, address: str, bridge: str = network.BRIDGE) -> Station:
    name = f"s{address.split('.')[-1]}"
    await run_checked(site, "ip", "netns", "add", name)
    outside = f"link add {name} type veth peer name data netns {name}\nlink set {name} master {bridge} up\n"
    await network.run_batch(site, SWITCH, outside.replace(f"netns {name}", f"netns /run/netns/{name}"))
    await network.run_batch(site, name, f"address add {address}/24 dev data\nlink set data mtu {trunk.DATA_MTU} up\n")
    return Station(site, name)


@dataclass(frozen=True)
class Hosts:
    sites: Sites
    ledger: Ledger
    """Of what is made in them: it goes with them."""

    async def named(self, name: str) -> Site:
        site = await self.sites(name)
        if not await network.has_namespace(SWITCH, site):
            await network.create_switch(SWITCH, site, self.ledger)
        return site


@pytest_asyncio.fixture
async def hosts(lab_image: Image, tmp_path: Path) -> AsyncIterator[Hosts]:
    """Two guests, `one` and `two`, which reach each other over the lab's switch."""
    keys = Paths.default().state / "keys"
    known = lab_keys(Paths.default().state).host.public.decode()
    async with laboratory() as lab:
        named = {}
        for name in ("one", "two"):
            guest = await machine(lab, "qemu", spec(memory="512MiB"), logins=True)
            assert isinstance(guest, QemuMachine)
            where = f"root@127.0.0.1:{guest.ssh_port}"
            named[name] = HostSpec.model_validate(
                {"ssh": where, "trunk": guest.address, "key": str(keys / "client"), "host_key": known}
            )
        sites = Sites(named)
        try:
            with contextlib.closing(Ledger(tmp_path / "guests.jsonl")) as ledger:
                yield Hosts(sites, ledger)
        finally:
            await sites.aclose()


async def test_netem_shapes_a_link_where_the_kernel_has_it(hosts: Hosts) -> None:
    site = await hosts.named("one")
    shape = LinkSpec.from_json({"delay": 0.05, "loss": 0.25})
    laid = await link.lay_link(SWITCH, shape, [], "", site, hosts.ledger, seed=1)
    server, client = await station(site, "10.9.0.1"), await station(site, "10.9.0.2", network.FAR_BRIDGE)
    told = await laid.verify()
    assert told.ok and told.values["by"] == "netem", told
    assert all("delay 50ms loss 25%" in line for line in told.values["qdisc"])
    said = await client.ping("10.9.0.1", "-i", "0.05", "-c", "100")
    sent, received = map(int, re.findall(r"(\d+) (?:packets transmitted|received)", said))
    # Each way loses a quarter: 56 of 100 come back, and 30 or 80 do not happen in a million runs.
    assert sent == 100 and 30 < received < 80, said
    # From below alone: nothing is too quick.
    assert float(re.search(r"= ([\d.]+)/", said)[1]) >= 100, said  # type: ignore[index]
    await run_checked(site, "ip", "netns", "exec", SWITCH, "tc", "qdisc", "delete", "dev", "near0", "root")
    assert (await laid.verify()).reason == "netem is gone from the wire"
    await laid.remove()
    assert "100% packet loss" in await server.ping("10.9.0.2", "-c", "2", "-W", "1")


@pytest.mark.parametrize("tunnel", ["gre", "vxlan"])
async def test_a_tunnel_joins_hosts(hosts: Hosts, tunnel: trunk.Tunnel) -> None:
    one, two = await hosts.named("one"), await hosts.named("two")
    assert (await trunk.check_trunk(tunnel, one, two)).ok
    ends = await trunk.find_ends(one, two)
    laid = await trunk.lay_trunk(
        "nm-guest1", tunnel, [ends], {"one": SWITCH, "two": SWITCH}, network.BRIDGE, hosts.ledger
    )
    here, there = await station(one, "10.9.0.1"), await station(two, "10.9.0.2")
    # As large as machines send them, and not to be cut.
    size = str(trunk.DATA_MTU - 28)
    assert " 0% packet loss" in await here.ping("10.9.0.2", "-c", "5", "-i", "0.2", "-M", "do", "-s", size)
    told = await laid.verify()
    assert told.ok and told.values["by"] == tunnel, told
    for handle, site in zip(laid.handles, (one, two), strict=True):
        await trunk.remove_end(handle, site)
    assert "100% packet loss" in await there.ping("10.9.0.1", "-c", "2", "-W", "1")
