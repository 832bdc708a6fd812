"""iperf3 between real machines: what it says of a link is what the link was told to be, and faults are told."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from nearmetal.errors import MachineLost, ToolFailed
from nearmetal.lab import probe
from nearmetal.lab.changes.ledger import Ledger, ledgers_folder, new_token
from nearmetal.lab.image import Image
from nearmetal.lab.lab import Lab
from nearmetal.lab.networks import link as links
from nearmetal.lab.site_registry import Sites
from nearmetal.lab.stage import LabStage, offsets
from nearmetal.model import EnvironmentSpec, LinkSpec, Machine, MachineSpec, WorkloadSpec
from nearmetal.study.resolve import build_workload, resolve_alone
from tests.conftest import OWN_CPU
from tests.unit.test_workloads_live import life_on

from .leftovers import stays

pytestmark = pytest.mark.live

SPEC = MachineSpec(memory=256 * 2**20)
SHORT: dict[str, Any] = {"kind": "iperf3", "duration": "2s", "intervals": 4, "warmup": "0s"}


class Made:
    """A lab whose machines are of kind `host`, and stages of them."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    async def machine(self, role: Any, link: LinkSpec, kind: str = "host") -> Machine:
        site = await self.lab.site("local")
        environment = EnvironmentSpec(kind=kind)
        handle = await self.lab.create(
            resolve_alone(environment, SPEC), SPEC, role, str(OWN_CPU), site, links.choose_bridge(link, role)
        )
        machine = await self.lab.attach(handle)
        await probe.ensure(machine)
        return machine

    async def stage(self, link: LinkSpec, *kinds: str) -> LabStage:
        """A server of kind host, and a client of each of these kinds, joined by a link."""
        server = await self.machine("server", link)
        clients = tuple([await self.machine("client", link, kind) for kind in kinds])
        if link != LinkSpec():
            site = await self.lab.site("local")
            await self.lab.lay(link, [(server.name, client.name) for client in clients], str(OWN_CPU), site, seed=1)
        known = await offsets((server, *clients))
        return LabStage((server,), clients, dict(self.lab.sites), SPEC, link, "shared", known)


@asynccontextmanager
async def lab_of() -> AsyncIterator[Made]:
    """A lab of which nothing may remain."""
    token = new_token()
    ledger = Ledger(ledgers_folder() / f"{token}.jsonl")
    lab = Lab(token, ledger, Sites({}))
    try:
        yield Made(lab)
    finally:
        left = await lab.close()
        ledger.close()
    assert left == []
    assert stays(token) == []


@pytest_asyncio.fixture
async def made(lab_image: Image) -> AsyncIterator[Made]:
    async with lab_of() as one:
        yield one


async def test_tcp_is_bounded_by_the_link(made: Made) -> None:
    stage = await made.stage(LinkSpec(rate=20e6), "host")
    found = await life_on(stage, **SHORT)
    assert 0 < found.responses["bandwidth"].value < 20e6
    assert len(json.loads(found.artifacts["iperf3-0.json"])["intervals"]) >= 3


async def test_udp_loses_what_does_not_fit(made: Made) -> None:
    stage = await made.stage(LinkSpec(rate=10e6), "host", "host")
    found = await life_on(stage, **SHORT, protocol="udp", rate="10Mbit/s")
    # Two clients offer twice what the link carries; its queue of 1000 frames holds back more than a second of it.
    assert 0.1 < found.responses["loss"].value < 0.55
    assert found.responses["bandwidth"].value < 10e6
    assert len(found.responses["bandwidth"].by_client or ()) == 2


@pytest.mark.parametrize(
    "direction", ["forward", *(pytest.param(direction, marks=pytest.mark.long) for direction in ("reverse", "both"))]
)
async def test_the_loss_of_the_measured_window_is_the_links(made: Made, direction: str) -> None:
    """A warm-up as long as what is measured: if it counted, twice the loss would be told."""
    from scipy.stats import binom  # a second, which each test process would take

    # Little enough that iperf3's greeting is not lost three times running.
    stage = await made.stage(LinkSpec(loss=0.03), "host")
    asked = {**SHORT, "warmup": "2s", "intervals": 1, "direction": direction}
    found = await life_on(stage, **asked, protocol="udp", rate="400kbit/s", length="64B")
    sent = 781 * 2 * (2 if direction == "both" else 1)
    low, high = binom.interval(1 - 1e-5, sent, 0.03)
    assert low / sent <= found.responses["loss"].value <= high / sent


@pytest.mark.parametrize("direction", ["reverse", pytest.param("both", marks=pytest.mark.long)])
async def test_the_other_way(made: Made, direction: str) -> None:
    stage = await made.stage(LinkSpec(rate=20e6), "host")
    found = await life_on(stage, **SHORT, direction=direction)
    ways = 2 if direction == "both" else 1
    assert 0 < found.responses["bandwidth"].value < ways * 20e6


@pytest.mark.long
async def test_clients_of_different_kinds_start_together(made: Made) -> None:
    """A guest has a clock of its own, and what it lacks in speed does not shift its start."""
    stage = await made.stage(LinkSpec(), "host", "qemu")
    ended = await stage.together([(client, ["date", "+%s"]) for client in stage.clients], 30)
    assert [one.status for one in ended] == [0, 0]
    assert all(one.late is not None and one.late >= -1e-6 for one in ended)
    found = await life_on(stage, **SHORT, protocol="udp", rate="1Mbit/s")
    assert all(value > 0 for value in found.responses["bandwidth"].by_client or (0,))


async def test_a_server_that_dies_is_told_in_iperf3s_words(made: Made) -> None:
    stage = await made.stage(LinkSpec(), "host")
    one = build_workload(WorkloadSpec.model_validate({"name": "it", **SHORT, "duration": "20s"}))
    try:
        await one.prepare(stage)
        running = asyncio.ensure_future(one.run(stage))
        await asyncio.sleep(1)
        await one.finish(stage)
        with pytest.raises(ToolFailed, match=r"iperf3 failed: .*(terminated|closed|reset|Broken pipe)"):
            await running
    finally:
        await one.finish(stage)


async def test_a_client_that_dies_is_lost(made: Made) -> None:
    stage = await made.stage(LinkSpec(), "host", "host")
    one = build_workload(WorkloadSpec.model_validate({"name": "it", **SHORT, "duration": "5s", "intervals": 5}))
    handle = next(handle for handle in made.lab.machines() if handle.name == stage.clients[1].name)
    try:
        await one.prepare(stage)
        running = asyncio.ensure_future(one.run(stage))
        await asyncio.sleep(1)
        await made.lab.destroy(handle)
        with pytest.raises(MachineLost):
            await running
    finally:
        await one.finish(stage)


async def until_served(client: Machine, address: str) -> None:
    for _ in range(100):
        ended = await client.exec(["iperf3", "--client", address, "--bytes", "1K", "--json"])
        if b'"error":' not in ended.stdout:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(ended.text)


async def test_a_port_that_is_taken_is_told(made: Made) -> None:
    stage = await made.stage(LinkSpec(), "host")
    (server,), (client,) = stage.servers, stage.clients
    taken = await server.spawn(["iperf3", "--server", "--bind", server.address])
    try:
        await until_served(client, server.address)
        with pytest.raises(ToolFailed, match=r"iperf3 ended instead of serving: .*Address already in use"):
            await life_on(stage, **SHORT)
    finally:
        await taken.stop()
