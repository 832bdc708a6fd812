"""Measured comparisons beside what somebody else published of the same two, as ratios: a table, and a chart."""

import math
from collections.abc import Callable, Sequence

from nearmetal.analysis.results import Contrast
from nearmetal.report import figures, words
from nearmetal.report.blocks import Chart, Column, Panel, Table, Value
from nearmetal.report.charts.grammar import NARROW, WIDE
from nearmetal.report.report_input import ReportInput
from nearmetal.report.table_parts import make_columns
from nearmetal.studies.published.ratio_chart import FigurePair, draw_pairs

PublishedRatio = Callable[[Contrast], float | None]
"""Published treatment over published reference; None where one of them was not published."""


def make_table(
    name: str, caption: str, contrasts: Sequence[Contrast], ratio: PublishedRatio, report: ReportInput
) -> Table:
    """One row a comparison; what is compared is named where that is more than one response, and how it was asked for
    where not all of them are primary, which the caption then explains."""
    several = len({contrast.response for contrast in contrasts}) > 1
    explores = not all(contrast.primary for contrast in contrasts)
    columns = (
        Column("workload", where="both" if several else "data"),
        *((Column("response"),) if several else ()),
        Column("comparison"),
        Column("kind", where="both" if explores else "data"),
        *make_columns("measured", "published", numeric=True, where="page"),
        *make_columns("measured ratio", "low", "high", "published ratio", numeric=True, where="data"),
        *make_columns("verdict", "published is"),
    )
    rows = tuple(
        (
            words.name_workload(contrast.workload),
            *((report.labels.name_response(contrast.workload, contrast.response),) if several else ()),
            *_make_row(contrast, ratio(contrast), report),
        )
        for contrast in contrasts
    )
    told = f"{caption}; {words.asked_at(report.manifest.study.design.alpha)}" if explores else caption
    return Table(name, told, columns, rows, folded=len(rows) > 12)


def _make_row(contrast: Contrast, published: float | None, report: ReportInput) -> tuple[Value, ...]:
    low, high = contrast.interval or (None, None)
    return (
        report.labels.name_versus(contrast),
        words.name_standing(contrast),
        words.format_estimate(contrast),
        None if published is None else f"{figures.format_ratio(published)} ×",
        contrast.ratio,
        low,
        high,
        published,
        words.badge_verdict(contrast),
        _describe_agreement(contrast, published),
    )


def _describe_agreement(contrast: Contrast, ratio: float | None) -> str:
    """What the interval says of the published ratio, of which no interval is known."""
    if ratio is None:
        return "not published"
    if contrast.interval is None:
        return "cannot be told"
    low, high = contrast.interval
    return "within the interval" if low <= ratio <= high else "higher" if ratio > high else "lower"


def make_charts(
    name: str, title: str, caption: str, contrasts: Sequence[Contrast], ratio: PublishedRatio, report: ReportInput
) -> list[Chart]:
    """Measured and published ratios as charts; none where there is no published ratio to draw."""
    several = len({(contrast.workload, contrast.response) for contrast in contrasts}) > 1
    pairs = [
        FigurePair(
            heading=_make_heading(contrast, report, several=several),
            label=" vs ".join(report.labels.name_sides(contrast)[:2]),
            figure=f"{figures.format_ratio(contrast.ratio, contrast.interval)} ×",
            colour=report.colour(contrast.treatment),
            about=report.labels.name_treatment(contrast.treatment),
            measured=contrast.ratio,
            interval=contrast.interval,
            published=ratio(contrast),
        )
        for contrast in contrasts
        if contrast.ratio is not None and 0 < contrast.ratio < math.inf
    ]
    if not any(pair.published for pair in pairs):
        return []
    description = f"{title}; the table below has the same figures."
    panel = Panel("ratios", draw_pairs(title, pairs, WIDE), draw_pairs(title, pairs, NARROW))
    return [Chart(name, caption, description, (panel,))]


def _make_heading(contrast: Contrast, report: ReportInput, *, several: bool) -> str:
    if not several:
        return report.labels.name_sides(contrast)[2]
    return (
        f"{words.name_workload(contrast.workload)}, {report.labels.name_response(contrast.workload, contrast.response)}"
    )
