"""The congestion control that routes name: what is read of `ip route`, what it is told, and that it is put back."""

from collections.abc import Sequence

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.changes import congestion
from nearmetal.model import Completed

PLAIN = "10.111.0.0/16 proto kernel scope link src 10.111.0.3 "


class Network:
    """`ip -oneline -4 route show dev data`, and `ip route change`, as iproute2 6.1 has them."""

    def __init__(self, *routes: str) -> None:
        self.routes = list(routes)

    async def exec_in_network(self, argv: Sequence[str]) -> Completed:
        if argv[:3] != ["ip", "route", "change"]:
            assert list(argv) == ["ip", "-oneline", "-4", "route", "show", "dev", "data"]
            return Completed(status=0, stdout="".join(f"{one}\n" for one in self.routes).encode())
        text = " ".join(argv[3:])
        if "congctl nosuch" in text or "linkdown" in text:
            return Completed(status=2, stderr=b"RTNETLINK answers: Invalid argument")
        destination = argv[3]
        at = next(number for number, route in enumerate(self.routes) if route.startswith(f"{destination} "))
        assert " dev data" in text
        self.routes[at] = text.replace(" dev data", "")
        return Completed(status=0)


async def test_every_route_names_it_and_is_put_back() -> None:
    network = Network(PLAIN, "10.9.0.0/24 via 10.111.0.1 linkdown ")
    assert await congestion.read(network, "data") == ""
    await congestion.write(network, "data", "cubic")
    assert all(route.endswith("congctl cubic") and "linkdown" not in route for route in network.routes)
    assert await congestion.read(network, "data") == "cubic"
    await congestion.write(network, "data", "reno")
    assert await congestion.read(network, "data") == "reno"
    await congestion.write(network, "data", "")
    assert [route.split() for route in network.routes] == [PLAIN.split(), ["10.9.0.0/24", "via", "10.111.0.1"]]


async def test_one_that_only_some_routes_name_is_not_had() -> None:
    assert await congestion.read(Network(PLAIN, f"10.9.0.0/24 {PLAIN} congctl cubic"), "data") == ",cubic"
    assert await congestion.read(Network(), "data") is None


async def test_a_kernel_without_it_refuses() -> None:
    with pytest.raises(HostCannot, match="Invalid argument"):
        await congestion.write(Network(PLAIN), "data", "nosuch")
