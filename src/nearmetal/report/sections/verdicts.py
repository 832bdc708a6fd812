"""What differs, by how much, how surely: the first thing a reader sees."""

import math
from collections.abc import Callable, Container, Iterable, Sequence

from nearmetal.analysis.alike import of_all, wording
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.report import charts, figures, words
from nearmetal.report.blocks import (
    Block,
    Chart,
    Column,
    Notice,
    Panel,
    Quantity,
    Section,
    Statement,
    Statements,
    Table,
    Value,
)
from nearmetal.report.reading import ReportInput

_BEFORE_THE_LAST = (
    "Where a look before the last found a difference, its estimate tends to lie too far from no effect: what looks "
    "large is found first. The estimate corrected for the looks makes up for that on average, and not at each look. "
    "Where its size matters, run a fixed number of blocks."
)

_CLOSE_UP = 1.12
"""A close-up shows ratios up to this, and down to its inverse."""

_SHORT = 34
"""Characters of a comparison's name that have room beside a picture."""

_AT_A_GLANCE = 8
"""Sentences that can stand before the chart without pushing it off the first screen; more stand behind it."""

_IN_SENTENCES = 24
"""More contrasts than this are told by the chart and the table alone."""


class Verdicts:
    name = "verdicts"
    title = "Verdicts"
    order = 10

    def render(self, report: ReportInput) -> Section:
        primary = _by_workload(contrast for contrast in report.analysis.contrasts if contrast.primary)
        blocks: list[Block] = [Notice(words.plain(warning.text), "warning") for warning in words.first(report.analysis)]
        if not primary:
            text = "Nothing was compared: the study has no treatment beside its reference."
            return Section(self.name, self.title, text, tuple(blocks))
        if report.analysis.trials.ok == 0:
            blocks.append(
                Notice("No trial ended well, so nothing can be concluded. See Validity for the reasons.", "warning")
            )
        common = of_all([words.warned(contrast, report.analysis) for contrast in primary])
        said = {one.wording for one in common}
        sentences = Statements(tuple(_statement(contrast, said, report) for contrast in primary))
        of_every = [Notice(f"Of every comparison: {words.plain(one.text)}.", "note") for one in common]
        if any(_is_early(contrast, report) for contrast in primary):
            of_every.append(Notice(_BEFORE_THE_LAST))
        pictures = [chart for chart in (_chart(primary, report),) if chart.panels]
        if len(primary) <= _AT_A_GLANCE:
            blocks += [sentences, *of_every, *pictures]
        else:
            blocks += [*of_every, *pictures, *([sentences] if len(primary) <= _IN_SENTENCES else [])]
        blocks.append(
            contrast_table("verdicts", "Every primary contrast", primary, report, folded=len(primary) > _IN_SENTENCES)
        )
        return Section(self.name, self.title, _lead(primary), tuple(blocks))


def _by_workload(contrasts: Iterable[Contrast]) -> list[Contrast]:
    """Those of one workload together, otherwise in the order of the plan."""
    listed = list(contrasts)
    order = list(dict.fromkeys(contrast.workload for contrast in listed))
    return sorted(listed, key=lambda contrast: order.index(contrast.workload))


def _lead(primary: Sequence[Contrast]) -> str:
    of = {verdict: sum(contrast.verdict is verdict for contrast in primary) for verdict in Verdict}
    said = [
        text
        for verdict, text in (
            (Verdict.DIFFERENT, f"{of[Verdict.DIFFERENT]} different"),
            (Verdict.EQUIVALENT, f"{of[Verdict.EQUIVALENT]} equivalent within the margin"),
            (Verdict.NOT_WORSE, f"{of[Verdict.NOT_WORSE]} not worse by more than the margin"),
            (Verdict.UNDECIDED, f"{of[Verdict.UNDECIDED]} undecided"),
            (Verdict.WITHDRAWN, f"{of[Verdict.WITHDRAWN]} withdrawn"),
        )
        if of[verdict]
    ]
    return f"{figures.count(len(primary), 'comparison')} fixed beforehand: {figures.listing(said)}."


def _statement(contrast: Contrast, said: Container[str], report: ReportInput) -> Statement:
    """A contrast in words, with what it is warned of; of what wording is `said` of all of them is not repeated."""
    warned = words.warned(contrast, report.analysis)
    own = (words.plain(warning.text) for warning in warned if wording(warning.text) not in said)
    detail = [
        words.small_print(contrast),
        *words.looks(contrast),
        *words.failures(contrast, report.labels),
        *words.means(contrast, report.labels),
        *own,
    ]
    return Statement(
        about=words.plain(contrast.workload),
        text=words.sentence(contrast, report.labels),
        badge=words.verdict(contrast),
        detail="; ".join(detail),
    )


def _is_early(contrast: Contrast, report: ReportInput) -> bool:
    """Whether it was found before the run had all its blocks, when it had to look large to be found."""
    looks = report.manifest.plan.looks
    return contrast.verdict is Verdict.DIFFERENT and contrast.look is not None and contrast.look < len(looks)


# ── The chart ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _chart(primary: Sequence[Contrast], report: ReportInput) -> Chart:
    ratios = [contrast for contrast in primary if contrast.ratio is not None]
    margin = report.manifest.study.design.margin
    panels = []
    is_cut = False
    if ratios:
        axis = charts.ratio_axis([end for contrast in ratios for end in _ends(contrast)], margin)
        panels.append(_panel("ratios", "Against the reference", ratios, axis, report))
        is_cut = _leaves(axis, ratios)
        close = [contrast for contrast in ratios if all(1 / _CLOSE_UP < end < _CLOSE_UP for end in _ends(contrast))]
        if close and axis.domain[1] / axis.domain[0] > 3 and len(ratios) <= _IN_SENTENCES:
            near = charts.ratio_axis([end for contrast in close for end in _ends(contrast)], margin)
            panels.append(_panel("close-up", "The same, close to the reference", ratios, near, report))
            is_cut = is_cut or _leaves(near, ratios)
    differences = [contrast for contrast in primary if contrast.difference is not None]
    for unit in dict.fromkeys(contrast.unit for contrast in differences):
        chosen = [contrast for contrast in differences if contrast.unit == unit]
        shown = [end for contrast in chosen for end in (*_ends(contrast), *(contrast.equivalence or ()))]
        axis, divisor = charts.difference_axis(shown, unit)
        title = "Against the reference, as differences"
        panels.append(_panel(f"differences-{len(panels)}", title, chosen, axis, report, divisor))
        is_cut = is_cut or _leaves(axis, chosen, divisor)
    return Chart(
        name="verdicts",
        caption=f"Dashed line: the reference. {_shaded(bool(ratios), differences, figures.percent(margin))} "
        "Bar: the interval. Filled point: different; diamond: equivalent; hollow: undecided"
        f"{' or not worse' if any(one.verdict is Verdict.NOT_WORSE for one in primary) else ''}"
        f"{'; triangle: beyond the picture, a small one: only an end of the interval' if is_cut else ''}.",
        description="; ".join(
            f"{words.plain(c.workload)}: {words.sentence(c, report.labels)}: {c.verdict}"
            for c in primary[:_IN_SENTENCES]
        ),
        panels=tuple(panels),
    )


def _shaded(has_ratios: bool, differences: Sequence[Contrast], margin: str) -> str:
    """What is shaded in the pictures: of ratios one margin, of differences each its own, if its reference is not 0."""
    own = [contrast.equivalence is not None for contrast in differences]
    if has_ratios:
        text = f"Shaded: the margin of {margin} that the study calls equivalent"
        text += f", of a difference {margin} of its reference's median" if any(own) else ""
        return text + ("." if all(own) else "; a difference has none where the median of its reference is 0.")
    if not any(own):
        return f"No margin is shaded: the medians of the references are 0, and {margin} of that means nothing."
    text = f"Shaded: of each row the margin that the study calls equivalent, {margin} of its reference's median"
    return text + ("." if all(own) else "; none where that is 0.")


def ratio_panel(name: str, title: str, contrasts: Sequence[Contrast], report: ReportInput) -> Panel:
    """Contrasts on a ratio scale, on an axis that shows them all."""
    ends = [end for contrast in contrasts for end in _ends(contrast)]
    return _panel(name, title, contrasts, charts.ratio_axis(ends, report.manifest.study.design.margin), report)


def _ends(contrast: Contrast, divisor: float = 1.0) -> tuple[float, ...]:
    """The estimate, and the interval's ends where there is one."""
    estimate = contrast.ratio if contrast.ratio is not None else contrast.difference
    return tuple(end / divisor for end in (estimate or 0.0, *(contrast.interval or ())))


def _leaves(axis: charts.Axis, contrasts: Iterable[Contrast], divisor: float = 1.0) -> bool:
    """Whether an estimate or an end of an interval lies beyond the axis."""
    least, most = axis.domain
    return any(end < least or end > most for contrast in contrasts for end in _ends(contrast, divisor))


def _panel(
    name: str,
    title: str,
    contrasts: Sequence[Contrast],
    axis: charts.Axis,
    report: ReportInput,
    divisor: float = 1.0,
) -> Panel:
    groups = _grouped(contrasts, report, divisor)
    return Panel(
        name,
        charts.forest(title, groups, axis, charts.WIDE),
        charts.forest(title, groups, axis, charts.NARROW),
    )


def _grouped(contrasts: Sequence[Contrast], report: ReportInput, divisor: float) -> list[charts.Group]:
    """By response; and where names would be long, by what treatment and reference share, said once in a heading."""
    groups: list[charts.Group] = []
    for (workload, response), of_response in _by(contrasts, lambda one: (one.workload, one.response)).items():
        heading, better = (
            f"{words.workload(workload)}: {report.labels.response(workload, response)}",
            of_response[0].better,
        )
        names = {id(one): report.labels.versus(one) for one in of_response}
        if max(map(len, names.values())) <= _SHORT:
            arms = tuple(_arm(one, names[id(one)], report, divisor) for one in of_response)
            groups.append(charts.Group(heading, better, arms))
            continue
        groups.append(charts.Group(heading, better, ()))
        for (shared,), members in _by(of_response, lambda one: report.labels.sides(one)[2:]).items():
            arms = tuple(_arm(one, " vs ".join(report.labels.sides(one)[:2]), report, divisor) for one in members)
            groups.append(charts.Group(shared, None, arms))
    return groups


def _by(
    contrasts: Sequence[Contrast], key: Callable[[Contrast], tuple[str, ...]]
) -> dict[tuple[str, ...], list[Contrast]]:
    """In the order in which each key is first met."""
    of: dict[tuple[str, ...], list[Contrast]] = {}
    for contrast in contrasts:
        of.setdefault(key(contrast), []).append(contrast)
    return of


def _arm(contrast: Contrast, label: str, report: ReportInput, divisor: float) -> charts.Arm:
    ends = _ends(contrast, divisor)
    low, high = ends[1:] if len(ends) == 3 else (None, None)
    # All ratios of a study have one margin, which is the axis's.
    margin = None if contrast.scale == "ratio" else contrast.equivalence
    return charts.Arm(
        label=label,
        figure=words.estimate(contrast),
        colour=report.colour(contrast.treatment),
        estimate=ends[0],
        low=low,
        high=high,
        verdict=str(contrast.verdict),
        margin=None if margin is None else (margin[0] / divisor, margin[1] / divisor),
    )


# ── The table ─────────────────────────────────────────────────────────────────────────────────────────────────────


def contrast_table(
    name: str, caption: str, contrasts: Sequence[Contrast], report: ReportInput, folded: bool = False
) -> Table:
    """Contrasts as rows: for people in words, for programs with the plain numbers.

    Of several looks, p of one says less than it seems to: programs get it with the level that it is held against.
    """
    has_failures = any(contrast.failures for contrast in contrasts)
    is_looked_at = bool(report.manifest.plan.looks) and any(contrast.primary for contrast in contrasts)
    columns = (
        Column("workload"),
        Column("response"),
        Column("comparison", where="page"),
        Column("treatment", where="data"),
        Column("reference", where="data"),
        Column("estimate", where="page"),
        Column("margin", numeric=True, where="page"),
        Column("scale", where="data"),
        Column("ratio", numeric=True, where="data"),
        Column("difference", numeric=True, where="data"),
        Column("unit", where="data"),
        Column("low", numeric=True, where="data"),
        Column("high", numeric=True, where="data"),
        Column("margin_low", numeric=True, where="data"),
        Column("margin_high", numeric=True, where="data"),
        Column("level", numeric=True, where="data"),
        Column("p", numeric=True, where="data" if is_looked_at else "both"),
        Column("blocks", numeric=True),
        Column("verdict"),
        Column("reason", where="data"),
        Column("look", numeric=True, where="data"),
        Column("look_level", numeric=True, where="data"),
        Column("naive_low", numeric=True, where="data"),
        Column("naive_high", numeric=True, where="data"),
        *(Column(name, numeric=True, where="data") for name in (_OF_LOOKS if is_looked_at else ())),
        *([Column("failed")] if has_failures else []),
    )
    rows = tuple(_row(contrast, report, has_failures, is_looked_at) for contrast in contrasts)
    return Table(name, caption, columns, rows, folded)


def _row(contrast: Contrast, report: ReportInput, has_failures: bool, is_looked_at: bool) -> tuple[Value, ...]:
    low, high = contrast.interval or (None, None)
    margin_low, margin_high = contrast.equivalence or (None, None)
    naive_low, naive_high = contrast.naive or (None, None)
    return (
        words.workload(contrast.workload),
        report.labels.response(contrast.workload, contrast.response),
        report.labels.versus(contrast),
        report.labels.treatment(contrast.treatment),
        report.labels.treatment(contrast.reference),
        words.estimate(contrast),
        words.margin(contrast),
        contrast.scale,
        _end(contrast.ratio),
        _end(contrast.difference),
        contrast.unit,
        _end(low),
        _end(high),
        margin_low,
        margin_high,
        contrast.level,
        None if contrast.p is None else Quantity(contrast.p, "p"),
        contrast.blocks,
        words.verdict(contrast),
        contrast.reason,
        contrast.look,
        contrast.look_level,
        _end(naive_low),
        _end(naive_high),
        *(_say_looks(contrast) if is_looked_at else ()),
        *([words.failure_counts(contrast)] if has_failures else []),
    )


_OF_LOOKS = ("adjusted", "last_look_blocks", "last_look_estimate", "last_look_low", "last_look_high")


def _say_looks(contrast: Contrast) -> tuple[Value, ...]:
    last = contrast.last_look
    if last is None:
        return (_end(contrast.adjusted), None, None, None, None)
    low, high = last.interval or (None, None)
    return (_end(contrast.adjusted), last.blocks, _end(last.estimate), _end(low), _end(high))


def _end(value: float | None) -> Value:
    """An estimate or an end of an interval, for programs."""
    return figures.UNBOUNDED if value is not None and math.isinf(value) else value


plugin = Verdicts()
