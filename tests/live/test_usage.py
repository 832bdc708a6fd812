"""What the observer `usage` saw against what mpstat, iostat and `docker stats` saw of the same interval.

Agreement means: a state of a CPU within 3 points of mpstat's, a disk's rates within 5 % of iostat's, a container's CPU
within 3 points of the engine's figure for the same instants. What is left is that tools read a little later than they
say, and that CPU time is counted in ticks of 10 ms.
"""

import asyncio
import datetime
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nearmetal.lab.containers.container import Container
from nearmetal.lab.local_site import LocalSite, run_checked
from nearmetal.lab.machines import scratch
from nearmetal.model import CPU_STATES, Observation
from nearmetal.observers.usage import UsageObserver
from nearmetal.observers.usage.samples import Own, SamplerLines, Span, average_samples, parse_samples

from .laboratory import laboratory, machine, spec, stage, study

pytestmark = pytest.mark.live

SECONDS = 4
OFTEN = 0.1
"""Seconds between samples, so that an interval of another tool can be cut out of them."""

sysstat = pytest.mark.skipif(
    shutil.which("mpstat") is None, reason="no mpstat: NOT compared with sysstat; apt-get install sysstat"
)

BUSY = ["sysbench", "cpu", "--time=30", "run"]
WRITES = "while :; do dd if=/dev/zero of=/root/written bs=64k count=16 oflag=dsync conv=notrunc 2>/dev/null; done"


def seen(observation: Observation, place: str) -> SamplerLines:
    return parse_samples(observation.artifacts[f"usage-{place}.jsonl"])


def until(end: int, seconds: float) -> Span:
    """That many seconds before an instant of CLOCK_MONOTONIC."""
    return Span(end - round(seconds * 1e9), end)


async def told(argv: Sequence[str]) -> tuple[Any, int]:
    """A tool's JSON, and when it was done, by CLOCK_MONOTONIC."""
    printed = await run_checked(LocalSite(), *argv, timeout=60)
    return json.loads(printed)["sysstat"]["hosts"][0]["statistics"], time.monotonic_ns()


@pytest.mark.alone
@sysstat
async def test_cpus_and_disks_are_those_of_mpstat_and_iostat() -> None:
    async with laboratory() as lab:
        server = await machine(lab, "host", spec())
        loads = [await server.spawn(BUSY), await server.spawn(["sh", "-c", WRITES])]
        watch = await UsageObserver(OFTEN).start(stage(server))
        (cpus, cpus_read), (disks, disks_read) = await asyncio.gather(
            told(["mpstat", "-o", "JSON", "-P", "ALL", str(SECONDS), "1"]),
            told(["iostat", "-o", "JSON", "-d", "-k", "-y", str(SECONDS), "1"]),
        )
        host = seen(await watch.stop(), "host")
        for load in loads:
            await load.stop()
    ours = average_samples(host.samples, until(cpus_read, SECONDS), Own())
    for theirs in cpus[0]["cpu-load"]:
        for state in CPU_STATES:
            mine = ours.get(f"cpu.{theirs['cpu']}.{state}", 0.0)
            assert mine == pytest.approx(theirs[state], abs=3), f"CPU {theirs['cpu']}: {state}"
    ours = average_samples(host.samples, until(disks_read, SECONDS), Own())
    compared = [one for one in disks[0]["disk"] if one["tps"] > 20]
    assert compared, "the writes reached no disk"
    for theirs in compared:
        disk = f"disk.{theirs['disk_device']}"
        assert ours[f"{disk}.tps"] == pytest.approx(theirs["tps"], rel=0.05)
        assert ours[f"{disk}.written"] / 1024 == pytest.approx(theirs["kB_wrtn/s"], rel=0.05)


@pytest.mark.alone
async def test_a_container_is_as_its_engine_sees_it(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a fixed load: a program that always wants to run, and a quota of a quarter of a CPU."""
    monkeypatch.setenv("DOCKER_HOST", engine)
    async with laboratory() as lab:
        server = await machine(lab, "docker", spec())
        assert isinstance(server, Container)
        await server.engine.call(server.engine.client.update_container, server.id, cpu_period=100_000, cpu_quota=25_000)
        load = await server.spawn(BUSY)
        watch = await UsageObserver(OFTEN).start(stage(server))
        realtime = time.time_ns() - time.monotonic_ns()
        stats = await server.engine.call(server.engine.client.stats, server.id, stream=False)
        columns = await run_checked(
            LocalSite(), "docker", "--host", engine, "stats", "--no-stream", "--format", "{{json .}}", server.id
        )
        observation = await watch.stop()
        await load.stop()
    begin, end = (_nanoseconds(stats[name]) - realtime for name in ("preread", "read"))
    used = stats["cpu_stats"]["cpu_usage"]["total_usage"] - stats["precpu_stats"]["cpu_usage"]["total_usage"]
    ours = average_samples(seen(observation, "host").samples, Span(begin, end), Own())
    assert ours["group.server-0.cpu"] == pytest.approx(100 * used / (end - begin), abs=3)
    assert ours["group.server-0.memory_limit"] == stats["memory_stats"]["limit"] == 256 * 2**20
    whole = observation.counters["host"]
    shown = json.loads(columns)
    assert whole["group.server-0.cpu"] == pytest.approx(25, abs=3)
    assert float(shown["CPUPerc"].rstrip("%")) == pytest.approx(whole["group.server-0.cpu"], abs=5)
    assert round(whole["group.server-0.processes"]) == int(shown["PIDs"])
    assert shown["MemUsage"].endswith("256MiB")
    assert whole["group.server-0.memory"] / whole["group.server-0.memory_limit"] * 100 == pytest.approx(
        float(shown["MemPerc"].rstrip("%")), abs=1
    )


def _nanoseconds(instant: str) -> int:
    """Of RFC 3339 with nanoseconds, since the epoch."""
    whole, _, fraction = instant.rstrip("Z").partition(".")
    seconds = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.UTC).timestamp()
    return int(seconds) * 10**9 + int(fraction[:9].ljust(9, "0"))


@pytest.mark.alone
async def test_guest_and_host_are_on_one_clock() -> None:
    """A guest that begins to work is seen to do so from inside and from outside at one time."""
    async with laboratory() as lab:
        server = await machine(lab, "qemu", spec())
        watch = await UsageObserver(0.25).start(stage(server))
        await asyncio.sleep(2)
        await run_checked(server, "sysbench", "cpu", "--time=3", "run", timeout=30)
        observation = await watch.stop()
    inside, outside = (observation.counters[place] for place in ("server-0", "host"))
    assert inside["seconds"] == pytest.approx(outside["seconds"], abs=0.5)
    in_guest = _onset(observation, "server-0", lambda sample: 100 - sample["cpus"]["all"]["idle"])
    on_host = _onset(observation, "host", lambda sample: sample["cgroups"]["server-0"]["cpu_percent"])
    assert in_guest == pytest.approx(on_host, abs=0.8)
    assert in_guest > 1.5
    assert inside["steal"] == "untold", "under emulation, as asked for, a kernel counts none"


def _onset(observation: Observation, place: str, busy: Callable[[Any], float]) -> float:
    """Seconds to the first of two intervals running that were half as busy as the busiest, after a second of peace."""
    began = observation.counters[place]["began_ns"]
    course = [
        ((sample["monotonic_ns"] - sample["elapsed_ns"] - began) / 1e9, busy(sample))
        for sample in seen(observation, place).samples
    ]
    after = [(begin, value) for begin, value in course if begin > 1]
    enough = max(value for _, value in after) / 2
    onsets = [begin for (begin, now), (_, then) in itertools.pairwise(after) if min(now, then) > enough]
    return float(onsets[0])


@pytest.mark.parametrize("kind", ["host", "docker"])
async def test_a_killed_sampler_is_told_and_the_rest_is_kept(
    kind: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine)
    async with laboratory() as lab:
        server = await machine(lab, kind, spec())
        watch = await UsageObserver(0.2).start(stage(server))
        await asyncio.sleep(1)
        pids = (await run_checked(server, "pgrep", "-f", f"^{server.probe} sample")).split()
        await run_checked(server, "kill", "-KILL", *map(bytes.decode, pids))
        await asyncio.sleep(0.5)
        observation = await watch.stop()
        assert (await server.exec(["ls", scratch.name_scratch(server.name, "/run", "usage.jsonl")])).status != 0, (
            "samples were left behind"
        )
    told = observation.counters["server-0"]
    assert "was killed before the trial was over" in told["problem"]
    host = observation.counters["host"]
    assert "problem" not in host
    assert 0.5 < told["seconds"] < host["seconds"] - 0.3


async def test_a_study_keeps_samples_and_averages(tmp_path: Path) -> None:
    text = """
        name = "usage"
        [factors]
        environment = ["host"]
        [machine]
        memory = "256MiB"
        [observe]
        usage = "200ms"
        [[workloads]]
        name = "primes"
        kind = "sysbench"
        test = "cpu"
        duration = "2s"
        [design]
        blocks = 1
    """
    (record,) = await study(tmp_path / "run", text)
    assert record.status == "ok", record.reason
    server, host = (record.observers["usage"][place] for place in ("server-0", "host"))
    assert 2 < server["seconds"] < 2 + 2
    assert server["samples"] >= 9
    assert host["group.server-0.cpu"] > 5
    assert host["group.server-0.memory_limit"] == 256 * 2**20
    assert host["group.server-0.processes"] >= 1
    names = {Path(artifact.path).name for artifact in record.artifacts}
    assert {"usage-host.jsonl", "usage-server-0.jsonl"} <= names
    assert not [process for process in Path("/proc").glob("[0-9]*") if _is_sampler(process)]


def _is_sampler(process: Path) -> bool:
    """One of this process's: others may test at the same time."""
    try:
        argv = (process / "cmdline").read_bytes().split(b"\0")
        parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return False
    return b"sample" in argv and int(parent) == os.getpid()
