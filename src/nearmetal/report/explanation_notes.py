"""What goes along with a verdict and is no figure: clocks, whose time CPUs tell, captures that are cut. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nearmetal.analysis.covariates import has_foreign_time, is_told_of_steal, is_whole
from nearmetal.analysis.results import Contrast
from nearmetal.model import Assignment, TrialRecord
from nearmetal.report import figures, words
from nearmetal.report.anatomy import OBSERVER
from nearmetal.report.report_input import ReportInput

_UNTOLD = (
    "How often guests gave their CPU back to the host's kernel (VM exits) is not in the table: the host's kernel did "
    "not tell. It does under KVM, with debugfs at /sys/kernel/debug, while usage is observed."
)

_OBSERVED = {
    "capture": ("packets, and what became of them", "capture = true"),
    "usage": ("interrupts, context switches, the time of the server's CPUs and what was stolen of it", "usage = true"),
}


def describe_clocks(contrast: Contrast, report: ReportInput) -> str:
    """Which clock the server's kernel reads on either side; "" where it is the same, or not known."""
    treatment, reference = _find_source(contrast.treatment, report), _find_source(contrast.reference, report)
    if None in (treatment, reference) or treatment == reference:
        return ""
    sides = report.labels.name_sides(contrast)
    return f"The server's kernel takes its time from {treatment} with {sides[0]}, and from {reference} with {sides[1]}."


def _find_source(treatment: Assignment, report: ReportInput) -> str | None:
    """What the server's kernel took its time from in the first boot of a treatment; None where it did not tell."""
    for machine in report.manifest.fairness:
        if machine.role == "server" and dict(machine.treatment) == dict(treatment):
            source = machine.facts.get("clock", {}).get("source")
            return None if source is None else str(source)
    return None


def foreign_time(sides: Iterable[Assignment], report: ReportInput) -> str:
    """Of which sides the time of CPUs is not the server's alone; "" where there is none."""
    named = _name_sides(sides, has_foreign_time, report)
    if not named:
        return ""
    return (
        f"With {figures.join_listing(named)} the server runs on its host's kernel: the time of its CPUs is that of all "
        "that ran on them, others' programs and interrupts too, and what interrupts and context switches were the "
        "server's alone nobody counts. What it alone cost is the CPU time of the host."
    )


def untold_steal(sides: Iterable[Assignment], report: ReportInput) -> str:
    """Of which sides no row tells what was stolen, and why; "" where there is none."""
    named = _name_sides(sides, lambda record: not is_told_of_steal(record), report)
    if not named:
        return ""
    return (
        f"With {figures.join_listing(named)} the hypervisor does not tell the server's kernel of time that it takes "
        "from it: no emulation does. What was stolen is in no row; the CPU time of the host is what it really got."
    )


def _name_sides(sides: Iterable[Assignment], so: Callable[[TrialRecord], bool], report: ReportInput) -> list[str]:
    """Those sides of whose trials at least one is so."""
    found = {report.labels.name_treatment(one.trial.treatment) for one in report.records if so(one)}
    return [name for name in dict.fromkeys(map(report.labels.name_treatment, sides)) if name in found]


def untold_exits(report: ReportInput) -> str:
    """Why whoever looks for VM exits finds none; "" where there are some, or where nobody listened."""
    hosts = [record.observers["usage"].get("host", {}) for record in report.records if "usage" in record.observers]
    return _UNTOLD if hosts and not any("exits" in host for host in hosts) else ""


def list_unobserved(sides: Sequence[Assignment], report: ReportInput) -> list[str]:
    """What is in no table because the study does not observe it, or not of all sides."""
    missing, partly = [], []
    for observer, (what, key) in _OBSERVED.items():
        lacking = _list_unwatched(observer, sides, report)
        if not any(observer in record.observers for record in report.records):
            missing.append(f"{what} (in [observe]: {key})")
        elif lacking:
            partly.append(f"Not observed with {figures.join_listing(lacking)}, and so compared with nothing: {what}.")
    return [*([f"Not observed, and so in no table: {figures.join_listing(missing)}."] if missing else []), *partly]


def _list_unwatched(observer: str, sides: Sequence[Assignment], report: ReportInput) -> list[str]:
    watched = _name_sides(sides, lambda record: observer in record.observers, report)
    return [name for name in _name_sides(sides, lambda _: True, report) if name not in watched]


def not_whole(contrasts: Sequence[Contrast], report: ReportInput) -> str:
    """Of which sides some captures are not whole; "" where all are."""
    sides = [(one.workload, side) for one in contrasts for side in (one.treatment, one.reference)]
    named = dict.fromkeys(text for workload, side in sides if (text := name_cut(workload, side, report)))
    if not named:
        return ""
    return (
        f"Captures do not hold all packets of {figures.join_listing(named)}. What is counted in packets is not "
        "compared of those trials, and times are those of the requests that they hold. “Anatomy of a request” says "
        "why; with a larger limit of capture in [observe] they hold more."
    )


def is_seen(workload: str, side: Assignment, report: ReportInput) -> bool:
    """Whether packets were taken of any trial of a side."""
    return bool(_list_captured(workload, side, report))


def name_cut(workload: str, side: Assignment, report: ReportInput) -> str:
    """ "web with qemu (8 of 8 trials)"; "" where all captures are whole."""
    captured = _list_captured(workload, side, report)
    count = sum(not is_whole(one) for one in captured)
    named = f"{words.name_workload(workload)} with {report.labels.name_treatment(side)}"
    return f"{named} ({count:,} of {figures.format_count(len(captured), 'trial')})" if count else ""


def _list_captured(workload: str, side: Assignment, report: ReportInput) -> list[Mapping[str, Mapping[str, Any]]]:
    return [one.observers[OBSERVER] for one in report.trials(workload, side) if OBSERVER in one.observers]
