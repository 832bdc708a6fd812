"""ping between real machines, on links whose delay and loss are known."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from nearmetal.lab.image import Image
from nearmetal.model import LinkSpec, WorkloadSpec
from nearmetal.run.background_load import BackgroundLoad
from nearmetal.study.resolve import build_workload, resolve_workload
from tests.unit.test_workloads_live import life_on

from .test_iperf3 import Made, lab_of

pytestmark = pytest.mark.live


@pytest_asyncio.fixture
async def made(lab_image: Image) -> AsyncIterator[Made]:
    async with lab_of() as one:
        yield one


async def test_each_way_takes_at_least_the_delay(made: Made) -> None:
    stage = await made.stage(LinkSpec(delay=0.02), "host", "host")
    found = await life_on(stage, kind="ping", duration="2s")
    # Timed, but only from below: no machine is ever too quick.
    for name in ("forward_p50", "backward_p50"):
        assert all(value >= 0.02 for value in found.responses[name].by_client or (0,))
    assert found.responses["rtt_p50"].value >= 0.04
    assert {warning.code for warning in found.warnings} <= {"uneven-start"}


async def test_loss_is_that_of_both_ways(made: Made) -> None:
    stage = await made.stage(LinkSpec(loss=0.1), "host")
    found = await life_on(stage, kind="ping", interval="2ms", duration="4s", timeout="5s")
    # 2000 packets, of which 1 - 0.9^2 = 0.19 are lost: five standard deviations are 0.044.
    assert found.responses["loss"].value == pytest.approx(0.19, abs=0.044)


async def test_packets_wait_behind_a_load_and_not_after_it(made: Made) -> None:
    """A queue of six frames takes 7 ms at 10 Mbit/s; a load of replies keeps many more in it."""
    stage = await made.stage(LinkSpec(rate=10e6), "host")
    ping = WorkloadSpec.model_validate({"name": "delay", "kind": "ping", "duration": "2s", "timeout": "5s"})
    pages = {"name": "pages", "kind": "http", "server": "probe", "body": "100KiB", "warmup": "100ms"}
    beneath = BackgroundLoad(resolve_workload(WorkloadSpec.model_validate(pages)), build_workload(ping))
    try:
        await beneath.start_load(stage)
        loaded = await life_on(stage, kind="ping", duration="2s", timeout="5s")
        beneath.check()
    finally:
        await beneath.stop_load(stage)
    assert beneath.begun == 1
    assert loaded.responses["rtt_p50"].value > 7e-3
    left = await stage.clients[0].exec(["pgrep", "--full", f"[l]oad http://{stage.servers[0].address}:"])
    assert left.text == ""


@pytest.mark.long
async def test_a_guest_has_a_clock_of_its_own(made: Made) -> None:
    stage = await made.stage(LinkSpec(), "qemu")
    found = await life_on(stage, kind="ping", duration="2s", timeout="5s")
    assert found.responses["rtt_p50"].value > 0
    codes = {warning.code for warning in found.warnings}
    assert "one-way-uncertain" in codes
    # Whatever the offset: the ways add up to round trips.
    ways = found.responses["forward_p50"].value + found.responses["backward_p50"].value
    assert 0 < ways < 2 * found.responses["rtt_p99"].value
