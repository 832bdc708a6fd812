"""Links between real machines: what the study says of a link is what those at its ends see."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from unittest.mock import AsyncMock

import pytest
import pytest_asyncio

from nearmetal.lab.changes.ledger import Ledger, ledgers_folder, new_token
from nearmetal.lab.image import Image
from nearmetal.lab.lab import Lab
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.networks import link as links
from nearmetal.lab.networks.link import Link
from nearmetal.lab.site_registry import Sites
from nearmetal.model import EnvironmentSpec, LinkSpec, Machine, MachineSpec, Role
from nearmetal.study.resolve import resolve_alone
from tests.conftest import OWN_CPU

from .leftovers import stays

pytestmark = pytest.mark.live

HOST = EnvironmentSpec(kind="host")


@pytest_asyncio.fixture
async def lab(lab_image: Image) -> AsyncIterator[Lab]:
    token = new_token()
    ledger = Ledger(ledgers_folder() / f"{token}.jsonl")
    made = Lab(token, ledger, Sites({}))
    try:
        yield made
    finally:
        left = await made.close()
        ledger.close()
    assert left == []
    assert stays(token) == []


class Joined:
    """A server and clients with a link between them, of which the first loads it."""

    def __init__(self, server: Machine, clients: Sequence[Machine], link: Link) -> None:
        self.server, self.clients, self.client, self.link = server, clients, clients[0], link

    async def serve(self, *options: str) -> None:
        """Return when the server answers, however long its start takes on a busy host."""
        await self.server.spawn([self.server.probe, "serve", "--listen", f"{self.server.address}:9001", *options])
        for _ in range(200):
            document = await self.load("--requests", "1")
            if document["requests"]["completed"] == 1:  # type: ignore[index]
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"the server does not answer: {document}")

    async def load(self, *options: str) -> dict[str, object]:
        url = f"http://{self.server.address}:9001/"
        ended = await self.client.exec([self.client.probe, "load", url, "--json", *options])
        return dict(json.loads(ended.stdout))


async def join(lab: Lab, spec: LinkSpec, image: Image, seed: int = 1, clients: int = 1) -> Joined:
    site = await lab.site("local")
    machine = MachineSpec(image=image.name, memory=256 * 2**20)
    made = []
    others: list[Role] = ["client"]
    for role in ("server", *others * clients):
        handle = await lab.create(
            resolve_alone(HOST, machine), machine, role, str(OWN_CPU), site, links.choose_bridge(spec, role)
        )
        made.append(await lab.attach(handle))
    server, *far = made
    link = await lab.lay(spec, [(server.name, client.name) for client in far], str(OWN_CPU), site, seed=seed)
    assert (await link.verify()).ok
    return Joined(server, far, link)


@pytest.mark.parametrize("switch", ["bridge", "direct"])
async def test_a_delay_is_there_both_ways(lab: Lab, lab_image: Image, switch: str) -> None:
    joined = await join(lab, LinkSpec.from_json({"delay": 0.02, "switch": switch}), lab_image)
    await joined.serve()
    document = await joined.load("--workers", "1", "--requests", "20")
    assert document["requests"]["completed"] == 20  # type: ignore[index]
    # Timed, but only from below: no machine is ever too quick.
    assert document["latency_ns"]["min"] >= 40e6  # type: ignore[index]


async def test_a_plain_cable_has_no_bridge(lab: Lab, lab_image: Image) -> None:
    joined = await join(lab, LinkSpec(switch="direct"), lab_image)
    assert joined.link.by == "none"
    await joined.serve("--body", "100000")
    document = await joined.load("--workers", "4", "--requests", "100")
    assert document["requests"]["completed"] == 100  # type: ignore[index]
    for machine in (joined.server, joined.client):
        namespace, interface = str(machine.peer).split("/")
        site = await lab.site("local")
        told = await site.exec(["ip", "-netns", namespace, "-json", "link", "show", interface])
        assert "master" not in json.loads(told.stdout)[0]


@pytest.mark.parametrize("by", ["netem", "tbf", "htb", "relay"])
async def test_a_rate_is_a_ceiling(lab: Lab, lab_image: Image, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if by != "relay" and by not in await links.find_disciplines(await lab.site("local")):
        pytest.skip(f"this kernel has no {by}")
    only = AsyncMock(return_value=frozenset({by} - {"relay"}))
    monkeypatch.setattr(links, "find_disciplines", only)
    joined = await join(lab, LinkSpec(rate=20e6), lab_image)
    assert joined.link.by == by
    await joined.serve("--body", "100000")
    document = await joined.load("--workers", "4", "--duration", "1s")
    # The rate counts replies that ended within the second; the bytes also those under way at its end.
    bits = document["rate"]["achieved"] * 100_000 * 8  # type: ignore[index]
    # A queue that was empty at the start may pass on a little more.
    assert 0 < bits <= 20e6 * 1.05


async def test_each_client_has_the_rate_for_itself(lab: Lab, lab_image: Image) -> None:
    rate, body = 4e6, 10_000  # which a slow host reaches, too
    one = await join(lab, LinkSpec(rate=rate, each=True), lab_image, clients=2)
    both = [Joined(one.server, [client], one.link) for client in one.clients]
    await one.serve("--body", str(body))
    documents = await asyncio.gather(*(each.load("--workers", "4", "--duration", "2s") for each in both))
    bits = [document["rate"]["achieved"] * body * 8 for document in documents]  # type: ignore[index]
    assert all(0 < each <= rate * 1.05 for each in bits)
    # Over one wire both together had no more than one has here.
    assert sum(bits) > rate * 1.05


async def test_a_relay_draws_other_lots_for_another_seed(
    lab: Lab, lab_image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "find_disciplines", AsyncMock(return_value=frozenset()))

    async def answered(seed: int) -> frozenset[str]:
        joined = await join(lab, LinkSpec(loss=0.3), lab_image, seed)
        assert (await joined.link.verify()).values["seed"] == seed
        told = await joined.client.exec(["ping", "-i", "0.005", "-c", "100", str(joined.server.address)])
        await lab.take_up()
        await asyncio.gather(*(lab.destroy(handle) for handle in lab.machines()))
        return frozenset(re.findall(r"icmp_seq=(\d+)", told.text))

    # Of 100 that come and go over a way that loses 30 % each, the same half twice is as good as impossible.
    first, second = await answered(1), await answered(2)
    assert 20 < len(first) < 80 and 20 < len(second) < 80
    assert first != second


async def test_a_link_that_ends_is_told(lab: Lab, lab_image: Image) -> None:
    joined = await join(lab, LinkSpec(loss=0.01), lab_image)
    if joined.link.by != "relay":
        pytest.skip("this kernel has netem: nothing to end")
    await joined.link._relays[0].stop()
    readback = await joined.link.verify()
    assert not readback.ok
    assert "the relay ended" in readback.reason


async def test_what_a_relay_cannot_read_is_told(lab: Lab, lab_image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "find_disciplines", AsyncMock(return_value=frozenset()))
    joined = await join(lab, LinkSpec(delay=0.001), lab_image)
    burst = ["ping", "-q", "-l", "2000", "-c", "2000", "-i", "0.002", "-s", "1000", str(joined.server.address)]
    assert " 0% packet loss" in (await joined.client.exec(burst)).text
    assert [one.code for one in (await joined.link.verify()).warnings] == ["link-by-relay"]
    namespace = joined.link.handle.data["namespace"]
    await run_checked(await lab.site("local"), "ip", "-netns", namespace, "link", "set", "far0", "txqueuelen", "1")
    lost = 2000 - int(re.findall(r"(\d+) received", (await joined.client.exec(burst)).text)[0])
    assert lost > 0
    (_, overrun) = (await joined.link.verify()).warnings
    assert overrun.code == "link-overrun" and int(re.findall(r"\d+", overrun.text)[0]) >= lost
    assert len((await joined.link.verify()).warnings) == 1, "told once"


async def test_taking_up_leaves_the_switch_as_it_was(lab: Lab, lab_image: Image) -> None:
    joined = await join(lab, LinkSpec(delay=0.001), lab_image)
    await lab.take_up()
    namespace = str(joined.server.peer).split("/")[0]
    site = await lab.site("local")
    told = json.loads((await site.exec(["ip", "-netns", namespace, "-json", "link", "show"])).stdout)
    assert {"near0", "far0"}.isdisjoint(link["ifname"] for link in told)
