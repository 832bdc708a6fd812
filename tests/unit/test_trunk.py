"""Trunks: what is asked of the kernel, and what a tunnel costs each packet."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.networks import network, trunk, underlay
from nearmetal.model import Completed, HostSpec
from nearmetal.run import site_resources
from nearmetal.study.resolve import resolve_treatments
from nearmetal.study.study_file import read

STUDY = """
name = "placed"
[hosts.far]
ssh = "root@10.0.0.2"
[factors]
environment = ["host"]
FACTORS
[machine]
host = "MACHINE"
[clients]
host = "CLIENTS"
[[workloads]]
name = "web"
kind = "http"
"""


@pytest.mark.parametrize(
    ("tunnel", "address", "bytes_"),
    [("vxlan", "10.0.0.1", 50), ("vxlan", "fd00::1", 70), ("gre", "10.0.0.1", 42), ("gre", "fd00::1", 62)],
)
def test_a_tunnel_takes_its_headers_from_each_packet(tunnel: trunk.Tunnel, address: str, bytes_: int) -> None:
    assert trunk.count_overhead(tunnel, address) == bytes_
    assert trunk.DATA_MTU + bytes_ <= network.MTU


def test_the_kernel_is_asked_for_each_kind_of_tunnel() -> None:
    assert trunk.build_device("vxlan", "nm-a-t0", 7, "10.0.0.1", "10.0.0.2") == (
        "link add nm-a-t0 type vxlan id 7 dstport 4789 nolearning df set local 10.0.0.1 remote 10.0.0.2 ttl 64"
    )
    assert trunk.build_device("gre", "nm-a-t0", 7, "10.0.0.1", "10.0.0.2") == (
        "link add nm-a-t0 type gretap key 7 local 10.0.0.1 remote 10.0.0.2 ttl 64"
    )
    assert " type ip6gretap key 7 " in trunk.build_device("gre", "nm-a-t0", 7, "fd00::1", "fd00::2")
    assert "df" not in trunk.build_device("vxlan", "nm-a-t0", 7, "fd00::1", "fd00::2")


def test_labs_have_tunnels_of_their_own() -> None:
    numbers = {trunk.make_number(f"nm-{lab:06x}") for lab in range(200)}
    assert len(numbers) > 190
    assert all(0 < one < 2**24 for one in numbers)


def placed(machine: str = "local", clients: str = "local", factors: str = "") -> str:
    return STUDY.replace("MACHINE", machine).replace("CLIENTS", clients).replace("FACTORS", factors)


@pytest.mark.parametrize(
    ("text", "mtu"),
    [
        (placed(), 1500),
        (placed("far", "far"), 1500),
        (placed("far"), 1400),
        (placed(clients="far"), 1400),
        (placed(factors='[factors.hosts]\nlevels = ["local", "far"]\nsets = "machine.host"'), 1400),
        (placed("far", factors='[link]\nswitch = "direct"'), None),
        (placed("far", factors='[factors.switch]\nlevels = ["direct", "bridge"]'), 1400),
        (placed(factors='[link]\nswitch = "direct"'), 1500),
        (placed(factors='[factors.hosts]\nlevels = ["far"]\nsets = "machine.host"', clients="far"), 1500),
    ],
)
def test_packets_are_alike_in_all_treatments(text: str, mtu: int | None) -> None:
    assert site_resources.choose_mtu(resolve_treatments(read(text, "s.toml"))) == mtu


class Somewhere(LocalSite):
    """A site that answers `ip` from a table: the route, or that to an address."""

    def __init__(self, name: str, underlay: str | None, route: Mapping[str, Any], mtu: int) -> None:
        super().__init__()
        self.name = name
        self.underlay = underlay
        self._route = {"prefsrc": underlay, **route}
        self._mtu = mtu

    async def exec(self, argv: Sequence[str], **_: Any) -> Completed:
        if argv[0] == "unshare":
            return Completed(status=0)
        link = {"mtu": self._mtu, "link_type": "ether"}
        told = {**self._route, **self._route.get(argv[-1], {})} if "route" in argv else link
        return Completed(status=0, stdout=json.dumps([told]).encode())


def test_an_underlay_that_would_cut_packets_is_told() -> None:
    here = Somewhere("local", None, {"dev": "eth0", "prefsrc": "10.0.0.1"}, 1500)
    there = Somewhere("far", "10.0.0.2", {"dev": "eth0", "prefsrc": "10.0.0.2"}, 1420)
    found = asyncio.run(trunk.check_trunk("vxlan", here, there))
    assert not found.ok
    assert "1420" in found.detail and "1450" in found.detail and found.remedy
    assert asyncio.run(trunk.check_trunk("gre", here, Somewhere("far", "10.0.0.2", {"dev": "eth0"}, 1442))).ok


def test_a_network_of_the_hosts_own_carries_what_all_their_interfaces_do() -> None:
    here = Somewhere("local", None, {"dev": "eth0", "prefsrc": "10.0.0.1"}, 9000)
    there = Somewhere("far", "10.0.0.2", {"dev": "eth1", "prefsrc": "10.0.0.2"}, 1420)
    there.spec = HostSpec(ssh="root@10.0.0.2", interface="fast0")
    found = asyncio.run(underlay.find_interfaces(here, [there]))
    assert {name: (end.interface, end.mtu) for name, end in found.items()} == {
        "local": ("eth0", 9000),
        "far": ("fast0", 1420),
    }
    assert asyncio.run(underlay.check_underlay(here, there)).ok
    other = Somewhere("other", "10.1.0.2", {"dev": "eth2", "prefsrc": "10.1.0.2"}, 1500)
    near = Somewhere("near", "10.0.0.9", {"dev": "eth0", "10.1.0.2": {"dev": "eth5"}}, 1500)
    with pytest.raises(HostCannot, match="eth0 and eth5 of near both lead to hosts of clients"):
        asyncio.run(underlay.find_interfaces(near, [there, other]))


def test_two_ways_from_host_to_host_are_refused() -> None:
    text = placed("far", factors='[link]\nswitch = "direct"\ntunnel = "gre"')
    with pytest.raises(BadInput, match="two ways from host to host"):
        read(text, "s.toml")


def test_one_host_under_two_names_is_told() -> None:
    here = Somewhere("local", None, {"dev": "lo", "prefsrc": "127.0.0.1"}, 65536)
    with pytest.raises(HostCannot, match="no tunnel leads from a host to itself"):
        asyncio.run(trunk.find_ends(here, Somewhere("far", "127.0.0.1", {"dev": "lo", "prefsrc": "127.0.0.1"}, 65536)))
