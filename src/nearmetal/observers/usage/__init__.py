"""The observer `usage`: what servers, the host that carries them, and clients use while a trial measures.

The probe samples in the machine and on its site at once. In the machine it writes to a file on a tmpfs, so that
nothing crosses the control plane meanwhile. Averages of the measuring alone stand in the record; the samples are kept.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from nearmetal.errors import NearmetalError, TimedOut, ToolFailed
from nearmetal.lab.machines import cgroups, kernel, scratch
from nearmetal.lab.stage import offsets
from nearmetal.model import Completed, Machine, Observation, Running, Site, Stage
from nearmetal.observers.usage.samples import Own, SamplerLines, Span, average_samples, parse_samples

FOLDER: Final = "/sys/kernel/debug/kvm"
"""Sums of all guests that KVM runs, ended ones included; there if KVM and debugfs are. Emulated guests have none."""
TOTAL: Final = "exits"
_END: Final = "_exits"
"""The names of the files end so in which x86's KVM counts by reason: io_exits, halt_exits, …"""
_SHOW: Final = 'cd "$1" && grep -H "" exits *_exits'


async def read_exits(site: Site) -> Mapping[str, int]:
    """So far: `exits`, and `exits.REASON` of each reason that the kernel counts. Empty if it counts none."""
    try:
        ended = await site.exec(["sh", "-c", _SHOW, "exits", FOLDER])
    except (NearmetalError, OSError):
        return {}
    found = {}
    for line in ended.text.splitlines():
        name, _, value = line.partition(":")
        if value.isdecimal():
            found[TOTAL if name == TOTAL else f"{TOTAL}.{name.removesuffix(_END)}"] = int(value)
    return found


SHORTEST = 0.01
"""Seconds: CPU time is counted in ticks of this length."""
READY = 10.0
"""Seconds within which a sampler has to have begun."""
PAUSE = 0.05
"""Seconds between two looks whether it has."""
HOST = "host"
"""What the samples of the servers' host are called."""
UNTOLD = "untold"
"""The steal of a guest whose hypervisor tells it of none: what its kernel counts is no figure."""
_KILLED = 128 + 9


@dataclass(frozen=True)
class _ControllerClock:
    """Instants of the controller: what the clocks of machines and sites are compared with."""

    time: int
    """ns since the epoch."""
    monotonic: int
    """ns of CLOCK_MONOTONIC, at the same instant."""

    @classmethod
    def read_now(cls) -> "_ControllerClock":
        return cls(time.time_ns(), time.monotonic_ns())


@dataclass
class _Sampler:
    """One `nearmetal-probe sample`, in a machine or on a site."""

    name: str
    """"server-0", "client-0", or "host"."""
    running: Running
    fetch: Callable[[bytes], Awaitable[bytes]]
    """Its samples, from what it printed."""
    own: Own
    ahead: int
    """How far its clock is ahead of the controller's, in ns."""


class UsageObserver:
    name: ClassVar[str] = "usage"
    around: ClassVar[bool] = False
    takes: ClassVar[float] = 0.5

    def __init__(self, setting: float) -> None:
        if isinstance(setting, bool) or not isinstance(setting, int | float) or setting < SHORTEST:
            raise ValueError(f'it is true, or how often to sample, from "{SHORTEST * 1e3:g}ms"')
        self._interval = float(setting)

    async def start(self, stage: Stage) -> "UsageWatch":
        """Return when all of them sample. ToolFailed when one does not begin."""
        watched = [(f"server-{index}", server) for index, server in enumerate(stage.servers)]
        watched += [(f"client-{index}", stage.clients[index]) for index in _find_sampled(stage.clients)]
        machines = (
            self._in_machine(name, machine, Own(stage.cpus.get(machine.name), not kernel.is_its_hosts(machine)))
            for name, machine in watched
        )
        begun = await asyncio.gather(self._on_host(stage), *machines, return_exceptions=True)
        watch = UsageWatch(self._interval, [one for one in begun if isinstance(one, _Sampler)], stage.servers[0].site)
        failed = next((one for one in begun if isinstance(one, BaseException)), None)
        if failed is not None:
            await watch.stop()
            raise failed
        await watch.mark_begin()
        return watch

    async def _on_host(self, stage: Stage) -> _Sampler:
        """Servers of a trial are all on one site. Its sampler ends with the controller, however that ends."""
        site = stage.servers[0].site
        given = [
            word
            for index, server in enumerate(stage.servers)
            for folder in await cgroups.folders(server)
            for word in ("--cgroup", f"server-{index}={folder}")
        ]
        ahead = await _measure_offset(site)
        running = await site.spawn([site.probe, "launch", *site.bound, "--", *self._make_command(site.probe), *given])
        if not await running.first_line(READY):
            raise _did_not_begin(site.name, await running.stop())

        async def take_printed(stdout: bytes) -> bytes:
            return stdout

        return _Sampler(HOST, running, take_printed, Own(), ahead)

    async def _in_machine(self, name: str, machine: Machine, own: Own) -> _Sampler:
        ahead = await _measure_offset(machine)
        file = scratch.name_scratch(machine.name, "/run", "usage.jsonl")
        running = await machine.spawn([*self._make_command(machine.probe), "--output", file])
        await _until_sampling(machine, running, file)

        async def read_file(stdout: bytes) -> bytes:
            content = await machine.get(file)
            await machine.exec(["rm", "-f", file])
            return content

        return _Sampler(name, running, read_file, own, ahead)

    def _make_command(self, probe: str) -> list[str]:
        return [probe, "sample", "--json", "--interval", f"{self._interval:g}s"]


def _find_sampled(clients: Sequence[Machine]) -> list[int]:
    """The clients to sample in: each with a kernel of its own, and of those on one kernel, which share their CPUs, the
    first."""
    first: dict[tuple[str, str], int] = {}
    for index, client in enumerate(clients):
        is_hosts = kernel.is_its_hosts(client)
        first.setdefault((client.site.name, "" if is_hosts else client.name), index)
    return list(first.values())


async def _until_sampling(machine: Machine, running: Running, file: str) -> None:
    """Until there is a line in its file, the header."""
    until = time.monotonic() + READY
    while time.monotonic() < until:
        if (await machine.exec(["cat", file])).stdout:
            return
        with contextlib.suppress(TimedOut):
            raise _did_not_begin(machine.name, await running.wait(PAUSE))
    raise _did_not_begin(machine.name, await running.stop())


def _did_not_begin(where: str, ended: Completed) -> ToolFailed:
    said = ended.complaint[-300:] or "it said nothing"
    return ToolFailed(f"the probe does not sample: {said}", where)


async def _measure_offset(of: Machine | Site) -> int:
    """How far its clock is ahead of the controller's, in ns."""
    return (await offsets((of,)))[of.name]


class UsageWatch:
    def __init__(self, interval: float, samplers: Sequence[_Sampler], host: Site) -> None:
        self._samplers = samplers
        self._interval = interval
        self._host = host
        self._exits: Mapping[str, int] = {}
        self._begun = _ControllerClock.read_now()

    async def mark_begin(self) -> None:
        """What happens from now on is measured."""
        self._exits = await read_exits(self._host)
        self._begun = _ControllerClock.read_now()

    async def stop(self) -> Observation:
        """Of each sampler its lines, and the averages of the time between `mark_begin` and now.

        It raises nothing: a sampler that was killed, or cannot be reached, is a `problem` in its counters.
        """
        over = time.monotonic_ns() - self._begun.monotonic
        exits = await read_exits(self._host)
        ended = await asyncio.gather(*map(_stop_sampler, self._samplers))
        artifacts: dict[str, bytes] = {}
        counters: dict[str, Any] = {}
        for sampler, (content, problem) in zip(self._samplers, ended, strict=True):
            artifacts |= {f"usage-{sampler.name}.jsonl": content} if content else {}
            counters[sampler.name] = self._make_counters(sampler, parse_samples(content), over, problem)
        if HOST in counters:
            counters[HOST] |= _rates(self._exits, exits, over)
        return Observation(artifacts=artifacts, counters=counters)

    def _make_counters(
        self, sampler: _Sampler, sampled: SamplerLines, over: int, problem: str | None
    ) -> dict[str, Any]:
        counters: dict[str, Any] = {"interval": self._interval}
        if problem is not None:
            counters["problem"] = problem
        if sampled.header is None:
            return counters
        since_header = self._begun.time + sampler.ahead - int(sampled.header["time_ns"])
        begin = int(sampled.header["monotonic_ns"]) + since_header
        span = Span(begin, begin + over)
        inside = [sample for sample in sampled.samples if span.shared_with(sample)]
        counters |= {
            "began_ns": begin,
            "seconds": round(sum(map(span.shared_with, inside)), 3),
            "samples": len(inside),
            **({} if sampled.end is None else _list_costs(sampled.end)),
            **({} if sampled.header.get("counts_steal", True) else {"steal": UNTOLD}),
            **average_samples(inside, span, sampler.own),
        }
        return counters


def _rates(before: Mapping[str, int], after: Mapping[str, int], over: int) -> dict[str, float]:
    """How often per second, over so many ns. A reason that no guest had is left out; the sum of all is not."""
    counted = {name: count - before[name] for name, count in after.items() if name in before}
    return {name: round(count / over * 1e9, 3) for name, count in counted.items() if count or name == TOTAL}


def _list_costs(end: Mapping[str, Any]) -> dict[str, float | int]:
    """What sampling itself took, in CPU seconds per second, and how often it came too late."""
    used = int(end["usage"]["user_ns"]) + int(end["usage"]["system_ns"])
    missed = {"missed": int(end["missed"])} if end["missed"] else {}
    return {"cost": round(used / max(1, int(end["elapsed_ns"])), 5), **missed}


async def _stop_sampler(sampler: _Sampler) -> tuple[bytes, str | None]:
    """What it told, and why that is not all."""
    stdout, problem = b"", None
    try:
        ended = await sampler.running.stop()
        stdout = ended.stdout
        if ended.status != 0:
            how = "was killed" if ended.status == _KILLED else f"ended with status {ended.status}"
            said = f": {ended.complaint[-300:]}" if ended.complaint else ""
            problem = f"the sampler {how} before the trial was over{said}"
    except (NearmetalError, OSError) as error:
        problem = f"the sampler was lost: {error}"
    try:
        return await sampler.fetch(stdout), problem
    except (NearmetalError, OSError) as error:
        return stdout, problem or f"its samples cannot be fetched: {error}"


plugin = UsageObserver
