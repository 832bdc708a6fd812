"""The observer `capture` where machines are containers, or on a host that is reached by SSH."""

import json

import pytest

from nearmetal.lab.lab import Lab
from nearmetal.model import CaptureSpec, Machine, Observation
from nearmetal.observers.capture import Capture

from . import both_ends, laboratory
from .test_hosts import lab, made_on

__all__ = ["lab"]  # a fixture

pytestmark = pytest.mark.live

REQUESTS = 20


async def captured(server: Machine, client: Machine) -> Observation:
    """What is seen of some requests; no file of a capture may remain."""
    serving = await server.spawn([server.probe, "serve", "--listen", f"{server.address}:9001"])
    url = f"http://{server.address}:9001/"
    try:
        # Until it listens, a connection is refused.
        for _ in range(50):
            told = await client.exec([client.probe, "load", url, "--workers", "1", "--requests", "1", "--json"])
            if json.loads(told.stdout)["requests"]["completed"]:
                break
        watch = await Capture(CaptureSpec()).start(laboratory.stage(server, client))
        loading = [client.probe, "load", url, "--workers", "1", "--requests", str(REQUESTS), "--json"]
        assert (await client.exec(loading)).status == 0
        seen = await watch.stop()
    finally:
        await serving.stop()
    left = [
        *map(str, (await server.site.exec(["find", f"{server.site.state}/machines", "-name", "*.pcap"])).text.split())
    ]
    assert left == []
    return seen


def check(seen: Observation) -> None:
    assert "problem" not in str(seen.counters)
    assert seen.artifacts.keys() == {"client-0.pcap", "server-0.pcap", "trace-0.json"}
    told = seen.counters["trace-0"]
    assert told["requests"] >= REQUESTS
    both_ends.check(told, seen.artifacts["client-0.pcap"], seen.artifacts["server-0.pcap"])
    assert told["at.request_first"] < told["at.server.request_first"] < told["at.response_first"]


async def test_on_a_host_elsewhere(lab: Lab) -> None:
    _, server = await made_on(lab, "far")
    _, client = await made_on(lab, "far")
    check(await captured(server, client))


async def test_of_a_container(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine)
    async with laboratory.laboratory() as own:
        server = await laboratory.machine(own, "docker", laboratory.spec())
        client = await laboratory.machine(own, "host", laboratory.spec(), "client")
        check(await captured(server, client))
