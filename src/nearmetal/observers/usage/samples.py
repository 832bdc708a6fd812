"""What `nearmetal-probe sample` told, and its averages over a stretch of time. Pure."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearmetal.model import CPU_STATES

Numbers = dict[str, float]


@dataclass(frozen=True)
class SamplerLines:
    """The lines of one sampler that can be read: it may have been killed in the middle of one."""

    header: Mapping[str, Any] | None = None
    samples: tuple[Mapping[str, Any], ...] = ()
    end: Mapping[str, Any] | None = None
    """None when it was killed, or never came to its end."""


@dataclass(frozen=True)
class Span:
    """A stretch of a sampler's CLOCK_MONOTONIC, in ns."""

    begin: int
    end: int

    def shared_with(self, sample: Mapping[str, Any]) -> float:
        """Seconds of a sample's interval that lie in it."""
        end = int(sample["monotonic_ns"])
        begin = end - int(sample["elapsed_ns"])
        return max(0, min(end, self.end) - max(begin, self.begin)) / 1e9


@dataclass(frozen=True)
class Own:
    """What of a sample is a machine's own, where it has no kernel of its own: the rest is its host's."""

    cpus: Sequence[int] | None = None
    """By its own numbers; None for all that the kernel has."""
    kernel: bool = True
    """Whether memory, disks, pressure and the like are its own too."""


def parse_samples(content: bytes) -> SamplerLines:
    """Whatever can be read of JSON lines: a header, samples, an end."""
    by_schema: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in content.splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict):
            by_schema[str(document.get("schema"))].append(document)
    header, end = by_schema["sample.header.v1"], by_schema["sample.end.v1"]
    return SamplerLines(header[0] if header else None, tuple(by_schema["sample.v1"]), end[0] if end else None)


def average_samples(samples: Iterable[Mapping[str, Any]], span: Span, own: Own) -> dict[str, float | int]:
    """Of each figure the average over the span; docs/observers.md lists them with their units.

    A sample counts by how much of its interval lies in the span. What did not happen at all is left out: states of a
    CPU with 0 %, disks and NICs that were idle.
    """
    seconds = 0.0
    rates: Numbers = defaultdict(float)
    gauges: dict[str, tuple[float, float]] = {}
    for sample in samples:
        weight = span.shared_with(sample)
        if not weight:
            continue
        seconds += weight
        for name, value in _list_rates(sample, own):
            rates[name] += weight * value
        for name, value in _list_gauges(sample, own):
            total, over = gauges.get(name, (0.0, 0.0))
            gauges[name] = (total + weight * value, over + weight)
    if not seconds:
        return {}
    told: dict[str, float | int] = {name: round_figure(name, total / seconds) for name, total in rates.items() if total}
    return told | {name: round(total / over) for name, (total, over) in gauges.items() if total}


def round_figure(name: str, value: float) -> float | int:
    """As many digits as the kernel's counting deserves, so that ten thousand records stay readable in a second."""
    match name.split(".")[0]:
        case "cpu":
            return round(value, 2)
        case "pressure":
            return round(value, 5)
        case _:
            return round(value, 2) if value < 100 else round(value)


def _list_rates(sample: Mapping[str, Any], own: Own) -> Iterator[tuple[str, float]]:
    """What happened per second, or as a share or percentage of the time."""
    seconds = max(1, int(sample["elapsed_ns"])) / 1e9
    yield from _average_cpus(sample["cpus"], own.cpus)
    for name, nic in sample["interfaces"].items():
        for way in ("received", "sent"):
            yield f"nic.{name}.{way}", nic[way]["bytes"] / seconds
            yield f"nic.{name}.{way}_packets", nic[way]["packets"] / seconds
            yield f"nic.{name}.{way}_dropped", nic[way]["dropped"] / seconds
    for name, group in sample["cgroups"].items():
        yield from _group_rates(name, group, seconds)
    if own.kernel:
        yield from _kernel_rates(sample, seconds)


def _average_cpus(cpus: Mapping[str, Mapping[str, float]], own: Sequence[int] | None) -> Iterator[tuple[str, float]]:
    """Of each CPU, and of all: of those that are the machine's own, where that is not all."""
    shown = {name: cpus[name] for name in (cpus if own is None else map(str, own)) if name in cpus}
    whole = shown.pop("all", None)
    for name, states in shown.items():
        yield from ((f"cpu.{name}.{state}", states[state]) for state in CPU_STATES)
    for state in CPU_STATES:
        if whole is not None:
            yield f"cpu.all.{state}", whole[state]
        elif shown:
            yield f"cpu.all.{state}", sum(states[state] for states in shown.values()) / len(shown)


def _kernel_rates(sample: Mapping[str, Any], seconds: float) -> Iterator[tuple[str, float]]:
    for name, disk in sample["disks"].items():
        yield f"disk.{name}.tps", disk["tps"]
        yield f"disk.{name}.read", disk["read_bytes"] / seconds
        yield f"disk.{name}.written", disk["written_bytes"] / seconds
        yield f"disk.{name}.busy", disk["busy"]
    for resource, stalled in sample["pressure"].items():
        yield from ((f"pressure.{resource}.{who}", share) for who, share in stalled.items() if share is not None)
    yield "context_switches", sample["context_switches"] / seconds
    yield "interrupts", sum(one["total"] for one in sample["interrupts"].values()) / seconds


def _group_rates(name: str, group: Mapping[str, float], seconds: float) -> Iterator[tuple[str, float]]:
    if "cpu_percent" in group:
        yield f"group.{name}.cpu", group["cpu_percent"]
    for key, figure in (("read_bytes", "read"), ("written_bytes", "written"), ("throttled_ns", "throttled")):
        if key in group:
            size = 1e9 if figure == "throttled" else 1
            yield f"group.{name}.{figure}", group[key] / size / seconds


def _list_gauges(sample: Mapping[str, Any], own: Own) -> Iterator[tuple[str, float]]:
    """What was so at the end of the interval."""
    if own.kernel:
        memory = {name: sample["memory"].get(name) for name in ("total", "used", "cached", "swap_used")}
        yield from ((f"memory.{name}", value) for name, value in memory.items() if value is not None)
    for name, group in sample["cgroups"].items():
        for key in ("memory_bytes", "memory_limit_bytes", "processes"):
            if key in group:
                yield f"group.{name}.{key.removesuffix('_bytes')}", group[key]
