"""The observer `usage` on a host that is reached by SSH: its samples come from there."""

import asyncio

import pytest

from nearmetal.lab.lab import Lab
from nearmetal.observers.usage import UsageObserver

from .laboratory import stage
from .test_hosts import lab, made_on

__all__ = ["lab"]  # a fixture

pytestmark = pytest.mark.live


@pytest.mark.long
async def test_a_server_elsewhere_is_sampled_there(lab: Lab) -> None:
    _, server = await made_on(lab, "far")
    watch = await UsageObserver(0.2).start(stage(server))
    busy = await server.spawn(["sysbench", "cpu", "--time=30", "run"])
    await asyncio.sleep(2)
    seen = await watch.stop()
    await busy.stop()
    assert seen.artifacts.keys() == {"usage-host.jsonl", "usage-server-0.jsonl"}
    inside, host = (seen.counters[place] for place in ("server-0", "host"))
    assert "problem" not in inside and "problem" not in host
    assert inside["seconds"] == pytest.approx(host["seconds"], abs=0.5)
    assert 1.5 < host["seconds"] < 10
    assert host["group.server-0.cpu"] > 10
    assert host["group.server-0.memory_limit"] == 256 * 2**20
