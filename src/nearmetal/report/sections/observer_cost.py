"""The ledger of what watching cost: the CPU time of those who watch, and what changes for those who are watched."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nearmetal.analysis.covariates import answered
from nearmetal.analysis.results import Contrast
from nearmetal.model import CAPTURE_KEYS, OF_THE_BOOT, Assignment, Setting, TrialRecord
from nearmetal.report import figures, words
from nearmetal.report.anatomy import TRACE
from nearmetal.report.blocks import LONG, Block, Column, Notice, Paragraph, Quantity, Table, Value
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import list_arm, make_columns

_LEAD = (
    "The CPU time that tcpdump and the samplers took, of the host or, in a machine, of that machine; and what changes "
    "for a server that is watched."
)
_NO_FACTOR = (
    "What changes for a server that is watched (the kernel copies each packet, for one) is not told by this run: it "
    "takes an observer that is a factor, capture = [false, true]. nearmetal run probe-cost measures it on this host."
)
_DIED = "tcpdump ended"
"""How a problem begins that kept it from watching until the end."""
_ENDED = (
    "Captures ended before the load did, and from then on nobody watched there. What they cost is not told, and what "
    "changes for a server that is watched is told of one that was watched for a part of the trial. "
    "With a larger limit, or with ring = true, a capture goes on until the end."
)


@dataclass(frozen=True)
class _TrialWatcher:
    """One who watched in one trial."""

    observer: str
    place: str
    cpu: float | None
    """Seconds; None where it is not told, as of a tcpdump that has ended by itself."""
    packets: int | None = None
    dropped: int | None = None
    ended: bool = False
    """Before the trial was over."""


def _render(report: ReportInput) -> Contents | None:
    rows = tuple(_make_rows(report))
    # What a boot has was there before anybody watched.
    measured = [one for one in report.analysis.contrasts if one.response not in OF_THE_BOOT]
    compared = [(one, aims) for one in measured if (aims := _of_observers(one, report))]
    if not rows and not compared:
        return None
    blocks: list[Block] = []
    if rows:
        columns = (
            *make_columns("workload", "treatment", "who watched", "where"),
            *make_columns("trials", "CPU time", "each request", "packets", "dropped", numeric=True),
        )
        caption = (
            "Who watched: CPU time of a trial and of each of its requests, medians over trials; packets of all trials"
        )
        blocks += [Table("watching", caption, columns, rows, folded=len(rows) > LONG), *_show_ended(report)]
    if compared:
        blocks.append(_make_compared([one for one, _ in compared], report))
    if all(aim.key in CAPTURE_KEYS for _, aims in compared for aim in aims):
        blocks.append(Paragraph(_NO_FACTOR))
    return _LEAD, blocks


def _make_rows(report: ReportInput) -> Iterator[tuple[Value, ...]]:
    for workload in report.manifest.study.workloads:
        for treatment in report.manifest.plan.treatments:
            watched = _all_watched(workload.name, treatment, report)
            for observer, place in dict.fromkeys((one.observer, one.place) for one, _ in watched):
                those = [(one, record) for one, record in watched if (one.observer, one.place) == (observer, place)]
                known = [(one.cpu, record) for one, record in those if one.cpu is not None]
                each = [cpu / count for cpu, record in known if (count := _count_requests(record))]
                yield (
                    *list_arm(workload.name, treatment, report),
                    words.strip_controls(observer),
                    words.strip_controls(place),
                    len(those),
                    _find_median([cpu for cpu, _ in known]),
                    _find_median(each),
                    _sum_counts([one.packets for one, _ in those]),
                    _sum_counts([one.dropped for one, _ in those]),
                )


def _find_median(seconds: Sequence[float]) -> Quantity | None:
    return Quantity(statistics.median(seconds), "s") if seconds else None


def _all_watched(workload: str, treatment: Assignment, report: ReportInput) -> list[tuple[_TrialWatcher, TrialRecord]]:
    watched = [record for record in report.trials(workload, treatment) if record.observers]
    return [(one, record) for record in watched for one in _list_watched(record)]


def _list_watched(record: TrialRecord) -> Iterator[_TrialWatcher]:
    for place, told in record.observers.get("capture", {}).items():
        if not place.startswith(TRACE):
            # A ring that was full has gone on; what could not be fetched may have been whole.
            is_full = "limit_reached" in told and "held" not in told
            ended = is_full or str(told.get("problem", "")).startswith(_DIED)
            packets, dropped = told.get("captured"), told.get("dropped_by_kernel")
            yield _TrialWatcher("capture", place, told.get("cpu"), packets, dropped, ended)
    for place, told in record.observers.get("usage", {}).items():
        if "cost" in told and told.get("seconds"):
            yield _TrialWatcher("usage", place, told["cost"] * told["seconds"])


def _show_ended(report: ReportInput) -> Iterator[Notice]:
    """Who stopped watching before a trial was over, in how many of them and after what."""
    items = []
    for workload in report.manifest.study.workloads:
        for treatment in report.manifest.plan.treatments:
            watched = _all_watched(workload.name, treatment, report)
            for place in dict.fromkeys(one.place for one, _ in watched if one.ended):
                those = [one for one, _ in watched if one.place == place and one.observer == "capture"]
                named = (
                    f"{words.name_workload(workload.name)}, {report.labels.name_treatment(treatment)}, "
                    f"{words.strip_controls(place)}"
                )
                items.append((named, _describe_after(those)))
    if items:
        yield Notice(_ENDED, "warning", tuple(items))


def _describe_after(captures: Sequence[_TrialWatcher]) -> str:
    """ "in 8 of 8 trials, after 30,840 packets"."""
    ended = [one for one in captures if one.ended]
    counts = sorted(one.packets for one in ended if one.packets is not None)
    text = f"in {len(ended):,} of {figures.format_count(len(captures), 'trial')}"
    if not counts:
        return text
    least, most = counts[0], counts[-1]
    return f"{text}, after {least:,}{'' if least == most else f' to {most:,}'} packets"


def _count_requests(record: TrialRecord) -> float:
    """All that were answered, or, where the record does not tell, those that count."""
    response = record.responses.get("transactions")
    return answered(record) or (0.0 if response is None else response.value)


def _sum_counts(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _of_observers(contrast: Contrast, report: ReportInput) -> list[Setting]:
    """What of [observe] a contrast's sides differ in; none where they differ in anything else."""
    mine, theirs = contrast.treatment, contrast.reference
    differing = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    aims = [_find_aim(name, report) for name in differing if name != "environment"]
    return aims if len(aims) == len(differing) and all(aim.target == "observer" for aim in aims) else []


def _find_aim(factor: str, report: ReportInput) -> Setting:
    """What it sets. That a factor was an observer, of a package that is gone, records tell: what it saw is in them."""
    setting = next(found for one in report.manifest.plan.resolved if (found := one.setting_of(factor)) is not None)
    if setting.target == "treatment" and any(setting.key in record.observers for record in report.records):
        return setting.model_copy(update={"target": "observer"})
    return setting


def _make_compared(compared: Sequence[Contrast], report: ReportInput) -> Table:
    rows = tuple(
        (
            words.name_workload(one.workload),
            report.labels.name_versus(one),
            report.labels.name_response(one.workload, one.response),
            words.name_standing(one),
            words.format_estimate(one),
            one.blocks,
            words.badge_verdict(one),
        )
        for one in compared
    )
    columns = (
        *make_columns("workload", "comparison", "response", "kind", "change"),
        Column("blocks", numeric=True),
        Column("verdict"),
    )
    told = words.asked_at(report.manifest.study.design.alpha)
    caption = f"Changes for a server that is watched, or is watched otherwise; {told}"
    return Table("watching-contrasts", caption, columns, rows, folded=len(rows) > LONG)


plugin = BuiltInSection("watching", "Cost of observers", 38, _render)
