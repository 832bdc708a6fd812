"""What a study asked of a link, or of a server's writes, beside what the captures show of it."""

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist

from nearmetal.report import figures, words
from nearmetal.report.anatomy import Seen
from nearmetal.report.blocks import Column, Quantity, Table, Value
from nearmetal.report.reading import ReportInput
from nearmetal.report.settings import settings

_SHARES = (("packets lost", "loss", "lost"), ("packets overtaken", "reorder", "overtaken"))


def injected(found: Sequence[Seen], report: ReportInput) -> Iterator[Table]:
    """A table, if any treatment asked for such a thing: of requests, and of streams."""
    alpha = report.manifest.study.design.alpha
    shares: list[tuple[Value, ...]] = [row for one in found for row in _of_link(one, report, alpha)]
    writes: list[tuple[Value, ...]] = [row for one in found for row in _of_writes(one, report)]
    if not shares and not writes:
        return
    columns: tuple[Column, ...] = (
        Column("workload"),
        Column("treatment"),
        Column("what"),
        Column("asked", numeric=True),
        Column("seen", numeric=True),
    )
    caption = "What was asked, and what both captures show"
    if shares:
        # Of writes there is no interval.
        columns = (*columns, Column("low", numeric=True), Column("high", numeric=True))
        writes = [(*row, None, None) for row in writes]
        caption += (
            f", with Wilson's {figures.percent(1 - alpha)} interval over all packets of both directions. A frame that "
            "is held back overtakes nothing when nothing follows it"
        )
    yield Table("anatomy-injected", caption, columns, (*shares, *writes))


def _of_link(one: Seen, report: ReportInput, alpha: float) -> Iterator[tuple[Value, ...]]:
    link = settings(report.manifest.study, one.treatment).asked.link
    # Means are over those that have it: not all may.
    crossed = one.figures.get("crossed", 0.0) * one.crossing
    for what, name, figure in _SHARES:
        asked = getattr(link, name)
        if asked is None or not crossed or figure not in one.figures:
            continue
        count = one.figures[figure] * one.crossing
        low, high = wilson(count, crossed, alpha)
        shares = (Quantity(share, "share") for share in (asked, count / crossed, low, high))
        yield (words.workload(one.workload), report.labels.treatment(one.treatment), what, *shares)


def _of_writes(one: Seen, report: ReportInput) -> Iterator[tuple[Value, ...]]:
    asked = settings(report.manifest.study, one.treatment).parameter(one.workload, "writes")
    if not isinstance(asked, str) or asked.startswith("1x"):
        return
    count, size = one.figures.get("writes"), one.figures.get("write_size")
    seen = f"{count:.4g}x{size:.0f}" if count is not None and size is not None else "none told apart"
    named = (words.workload(one.workload), report.labels.treatment(one.treatment))
    yield (*named, "writes of a reply, and their bytes", asked, seen)


def wilson(count: float, whole: float, alpha: float) -> tuple[float, float]:
    """The score interval of a share (E. B. Wilson 1927): honest also where the share is 0."""
    z = NormalDist().inv_cdf(1 - alpha / 2)
    share = count / whole
    middle = (share + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z / (1 + z * z / whole) * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole))
    # Of nothing, and of all, the end is exact; computed, it is beside it.
    return max(0.0, middle - half) if count else 0.0, min(1.0, middle + half) if count < whole else 1.0
