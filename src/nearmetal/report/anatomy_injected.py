"""What a study asked of a link, or of a server's writes, beside what the captures show of it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from nearmetal.report import figures
from nearmetal.report.anatomy import CapturedTreatment
from nearmetal.report.blocks import Badge, Column, Paragraph, Quantity, Table, Value
from nearmetal.report.reading import ReportInput
from nearmetal.report.table_parts import list_arm, make_columns

_OVERTAKEN = "packets overtaken"
_SHARES = (("packets lost", "loss", "lost"), (_OVERTAKEN, "reorder", "overtaken"))
_CONFIRMED = Badge("yes", "same")
_FEWER, _MORE = Badge("fewer", "unknown"), Badge("more", "unknown")
_ANOTHER_SIZE = Badge("of another size", "unknown")
_TOLERANCE = 0.02
"""By such a share of the writes that were asked for may the mean be others."""


@dataclass(frozen=True)
class _Held:
    """What was asked of one treatment, held against what was seen. An interval there is of shares alone."""

    arm: tuple[str, str]
    """Names of the workload and of the treatment."""
    what: str
    asked: Value
    seen: Value
    confirmed: Badge
    interval: tuple[Value, ...] = ()


def show_injected(found: Sequence[CapturedTreatment], report: ReportInput) -> Iterator[Table | Paragraph]:
    """A table, if any treatment asked for such a thing: of requests, and of streams."""
    alpha = report.manifest.study.design.alpha
    shares = [held for one in found for held in _of_link(one, report, alpha)]
    writes = [held for one in found for held in _of_writes(one, report)]
    if not shares and not writes:
        return
    bounds = ("low", "high") if shares else ()
    caption = "What was asked, and what both captures show"
    if shares:
        caption += f", with Wilson's {figures.format_percent(1 - alpha)} interval over all packets of both directions"
    columns = (
        *make_columns("workload", "treatment", "what"),
        *(Column(title, numeric=True) for title in ("asked", "seen", *bounds)),
        Column("confirmed"),
    )
    rows = tuple(
        (*held.arm, held.what, held.asked, held.seen, *(held.interval or (None,) * len(bounds)), held.confirmed)
        for held in (*shares, *writes)
    )
    yield Table("anatomy-injected", caption, columns, rows)
    fewer = [held.arm[1] for held in shares if held.what == _OVERTAKEN and held.confirmed is _FEWER]
    if fewer:
        yield Paragraph(
            f"Of the packets of {figures.join_listing(dict.fromkeys(fewer))} fewer overtook each other than was asked "
            "for. Some always do: a frame that is held back while none follows it, or together with those that follow, "
            "is overtaken by none."
        )


def _of_link(one: CapturedTreatment, report: ReportInput, alpha: float) -> Iterator[_Held]:
    link = report.asked(one.treatment).link
    # Means are over those that have it: not all may.
    crossed = one.figures.get("crossed", 0.0) * one.crossing
    for what, name, figure in _SHARES:
        asked = getattr(link, name)
        if asked is None or not crossed or figure not in one.figures:
            continue
        count = one.figures[figure] * one.crossing
        low, high = wilson_interval(count, crossed, alpha)
        confirmed = _CONFIRMED if low <= asked <= high else _MORE if asked < low else _FEWER
        share, seen, *interval = (Quantity(share, "share") for share in (asked, count / crossed, low, high))
        yield _Held(list_arm(one.workload, one.treatment, report), what, share, seen, confirmed, tuple(interval))


def _of_writes(one: CapturedTreatment, report: ReportInput) -> Iterator[_Held]:
    asked = report.parameter(one.treatment, one.workload, "writes")
    if not isinstance(asked, str) or asked.startswith("1x"):
        return
    count, size = one.figures.get("writes"), one.figures.get("write_size")
    if count is None or size is None:
        seen, confirmed = "none told apart", Badge("not seen", "unknown")
    else:
        seen = f"{count:.4g}x{size:.0f}"
        asked_count, _, asked_size = asked.partition("x")
        confirmed = _of_replies(count, int(asked_count)) if round(size) == int(asked_size) else _ANOTHER_SIZE
    yield _Held(
        list_arm(one.workload, one.treatment, report), "writes of a reply, and their bytes", asked, seen, confirmed
    )


def _of_replies(count: float, asked: int) -> Badge:
    """Of the mean of many: where a segment is sent again, its writes are not told apart."""
    if abs(count - asked) <= _TOLERANCE * asked:
        return _CONFIRMED
    return _MORE if count > asked else _FEWER


def wilson_interval(count: float, whole: float, alpha: float) -> tuple[float, float]:
    """The score interval of a share (E. B. Wilson 1927): honest also where the share is 0."""
    z = NormalDist().inv_cdf(1 - alpha / 2)
    share = count / whole
    middle = (share + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z / (1 + z * z / whole) * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole))
    # Of nothing, and of all, the end is exact; computed, it is beside it.
    return max(0.0, middle - half) if count else 0.0, min(1.0, middle + half) if count < whole else 1.0
