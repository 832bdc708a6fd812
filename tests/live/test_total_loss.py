"""Links that lose every frame: what is a measurement is one, and what cannot connect says so in one reason."""

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from nearmetal.errors import ToolFailed
from nearmetal.lab.image import Image
from nearmetal.model import LinkSpec
from tests.unit.test_workloads_live import life_on

from .test_iperf3 import SHORT, Made, lab_of

pytestmark = pytest.mark.live


@pytest_asyncio.fixture
async def made(lab_image: Image) -> AsyncIterator[Made]:
    async with lab_of() as one:
        yield one


async def test_ping_measures_that_nothing_comes_back(made: Made) -> None:
    stage = await made.stage(LinkSpec(loss=1.0), "host")
    found = await life_on(stage, kind="ping", duration="2s", timeout="500ms")
    assert {name: response.value for name, response in found.responses.items()} == {"loss": 1.0}
    assert [warning.code for warning in found.warnings] == ["nothing-came-back"]


@pytest.mark.parametrize(
    "workload",
    [
        {"kind": "http", "duration": "1s"},
        {"kind": "httperf", "connections": 10, "rate": 10},
        SHORT,
        {**SHORT, "protocol": "udp", "rate": "1Mbit/s"},
    ],
    ids=["http", "httperf", "tcp", "udp"],
)
async def test_what_needs_a_connection_says_at_once_that_there_is_none(made: Made, workload: dict[str, Any]) -> None:
    stage = await made.stage(LinkSpec(loss=1.0), "host")
    began = time.monotonic()
    with pytest.raises(
        ToolFailed, match="needs a TCP connection, and none comes about; the link is told to lose 100 %"
    ):
        await life_on(stage, **workload)
    assert time.monotonic() - began < 20
