"""What the observer `usage` left of a run: averages from the records, courses of few trials from their samples."""

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearmetal.analysis.traits import list_watched
from nearmetal.model import Assignment, TrialRecord
from nearmetal.report.charts.cpu_shares import STATES, Interval
from nearmetal.report.report_input import ReportInput

OBSERVER = "usage"
HOST = "host"
SERVER = "server-"
CLIENT = "client-"
"""What a place is called: the host that carries the servers, and each of these and of the clients by its number."""

_MOST_INTERVALS = 90
"""More than this in one picture are joined: they are narrower than can be seen."""

_NOT_AVERAGES = frozenset({"interval", "began_ns", "missed", "samples"})


@dataclass(frozen=True)
class UsedResources:
    """What one treatment used while one workload measured."""

    workload: str
    treatment: Assignment
    inside: Mapping[str, float]
    """Means over trials, and servers where there are several; by the names that docs/observers.md lists."""
    host: Mapping[str, float]
    clients: Mapping[str, float]
    """Likewise of the clients; empty if none was sampled, as in runs of earlier versions."""
    typical: TrialRecord
    """The trial whose server was as busy as the middle one."""


def list_observed(report: ReportInput) -> list[UsedResources]:
    """By workload, then treatment; only those that were observed."""
    found = []
    for workload in report.manifest.study.workloads:
        for treatment in report.manifest.plan.treatments:
            trials = report.trials(workload.name, treatment)
            observed = [record for record in trials if list_watched(record, SERVER)]
            if observed:
                inside, host, clients = (_average_places(observed, prefix) for prefix in (SERVER, HOST, CLIENT))
                typical = sorted(observed, key=_measure_busy)[(len(observed) - 1) // 2]
                found.append(UsedResources(workload.name, treatment, inside, host, clients, typical))
    return found


def list_problems(report: ReportInput) -> list[str]:
    """What went wrong with samplers, one sentence for each, over all trials."""
    return [
        str(place["problem"])
        for record in report.records
        for place in record.observers.get(OBSERVER, {}).values()
        if "problem" in place
    ]


def _average_places(records: Iterable[TrialRecord], prefix: str) -> dict[str, float]:
    """What a record leaves out was nothing, and counts as such."""
    sums: dict[str, float] = defaultdict(float)
    count = 0
    for place in (place for record in records for place in list_watched(record, prefix)):
        count += 1
        for name, value in place.items():
            if value.__class__ is not str:  # a problem; ten thousand trials have a million figures
                sums[name] += value
    return {name: value / count for name, value in sums.items() if name not in _NOT_AVERAGES}


def _measure_busy(record: TrialRecord) -> float:
    """Percent of the servers' CPUs that did not idle."""
    return 100 - statistics.fmean(place.get("cpu.all.idle", 0.0) for place in list_watched(record, SERVER))


def read_course(record: TrialRecord, place: str, report: ReportInput) -> list[Interval]:
    """The shares of a place's CPUs over the measuring; nothing where its samples cannot be read any more."""
    counters = record.observers[OBSERVER].get(place, {})
    samples = _read_samples(record, place, report)
    if "began_ns" not in counters or not samples:
        return []
    cpus = sorted({name.split(".")[1] for name in counters if name.startswith("cpu.")} - {"all"})
    intervals = [_make_interval(sample, int(counters["began_ns"]), cpus) for sample in samples]
    whole = float(counters["seconds"])
    inside = [one for one in intervals if one.end > 0 and one.begin < whole]
    return _join_intervals([Interval(max(0.0, one.begin), min(whole, one.end), one.shares) for one in inside])


def _read_samples(record: TrialRecord, place: str, report: ReportInput) -> list[Mapping[str, Any]]:
    content = next(report.artifacts(record, f"usage-{place}.jsonl"), None)
    try:
        lines = [json.loads(line) for line in (content or b"").splitlines()]
    except ValueError:
        return []
    return [line for line in lines if isinstance(line, dict) and line.get("schema") == "sample.v1"]


def _make_interval(sample: Mapping[str, Any], began: int, cpus: Sequence[str]) -> Interval:
    end = (int(sample["monotonic_ns"]) - began) / 1e9
    states = [sample["cpus"][cpu] for cpu in cpus if cpu in sample["cpus"]] or [sample["cpus"]["all"]]
    summed = {
        state: statistics.fmean(sum(one[part] for part in parts) for one in states) for state, parts in STATES.items()
    }
    return Interval(end - int(sample["elapsed_ns"]) / 1e9, end, summed)


def _join_intervals(intervals: Sequence[Interval]) -> list[Interval]:
    """Neighbours as one, where there are more than can be seen."""
    together = -(-len(intervals) // _MOST_INTERVALS) if intervals else 1
    groups = [intervals[start : start + together] for start in range(0, len(intervals), together)]
    return [
        Interval(
            group[0].begin,
            group[-1].end,
            {state: statistics.fmean(one.shares[state] for one in group) for state in STATES},
        )
        for group in groups
    ]
