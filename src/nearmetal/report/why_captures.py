"""Of which sides there are captures, which do not hold all packets of a trial, and what is then not compared. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from nearmetal.analysis.results import Contrast
from nearmetal.analysis.traits_of_packets import is_whole
from nearmetal.model import Assignment
from nearmetal.report import figures, words
from nearmetal.report.anatomy import OBSERVER
from nearmetal.report.reading import ReportInput


def not_whole(contrasts: Sequence[Contrast], report: ReportInput) -> str:
    """Of which sides some captures are not whole; "" where all are."""
    sides = [(one.workload, side) for one in contrasts for side in (one.treatment, one.reference)]
    named = dict.fromkeys(text for workload, side in sides if (text := name_cut(workload, side, report)))
    if not named:
        return ""
    return (
        f"Captures do not hold all packets of {figures.join_listing(named)}. What is counted in packets is not "
        "compared "
        "of those trials, and times are those of the requests that they hold. “Anatomy of a request” says why; with a "
        "larger limit of capture in [observe] they hold more."
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
