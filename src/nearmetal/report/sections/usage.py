"""What machines and their host used while trials measured: courses side by side, and averages in mpstat's columns."""

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearmetal.analysis.covariates import list_watched
from nearmetal.model import CPU_STATES, Assignment, TrialRecord
from nearmetal.report import figures, words
from nearmetal.report.blocks import LONG, Block, Chart, Column, Notice, Panel, Paragraph, Table, Value
from nearmetal.report.charts.cpu_shares import STATES, Interval, draw_shares
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import list_arm, make_columns, make_quantity

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
    """Means over trials and clients, by those names; empty if no client was sampled, as in runs of earlier versions."""
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


_DRAWN = 12
"""Of more treatments and workloads than this the tables tell alone."""

_KIBIBYTE = 1024

_LEAD = (
    "What the servers, the host that carries them, and the clients did while a trial measured, and only then. In a "
    "container or on the host itself “inside” are the CPUs that the machine may use, with all that runs on them."
)


def _render(report: ReportInput) -> Contents | None:
    used = list_observed(report)
    lost = list_problems(report)
    if not used and not lost:
        return None
    blocks: list[Block] = []
    if lost:
        text = f"{figures.format_count(len(lost), 'sampler')} did not come to the end, for example: {lost[0]}"
        blocks.append(Notice(text, "warning"))
    if used:
        rows = [
            (*list_arm(one.workload, one.treatment, report), where, *_list_states(told, "all"))
            for one in used
            for where, told in (("inside", one.inside), ("its host", one.host), ("clients", one.clients))
            if told
        ]
        caption = "All CPUs, in percent of their time: averages over the measuring and all trials, in mpstat's columns"
        blocks += [
            *_chart_courses(used, report),
            Table("usage-cpu", caption, (*_PLACE, *_STATES), tuple(rows), folded=len(rows) > LONG),
            *(one for one in (_make_disk_table(used, report),) if one.rows),
            _make_machine_table(used, report),
        ]
        blocks += [_each_cpu(used, report), Paragraph(_describe_cost(used))]
    return _LEAD, blocks


def _chart_courses(used: Sequence[UsedResources], report: ReportInput) -> Iterator[Chart]:
    if len(used) > _DRAWN:
        return
    panels = []
    for one in used:
        label, workload = report.labels.name_treatment(one.treatment), words.name_workload(one.workload)
        inside, outside = (read_course(one.typical, place, report) for place in ("server-0", HOST))
        until = max((intervals[-1].end for intervals in (inside, outside) if intervals), default=0.0)
        panels += [
            Panel(f"{one.workload}-{label}-{name}", draw_shares(f"{label}: {title}", workload, intervals, until, label))
            for name, title, intervals in (("inside", "inside", inside), ("host", "its host", outside))
            if intervals
        ]
    if panels:
        caption = (
            "One trial of each treatment, whose server was as busy as that of the middle one. Inside is what the "
            "machine tells of its CPUs; its host, all CPUs of the host at the same time, on one clock. Blank is idle. "
            "What a guest did is, on the host, time of guests under KVM, and of a user's program under emulation."
        )
        description = "Shares of CPU time over the seconds of a trial, inside and on the host; the table has averages."
        yield Chart("usage", caption, description, tuple(panels))


_PLACE = make_columns("workload", "treatment", "where")
_STATES = make_columns(*(f"%{state}" for state in CPU_STATES), numeric=True)


def _list_states(told: Mapping[str, float], cpu: str) -> tuple[Value, ...]:
    return tuple(told.get(f"cpu.{cpu}.{state}", 0.0) for state in CPU_STATES)


def _each_cpu(used: Sequence[UsedResources], report: ReportInput) -> Table:
    columns = (*_PLACE, Column("CPU", numeric=True), *_STATES)
    rows: list[tuple[Value, ...]] = []
    for one in used:
        for where, told in (("inside", one.inside), ("its host", one.host)):
            cpus = sorted({int(name.split(".")[1]) for name in told if name.startswith("cpu.") and ".all." not in name})
            arm = list_arm(one.workload, one.treatment, report)
            rows += [(*arm, where, cpu, *_list_states(told, str(cpu))) for cpu in cpus]
    return Table("usage-each-cpu", "Each CPU by itself", columns, tuple(rows), folded=True)


def _make_disk_table(used: Sequence[UsedResources], report: ReportInput) -> Table:
    of_disks = make_columns("tps", "kB_read/s", "kB_wrtn/s", "% busy", numeric=True)
    rows: list[tuple[Value, ...]] = []
    for one in used:
        for where, told in (("inside", one.inside), ("its host", one.host)):
            for disk in sorted({name.split(".")[1] for name in told if name.startswith("disk.")}):
                tps, read, written, busy = (
                    told.get(f"disk.{disk}.{figure}", 0.0) for figure in ("tps", "read", "written", "busy")
                )
                told_of = (tps, read / _KIBIBYTE, written / _KIBIBYTE, 100 * busy)
                rows.append((*list_arm(one.workload, one.treatment, report), where, disk, *told_of))
    caption = "Disks that did something, in iostat's columns (1 kB is 1,024 bytes); a container has the host's disks"
    return Table("usage-disk", caption, (*_PLACE, Column("device"), *of_disks), tuple(rows), folded=len(rows) > LONG)


def _make_machine_table(used: Sequence[UsedResources], report: ReportInput) -> Table:
    names = ("CPU %", "memory", "limit", "mem %", "net in", "net out", "block in", "block out", "PIDs")
    columns = (Column("workload"), Column("treatment"), *(Column(name, numeric=True) for name in names))
    rows = tuple((*list_arm(one.workload, one.treatment, report), *_make_machine_row(one)) for one in used)
    caption = (
        "Each machine as its host sees it, in the columns of docker stats: CPU in percent of one CPU, memory without "
        "page cache that can be dropped (a guest's own memory counts as its machine's), traffic of the data NIC"
    )
    return Table("usage-machines", caption, columns, rows, folded=len(rows) > LONG)


def _make_machine_row(one: UsedResources) -> Iterator[Value]:
    """Mean over the servers, where there are several; of one that a record leaves out, it was nothing."""
    servers = sorted({name.split(".")[1] for name in one.host if name.startswith("group.")})
    group = {
        figure: sum(one.host.get(f"group.{server}.{figure}", 0.0) for server in servers) / len(servers)
        for figure in ("cpu", "memory", "memory_limit", "read", "written", "processes")
        if any(f"group.{server}.{figure}" in one.host for server in servers)
    }
    limit = group.get("memory_limit")
    yield group.get("cpu")
    yield make_quantity(group.get("memory"), "B")
    yield make_quantity(limit, "B")
    yield 100 * group["memory"] / limit if limit and "memory" in group else None
    yield make_quantity(one.inside.get("nic.data.received"), "B/s")
    yield make_quantity(one.inside.get("nic.data.sent"), "B/s")
    yield make_quantity(group.get("read"), "B/s")
    yield make_quantity(group.get("written"), "B/s")
    yield group.get("processes")


def _describe_cost(used: Sequence[UsedResources]) -> str:
    inside, host = (
        max(told.get("cost", 0.0) for told in told_of)
        for told_of in zip(*((one.inside, one.host) for one in used), strict=True)
    )
    return (
        f"Sampling itself took at most {figures.format_quantity(host, 'share')} of a CPU on the host and "
        f"{figures.format_quantity(inside, 'share')} of a CPU in a server; it is contained in the figures above."
    )


plugin = BuiltInSection("usage", "Resource usage", 35, _render)
