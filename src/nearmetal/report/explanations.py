"""What goes along with verdicts, found once for the chapter and for the terminal, and how it is written. Pure.

The largest differences that were asked for, each with what is most unlike between its sides, are what an operator reads
who reads nothing else.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from nearmetal.analysis.attribution import CovariateContrast, attributed, nil
from nearmetal.analysis.covariates import Covariate
from nearmetal.analysis.responses import pairs_of
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.report import figures, words
from nearmetal.report.blocks import Badge, Value
from nearmetal.report.report_input import ReportInput
from nearmetal.report.table_parts import list_ends

_LARGEST = 3
"""So many verdicts are told at the head."""
_UNLIKE = 2
"""So much of what is most unlike is named of each."""
_EVENTS = "events"
"""The response by which a workload tells that it counts events, not requests."""


@dataclass(frozen=True)
class Explanation:
    contrast: Contrast
    found: Sequence[CovariateContrast]
    nil: Sequence[Covariate]
    """What did not happen on either side."""

    @property
    def observed(self) -> bool:
        """Every trial has what it cost the host; a chapter of its own tells that already."""
        return any(one.covariate.name != "cpu_per_event" for one in self.found)

    @property
    def most_unlike(self) -> str:
        """ "most unlike: 9.5 × the packets for each request (9.2 to 9.8); 3.1 × the interrupts …"."""
        named = [write_clause(one) for one in self.found if one.differs][:_UNLIKE]
        return f"most unlike: {'; '.join(named)}" if named else "no difference shows in what was observed"


def explain_contrast(contrast: Contrast, report: ReportInput) -> Explanation:
    pairs = pairs_of(report.arms, contrast.treatment, contrast.reference, contrast.workload)
    found = [
        one for one in attributed(pairs, report.manifest.study.design.alpha) if one.covariate.name != contrast.response
    ]
    never = nil(pairs)
    if any(_EVENTS in record.responses for record in report.records if record.trial.workload == contrast.workload):
        found = [replace(one, covariate=one.covariate.of_events) for one in found]
        never = [covariate.of_events for covariate in never]
    return Explanation(contrast, found, never)


def is_observed(report: ReportInput) -> bool:
    return any(name in record.observers for record in report.records for name in ("capture", "usage"))


def list_different(report: ReportInput) -> list[Contrast]:
    """What the study asked for and found different, the largest difference first."""
    return sorted(
        (one for one in list_asked(report) if one.verdict is Verdict.DIFFERENT), key=_measure_size, reverse=True
    )


def list_asked(report: ReportInput) -> list[Contrast]:
    """Of primary responses: a headline is of the same trials, and what goes along with it is told of them once."""
    primaries = report.manifest.plan.primaries.items()
    return [one for one in report.analysis.contrasts if one.primary and (one.workload, one.response) in primaries]


def list_largest(explained: Iterable[Explanation]) -> list[Explanation]:
    """The first few that anything was observed of."""
    return list(islice((one for one in explained if one.observed), _LARGEST))


def largest_of(report: ReportInput) -> list[Explanation]:
    """The first few explanations of a run that anything was observed of. Nothing is compared that is not told."""
    if not is_observed(report):
        return []
    return list_largest(explain_contrast(one, report) for one in list_different(report))


def more_different(told: int, report: ReportInput) -> str:
    """ "4 more are different"; "" when these were all."""
    more = len(list_different(report)) - told
    return f"{more} more {'is' if more == 1 else 'are'} different" if more > 0 else ""


def _measure_size(contrast: Contrast) -> float:
    """From 0 to 2, on either scale: the difference as a share of the mean. For ranking alone."""
    if contrast.ratio is not None and math.isinf(contrast.ratio):
        return 2.0
    if contrast.ratio is not None:
        return 2 * abs(contrast.ratio - 1) / (contrast.ratio + 1)
    sides = [(pair.treatment, pair.reference) for pair in contrast.pairs]
    treatment, reference = (statistics.median(side) for side in zip(*sides, strict=True)) if sides else (0.0, 0.0)
    total = abs(treatment) + abs(reference)
    return 2 * abs(treatment - reference) / total if total else 0.0


def show_difference(one: CovariateContrast) -> str:
    """ "2.1 × (1.9 to 2.3)", "+0.4 (+0.2 to +0.5)"."""
    return words.format_size(one.estimate, one.interval, one.scale, one.covariate.unit)


def write_clause(one: CovariateContrast) -> str:
    """ "2.1 × the packets for each request (1.9 to 2.3)", "+0.4 super-segments for each request (+0.2 to +0.5)"."""
    change, bracket, spread = show_difference(one).partition(" (")
    if one.scale == "ratio":
        what = f"the {one.covariate.title}"
    else:
        what = f"in the {one.covariate.title}" if one.covariate.unit else one.covariate.title
    return f"{change} {what}{bracket}{spread}"


def list_values(one: CovariateContrast) -> tuple[Value, ...]:
    """For programs: estimate, low and high end of the interval, scale, unit, blocks."""
    return *list_ends(one.estimate, one.interval), one.scale, one.covariate.unit, one.blocks


def by_chance(level: float) -> str:
    """What intervals that are not corrected for their number do to a table of many."""
    return f"where nothing differs, up to {figures.format_percent(level)} of the figures look as if they did"


def count_by_chance(compared: int, level: float) -> str:
    """How many of so many comparisons look different if none is, each by an interval of its own."""
    return f"by chance alone {compared * level:.2g} would on average, at most"


def badge_difference(one: CovariateContrast) -> Badge:
    if one.interval is None:
        return Badge("too few blocks")
    if one.is_same:
        return Badge(words.SAME)
    return Badge("hardly differs" if one.is_slight else "differs" if one.differs else "undecided")
