"""What CPUs did besides, before and after trials: what the observer `noise` heard in servers, and on their hosts."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nearmetal.analysis.responses import Key, key_of, that_count
from nearmetal.model import Assignment
from nearmetal.report import figures
from nearmetal.report.blocks import LONG, Chart, Panel, Quantity, Table, Value
from nearmetal.report.charts.strips import Strip, describe_strips, draw_strips, has_dots
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import make_columns

OBSERVER = "noise"
HOST = "host"
"""What the counters of a guest call what its host did to it meanwhile."""
_WHEN = ("before", "after")

_LEAD = (
    "For a second before each trial and a second after it, never during it, a program listened on each CPU of a "
    "server. A gap is a time in which it wanted the CPU and did not run."
)


def _render(report: ReportInput) -> Contents | None:
    trials = _group_trials(report)
    heard = [
        (treatment, [server for told in trials[key_of(treatment)] for server in _list_servers(told, when)], when)
        for treatment in report.manifest.plan.treatments
        for when in _WHEN
    ]
    cpus = tuple(row for treatment, told, when in heard for row in _make_cpu_rows(treatment, told, when, report))
    hosts = tuple(row for treatment, told, when in heard for row in _make_host_rows(treatment, told, when, report))
    if not cpus:
        return None
    # Of each CPU of each treatment, every share of the time that was lost.
    strips = [
        Strip(
            f"{report.labels.name_treatment(treatment)}, CPU {cpu}",
            figures.format_quantity(statistics.median(shares), "share"),
            report.colour(treatment),
            shares,
            report.labels.name_treatment(treatment),
            tuple(figures.format_quantity(share, "share") for share in shares) if has_dots(len(shares)) else (),
        )
        for treatment in report.manifest.plan.treatments
        for cpu, shares in _list_shares(trials[key_of(treatment)]).items()
    ]
    shown = describe_strips((len(strip.values) for strip in strips), "a second of listening, later ones higher up")
    description = "; ".join(f"{strip.label}: {strip.figure}" for strip in strips)
    lost = Chart(
        "noise-lost",
        f"How much of its time each CPU was away from a program that wanted it. {shown}",
        f"The share of the time that each CPU of the servers lost, medians: {description}",
        (Panel("noise-lost", draw_strips("Time lost on each CPU", "lower is better", "share", strips)),),
    )
    return _LEAD, (lost, _make_inside(cpus), *([_make_outside(hosts)] if hosts else []))


_Told = Mapping[str, Any]
"""What was heard of one trial."""


def _group_trials(report: ReportInput) -> Mapping[Key, list[_Told]]:
    """What was heard of each trial that counts, by its treatment."""
    found: dict[Key, list[_Told]] = defaultdict(list)
    heard = [record for record in report.records if OBSERVER in record.observers]
    for record in that_count(heard, report.arms) if heard else ():
        found[key_of(record.trial.treatment)].append(record.observers[OBSERVER])
    return found


def _list_servers(told: _Told, when: str) -> Iterable[Mapping[str, Any]]:
    servers: Mapping[str, Mapping[str, Any]] = told.get(when, {})
    return servers.values()


def _list_shares(trials: Iterable[_Told]) -> Mapping[int, tuple[float, ...]]:
    """By CPU, in the order of the trials, before and after each."""
    found: dict[int, list[float]] = {}
    for told in trials:
        for when in _WHEN:
            for server in _list_servers(told, when):
                for place, of_cpu in server.items():
                    if place != HOST:
                        found.setdefault(int(place), []).append(of_cpu["share"])
    return {cpu: tuple(shares) for cpu, shares in sorted(found.items())}


def _make_cpu_rows(
    treatment: Assignment, heard: Sequence[Mapping[str, Any]], when: str, report: ReportInput
) -> Iterator[tuple[Value, ...]]:
    for cpu in sorted({int(place) for server in heard for place in server if place != HOST}):
        told = [server[str(cpu)] for server in heard if str(cpu) in server]
        ticks = [one["ticks"] for one in told if one["ticks"] is not None]
        yield (
            report.labels.name_treatment(treatment),
            when,
            cpu,
            len(told),
            100 * statistics.median(one["share"] for one in told),
            statistics.median(one["gaps"] for one in told),
            Quantity(max(one["longest"] for one in told), "s"),
            statistics.median(ticks) if ticks else None,
        )


def _make_inside(rows: tuple[tuple[Value, ...], ...]) -> Table:
    of_cpus = make_columns("CPU", "trials", "% lost", "gaps", "longest", "timer ticks", numeric=True)
    caption = (
        "Each CPU of the servers: medians over trials of the time lost, of gaps and of the ticks of the CPU's own "
        "timer; the longest gap of all. A CPU that is taken away for long has fewer gaps, and loses more in them"
    )
    return Table("noise-cpus", caption, (*make_columns("treatment", "when"), *of_cpus), rows, folded=len(rows) > LONG)


def _make_host_rows(
    treatment: Assignment, heard: Sequence[Mapping[str, Any]], when: str, report: ReportInput
) -> Iterator[tuple[Value, ...]]:
    told = [server[HOST] for server in heard if HOST in server]
    if told:
        yield (
            report.labels.name_treatment(treatment),
            when,
            len(told),
            100 * statistics.median(one["waited"] / (one["ran"] + one["waited"]) for one in told),
            Quantity(max(one["waited"] for one in told), "s"),
            statistics.median(one["turns"] for one in told),
        )


def _make_outside(rows: tuple[tuple[Value, ...], ...]) -> Table:
    of_hosts = make_columns("trials", "% waiting", "longest in all", "turns", numeric=True)
    caption = (
        "The host at the same time, as its scheduler counts it: how much of the time in which the machine's threads "
        "could have run they waited for a CPU, medians over trials. What a guest lost beyond that it lost to itself"
    )
    return Table("noise-hosts", caption, (*make_columns("treatment", "when"), *of_hosts), rows, folded=len(rows) > LONG)


plugin = BuiltInSection("noise", "CPU noise", 36, _render)
