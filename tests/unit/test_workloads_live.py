"""The workloads with the real programs, this host standing for every machine: that they take the options we give."""

import json
import shutil
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.stage import LabStage
from nearmetal.model import Completed, Cost, LinkSpec, Machine, MachineSpec, Measurement, Running, Site, WorkloadSpec
from nearmetal.study.resolve import build_workload
from tests.conftest import WORKER

pytestmark = pytest.mark.live

LAST_BYTE = 77 + WORKER
"""Of the address: tests in another process have another."""


class ThisHost:
    """A machine with an address of the loopback that nobody else listens on, and the probe as it was built."""

    role = "server"
    boot_id = "this host's"
    owned = False
    address = f"127.0.0.{LAST_BYTE}"
    interface = "lo"
    peer: str | None = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.site: Site = LocalSite()
        self.arch = self.site.arch
        self.probe = self.site.probe

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = LIMITS.command,
    ) -> Completed:
        return await self.site.exec(argv, stdin=stdin, env=env, timeout=timeout)

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Running:
        return await self.site.spawn(argv, env=env)

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        await self.site.put(content, path, mode=mode)

    async def get(self, path: str) -> bytes:
        return await self.site.get(path)

    async def reboot(self) -> None:
        raise HostCannot("this host is not ours to reboot")

    async def paused(self, since: float) -> float:
        return 0.0

    async def cost(self) -> Cost | None:
        return None


def stage_of(server: Machine, *clients: Machine) -> LabStage:
    """A server and its clients, whose clocks are this host's or need no comparison."""
    offsets = {machine.name: 0 for machine in clients}
    return LabStage((server,), clients, {}, MachineSpec(), LinkSpec(), "shared", offsets=offsets)


async def life(clients: int = 1, **parameters: Any) -> Measurement:
    """A workload's life where this host stands for all machines."""
    return await life_on(
        stage_of(ThisHost("server0"), *(ThisHost(f"client{index}") for index in range(clients))), **parameters
    )


async def life_on(stage: LabStage, **parameters: Any) -> Measurement:
    """Prepare, run and finish one workload, as a trial does."""
    one = build_workload(WorkloadSpec.model_validate({"name": "it", **parameters}))
    try:
        await one.prepare(stage)
        found = await one.run(stage)
    finally:
        await one.finish(stage)
    assert found.responses.keys() <= one.responses.keys()
    lost = found.responses.get("loss")
    assert one.primary in found.responses or found.invalid or (lost and lost.value == 1)
    return found


PROBE: Mapping[str, Any] = {"kind": "http", "server": "probe", "warmup": "100ms"}


async def test_a_closed_loop() -> None:
    found = await life(**PROBE, workers=4, duration="500ms", paths=["/", "/other"], new_connections=True)
    assert found.responses["errors"].value == 0
    transactions = found.responses["transactions"].value
    assert found.responses["throughput"].value * 0.5 == transactions > 0
    # What is under way at the end is answered, and no transaction.
    assert found.events - 4 <= transactions <= found.events


async def test_an_open_loop_of_two_clients_with_one_distribution() -> None:
    found = await life(2, **PROBE, mode="open", rate=200, duration="1s", arrivals="poisson", spin=True)
    # Either generator may have been late on a busy machine; how many requests it began does not depend on that.
    assert found.events == pytest.approx(400, abs=4 * 400**0.5)
    assert len(found.responses["throughput"].by_client or ()) == 2


async def test_a_number_of_requests() -> None:
    assert (await life(**PROBE, requests=100)).events == 100


async def test_a_ramp() -> None:
    ramp: Mapping[str, Any] = {"from": 20, "step": 20, "to": 40, "per_step": "5x"}
    found = await life(**PROBE, mode="ramp", **ramp)
    # On a busy machine the generator may give out first, or the server not keep up; each is told.
    assert found.invalid or found.responses["saturation"].value >= 20


@pytest.mark.parametrize("per_step", ["250ms", "0.25x"])
async def test_the_replies_of_a_ramp_have_its_requests_rate_however_long_each_takes(per_step: str) -> None:
    host = ThisHost("server0")
    # The last of a hundred that are due within 250 ms is answered after 1 s at the earliest, however quick the machine:
    # less than 100 a second, if the time for which each is under way counted.
    slow = await host.spawn([host.probe, "serve", "--listen", f"{host.address}:9117", "--delay", "1s"])
    ramp: Mapping[str, Any] = {"from": 400, "step": 100, "to": 400, "per_step": per_step, "timeout": "30s"}
    try:
        found = await life(kind="http", url="http://$server:9117/", warmup="0s", mode="ramp", **ramp)
    finally:
        await slow.stop()
    steps = json.loads(found.artifacts["load-0.json"])["steps"]
    for step in steps:
        assert step["request_rate"] == pytest.approx(400)
        assert 100 < step["reply_rate"] <= step["request_rate"] * 1.000001
        assert step["replies"] == 100
    assert steps


async def test_a_port_that_is_taken() -> None:
    # By a socket of this process: it listens at once, which a program that was just started may not do yet.
    with socket.create_server((ThisHost.address, 9001)), pytest.raises(ToolFailed, match="instead of serving"):
        await life(**PROBE, timeout="500ms")


@pytest.mark.skipif(shutil.which("sysbench") is None, reason="sysbench is not installed on this host")
class TestSysbench:
    async def test_cpu(self) -> None:
        assert (await life(kind="sysbench", test="cpu", duration="1s")).responses["events"].value > 0

    async def test_fileio(self) -> None:
        found = await life(kind="sysbench", test="fileio", total_size="16MiB", files=4, duration="1s", threads=2)
        latencies = {"latency_mean", "latency_p95", "latency_max"}
        assert found.responses.keys() == {"read", "written", "reads", "writes", "fsyncs", *latencies, "fairness"}
        assert 0.5 <= found.responses["fairness"].value <= 1

    async def test_fsync_after_every_write(self) -> None:
        size: Mapping[str, Any] = {"total_size": "16MiB", "files": 4, "duration": "1s"}
        found = await life(kind="sysbench", test="fileio", mode="rndwr", fsync_all=True, fsync_mode="fdatasync", **size)
        assert found.responses["fsyncs"].value == found.responses["writes"].value > 0


async def test_a_command_on_client_and_server() -> None:
    one: Mapping[str, Any] = {"kind": "command", "response": "last", "better": "higher"}
    found = await life(2, **one, argv=["echo", "$server"], on="client", match=r"([0-9]+)$")
    assert found.responses["last"].value == LAST_BYTE
    found = await life(**one, argv=["echo", '{"a": [7]}'], json="a.0")
    assert found.responses["last"].value == 7
