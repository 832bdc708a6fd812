"""The answer: what differs, by how much, how surely. The first thing a reader sees."""

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.analysis.warning_groups import find_common_warnings, find_wording, group_warnings
from nearmetal.report import figures, words
from nearmetal.report.answer import Answer, answer_contrasts, find_shared_reason
from nearmetal.report.blocks import Block, Chart, Column, Notice, Panel, Statement, Statements, Table, Value
from nearmetal.report.charts.axes import TOO_FAR, Axis, difference_axis, ratio_axis
from nearmetal.report.charts.forest import ForestRow, Group, draw_forest
from nearmetal.report.charts.grammar import NARROW, WIDE
from nearmetal.report.charts.tooltips import join_tip, name_block
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import COMPARED, list_compared, list_ends, make_columns, make_end, make_quantity

_BEFORE_THE_LAST = (
    "Where a look before the last found a difference, its estimate tends to lie too far from no effect: what looks "
    "large is found first. The estimate corrected for the looks makes up for that on average, and not at each look. "
    "Where its size matters, run a fixed number of blocks."
)

_CLOSE_UP = 1.12
"""A close-up shows ratios up to this, and down to its inverse."""

_SHORT = 34
"""Characters of a comparison's name that have room beside a picture."""

_BEFORE = frozenset(words.FIRST) - {"emulated", "nested"}
"""Codes of warnings that come before the answer, since they say what was not measured; others stand below it."""

_ONE_BY_ONE = 60
"""With more blocks than this a row's dots would be a band."""

_DOTS = 2_000
"""More of them than this nobody tells apart in one picture."""

_AT_A_GLANCE = 8
"""Comparisons that can be said before the chart without pushing it off the first screen; more are said behind it."""

_IN_SENTENCES = 24
"""More contrasts than this are told by the chart and the table alone."""


def tell_verdicts(report: ReportInput) -> Contents:
    primary = _by_workload(contrast for contrast in report.analysis.contrasts if contrast.primary)
    of_run = words.list_first(report.analysis)
    blocks: list[Block] = [Notice(words.strip_controls(one.text), "warning") for one in of_run if one.code in _BEFORE]
    if not primary:
        text = "Nothing was compared: the study has no treatment beside its reference."
        return text, blocks
    if report.analysis.trials.ok == 0:
        blocks.append(
            Notice("No trial ended well, so nothing can be concluded. See Validity for the reasons.", "warning")
        )
    common = find_common_warnings([words.list_warned(contrast, report.analysis) for contrast in primary])
    said = {one.wording for one in common}
    shared = find_shared_reason(primary) if len(primary) > _AT_A_GLANCE else ""
    answers = answer_contrasts(primary, report.manifest.plan, report.labels, shared)
    sentences = Statements(tuple(_make_statement(one, said, report) for one in answers))
    of_every = [
        *_list_notices(report),
        *([Notice(f"Of every comparison: {shared}.")] if shared else []),
        *(Notice(f"Of every comparison: {words.strip_controls(one.text)}.") for one in common),
    ]
    if any(_is_early(contrast, report) for contrast in primary):
        of_every.append(Notice(_BEFORE_THE_LAST))
    pictures = [chart for chart in (_make_chart(primary, report),) if chart.panels]
    if len(primary) <= _AT_A_GLANCE:
        blocks += [sentences, *of_every, *pictures]
    else:
        blocks += [*of_every, *pictures, *([sentences] if len(primary) <= _IN_SENTENCES else [])]
    blocks.append(contrast_table("verdicts", "Every primary contrast in figures", primary, report, folded=True))
    return _write_lead(primary), blocks


def _list_notices(report: ReportInput) -> list[Notice]:
    """What all the figures are those of: one box, however much it is."""
    told = [
        (one.code, words.strip_controls(one.text))
        for one in words.list_first(report.analysis)
        if one.code not in _BEFORE
    ]
    if len(told) < 2:
        return [Notice(text, "warning") for _, text in told]
    items = tuple((words.strip_controls(code).replace("-", " ").capitalize(), text) for code, text in told)
    return [Notice("Read the figures with this in mind.", "warning", items)]


def _by_workload(contrasts: Iterable[Contrast]) -> list[Contrast]:
    """Those of one workload together, otherwise in the order of the plan."""
    listed = list(contrasts)
    order = list(dict.fromkeys(contrast.workload for contrast in listed))
    return sorted(listed, key=lambda contrast: order.index(contrast.workload))


_IN_LEAD = {
    Verdict.DIFFERENT: "different",
    Verdict.EQUIVALENT: "equivalent within the margin",
    Verdict.NOT_WORSE: "not worse by more than the margin",
    Verdict.UNDECIDED: "undecided",
    Verdict.WITHDRAWN: "withdrawn",
}


def _write_lead(primary: Sequence[Contrast]) -> str:
    """How many there are of each verdict, if they are more than one reads; and what the figures are."""
    of = Counter(contrast.verdict for contrast in primary)
    said = [f"{of[verdict]} {text}" for verdict, text in _IN_LEAD.items() if of[verdict]]
    counted = f"{figures.format_count(len(primary), 'comparison')} fixed beforehand: {figures.join_listing(said)}. "
    how = _describe_medians(primary)
    levels = sorted({figures.format_percent(1 - one.level) for one in primary if one.interval is not None})
    if levels:
        level = " to ".join(dict.fromkeys((levels[0], levels[-1])))
        how += f"; in brackets, the {level} interval of ratios within blocks"
    return f"{counted if len(primary) > _AT_A_GLANCE else ''}{how}."


def _describe_medians(primary: Sequence[Contrast]) -> str:
    """ "Values are medians over 8 to 9 blocks; 1 comparison has none": over how many blocks."""
    blocks = [contrast.blocks for contrast in primary if contrast.blocks]
    if not blocks:
        return "No comparison has a block with values of both sides"
    least, most = min(blocks), max(blocks)
    span = figures.format_count(most, "block")
    text = f"Values are medians over {span if least == most else f'{least:,} to {span}'}"
    without = len(primary) - len(blocks)
    return f"{text}; {figures.format_count(without, 'comparison has', 'comparisons have')} none" if without else text


def _make_statement(one: Answer, said: Container[str], report: ReportInput) -> Statement:
    """A treatment in sentences; a warning whose wording is `said` of all of them is not repeated."""
    (text, badge), *also = ((words.strip_controls(each.text), words.badge_verdict(each.contrast)) for each in one)
    return Statement("", text, badge, "; ".join(_list_details(one, said, report)), tuple(also))


def _list_details(one: Answer, said: Container[str], report: ReportInput) -> Iterable[str]:
    contrasts = [each.contrast for each in one]
    for contrast in contrasts:
        yield from words.list_failures(contrast, report.labels)
    warned = (
        (place, warning)
        for place, contrast in enumerate(contrasts)
        for warning in words.list_warned(contrast, report.analysis)
        if find_wording(warning.text) not in said
    )
    for group in group_warnings(warned):
        about = dict.fromkeys(_name_contrast(contrasts[place], contrasts, report) for place in group.about)
        of_some = f"{figures.join_listing(about)}: " if len(set(group.about)) < len(contrasts) else ""
        yield f"{of_some}{words.strip_controls(group.text)}"


def _name_contrast(contrast: Contrast, others: Sequence[Contrast], report: ReportInput) -> str:
    """ "throughput", or where others are about another workload "throughput of web"."""
    response = report.labels.name_response(contrast.workload, contrast.response)
    is_alone = len({one.workload for one in others}) == 1
    return response if is_alone else f"{response} of {words.name_workload(contrast.workload)}"


def _is_early(contrast: Contrast, report: ReportInput) -> bool:
    """Whether it was found before the run had all its blocks, when it had to look large to be found."""
    looks = report.manifest.plan.looks
    return contrast.verdict is Verdict.DIFFERENT and contrast.look is not None and contrast.look < len(looks)


def _make_chart(primary: Sequence[Contrast], report: ReportInput) -> Chart:
    ratios = [contrast for contrast in primary if contrast.ratio is not None]
    margin = report.manifest.study.design.margin
    panels = []
    is_cut = False
    sizes = [len(contrast.pairs) for contrast in primary]
    has_dots = 0 < max(sizes) <= _ONE_BY_ONE and sum(sizes) <= _DOTS
    if ratios:
        axis = ratio_axis([*_all_ends(ratios), *_blocks_near(ratios)], margin)
        panels.append(_make_panel("ratios", "Against the reference", ratios, axis, report, has_dots=has_dots))
        is_cut = _has_beyond(axis, ratios)
        close = [
            contrast for contrast in ratios if all(1 / _CLOSE_UP < end < _CLOSE_UP for end in _list_ends(contrast))
        ]
        if close and axis.domain[1] / axis.domain[0] > 3 and len(ratios) <= _IN_SENTENCES:
            near = ratio_axis([*_all_ends(close), *_blocks_near(close)], margin)
            title = f"Only what lies within {figures.format_percent(_CLOSE_UP - 1)} of the reference"
            panels.append(_make_panel("close-up", title, close, near, report, has_dots=has_dots))
    differences = [contrast for contrast in primary if contrast.difference is not None]
    for unit in dict.fromkeys(contrast.unit for contrast in differences):
        chosen = [contrast for contrast in differences if contrast.unit == unit]
        shown = [*_all_ends(chosen), *(end for one in chosen for end in one.equivalence or ())]
        axis, divisor = difference_axis(shown, unit)
        title = "Against the reference, as differences"
        panels.append(_make_panel(f"differences-{len(panels)}", title, chosen, axis, report, divisor, has_dots))
        is_cut = is_cut or _has_beyond(axis, chosen, divisor)
    return Chart(
        name="verdicts",
        caption=(
            "Dashed line: the reference. "
            f"{_describe_shaded(bool(ratios), differences, figures.format_percent(margin))} "
            f"{describe_marks(primary, has_dots=has_dots, is_cut=is_cut)}"
        ),
        description="; ".join(
            f"{words.strip_controls(c.workload)}: {words.write_sentence(c, report.labels)}: {c.verdict}"
            for c in primary[:_IN_SENTENCES]
        ),
        panels=tuple(panels),
    )


_MARKS: Mapping[str, Sequence[Verdict]] = {
    "filled point": (Verdict.DIFFERENT,),
    "diamond": (Verdict.EQUIVALENT,),
    "hollow": (Verdict.UNDECIDED, Verdict.NOT_WORSE, Verdict.WITHDRAWN),
}


def describe_marks(contrasts: Sequence[Contrast], *, has_dots: bool = False, is_cut: bool = False) -> str:
    """What the marks of a forest mean, of those that these contrasts have: "Bar: the interval. Hollow: undecided."."""
    drawn = {contrast.verdict for contrast in contrasts}
    points = [
        f"{mark}: {' or '.join(str(one).replace('-', ' ') for one in meant if one in drawn)}"
        for mark, meant in _MARKS.items()
        if drawn & set(meant)
    ]
    if is_cut:
        points.append("triangle: beyond the picture, a small one: only an end of the interval")
    told = "; ".join(points)
    sentences = (
        "Bar: the interval." if any(contrast.interval is not None for contrast in contrasts) else "",
        "Small dots: the blocks, later ones higher up." if has_dots else "",
        f"{told[:1].upper()}{told[1:]}." if told else "",
    )
    return " ".join(filter(None, sentences))


def _describe_shaded(has_ratios: bool, differences: Sequence[Contrast], margin: str) -> str:
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
    axis = ratio_axis(_all_ends(contrasts), report.manifest.study.design.margin)
    return _make_panel(name, title, contrasts, axis, report)


def _list_ends(contrast: Contrast, divisor: float = 1.0) -> tuple[float, ...]:
    """The estimate, and the interval's ends where there is one."""
    estimate = contrast.ratio if contrast.ratio is not None else contrast.difference
    return tuple(end / divisor for end in (estimate or 0.0, *(contrast.interval or ())))


def _all_ends(contrasts: Iterable[Contrast]) -> list[float]:
    return [end for contrast in contrasts for end in _list_ends(contrast)]


def _blocks_near(ratios: Sequence[Contrast]) -> list[float]:
    """Ratios of blocks, as far as they lie no farther out than all intervals are wide: one wild block narrows none."""
    ends = [end for end in _all_ends(ratios) if 0 < end < math.inf] or [1.0]
    room = max(ends) / min(ends)
    least, most = min(ends) / room, max(ends) * room
    return [min(max(value, least), most) for contrast in ratios for value in _of_blocks(contrast).values()]


def _of_blocks(contrast: Contrast) -> dict[int, float]:
    """What each block says by itself: a ratio, or a difference; of bounds and of what has no ratio nothing."""
    pairs = [pair for pair in contrast.pairs if not (pair.treatment_censored or pair.reference_censored)]
    if contrast.scale == "ratio":
        found = {p.block: p.treatment / p.reference for p in pairs if p.treatment > 0 and p.reference > 0}
    else:
        found = {pair.block: pair.treatment - pair.reference for pair in pairs}
    return {
        block: value for block, value in found.items() if abs(value) < TOO_FAR and (value or contrast.scale != "ratio")
    }


def _has_beyond(axis: Axis, contrasts: Iterable[Contrast], divisor: float = 1.0) -> bool:
    """Whether an estimate or an end of an interval lies beyond the axis."""
    least, most = axis.domain
    return any(end < least or end > most for contrast in contrasts for end in _list_ends(contrast, divisor))


def _make_panel(
    name: str,
    title: str,
    contrasts: Sequence[Contrast],
    axis: Axis,
    report: ReportInput,
    divisor: float = 1.0,
    has_dots: bool = False,
) -> Panel:
    groups = _group_contrasts(contrasts, report, divisor, has_dots)
    return Panel(name, *(draw_forest(title, groups, axis, width) for width in (WIDE, NARROW)))


def _group_contrasts(contrasts: Sequence[Contrast], report: ReportInput, divisor: float, has_dots: bool) -> list[Group]:
    """By response; and where names would be long, by what treatment and reference share, said once in a heading."""
    groups: list[Group] = []
    for (workload, response), of_response in _group_by(contrasts, lambda one: (one.workload, one.response)).items():
        heading, better = (
            f"{words.name_workload(workload)}: {report.labels.name_response(workload, response)}",
            of_response[0].better,
        )
        names = {id(one): report.labels.name_versus(one) for one in of_response}
        if max(map(len, names.values())) <= _SHORT:
            arms = tuple(_make_arm(one, names[id(one)], report, divisor, has_dots) for one in of_response)
            groups.append(Group(heading, better, arms))
            continue
        groups.append(Group(heading, better, ()))
        for (shared,), members in _group_by(of_response, lambda one: report.labels.name_sides(one)[2:]).items():
            arms = tuple(
                _make_arm(one, " vs ".join(report.labels.name_sides(one)[:2]), report, divisor, has_dots)
                for one in members
            )
            groups.append(Group(shared, None, arms))
    return groups


def _group_by(
    contrasts: Sequence[Contrast], key: Callable[[Contrast], tuple[str, ...]]
) -> dict[tuple[str, ...], list[Contrast]]:
    """In the order in which each key is first met."""
    of: dict[tuple[str, ...], list[Contrast]] = {}
    for contrast in contrasts:
        of.setdefault(key(contrast), []).append(contrast)
    return of


def _show_block(value: float, contrast: Contrast) -> str:
    if contrast.scale == "ratio":
        return f"{figures.format_rounded(value)} ×"
    return figures.format_quantity(value, contrast.unit)


def _make_arm(contrast: Contrast, label: str, report: ReportInput, divisor: float, has_dots: bool) -> ForestRow:
    ends = _list_ends(contrast, divisor)
    low, high = ends[1:] if len(ends) == 3 else (None, None)
    # All ratios of a study have one margin, which is the axis's.
    margin = None if contrast.scale == "ratio" else contrast.equivalence
    of_blocks = _of_blocks(contrast) if has_dots else {}
    return ForestRow(
        label=label,
        figure=f"{words.format_estimate(contrast)} {words.SIGNS[words.badge_verdict(contrast).tone]}".rstrip(),
        colour=report.colour(contrast.treatment),
        estimate=ends[0],
        low=low,
        high=high,
        verdict=str(contrast.verdict),
        margin=None if margin is None else (margin[0] / divisor, margin[1] / divisor),
        values=tuple(value / divisor for value in of_blocks.values()),
        about=report.labels.name_treatment(contrast.treatment),
        tip=join_tip(
            f"vs {report.labels.name_treatment(contrast.reference)}", words.format_estimate(contrast), contrast.verdict
        ),
        tips=tuple(join_tip(name_block(block), _show_block(value, contrast)) for block, value in of_blocks.items()),
    )


def contrast_table(
    name: str, caption: str, contrasts: Sequence[Contrast], report: ReportInput, folded: bool = False
) -> Table:
    """Contrasts as rows: for people in words, for programs with the plain numbers.

    Of several looks, p of one says less than it seems to: programs get it with the level that it is held against.
    """
    has_failures = any(contrast.failures for contrast in contrasts)
    has_more = any(_list_notes(contrast, report) for contrast in contrasts)
    is_looked_at = bool(report.manifest.plan.looks) and any(contrast.primary for contrast in contrasts)
    columns = (
        *COMPARED,
        Column("estimate", where="page"),
        Column("margin", numeric=True, where="page"),
        Column("scale", where="data"),
        *make_columns("ratio", "difference", numeric=True, where="data"),
        Column("unit", where="data"),
        *make_columns("low", "high", "margin_low", "margin_high", "level", numeric=True, where="data"),
        Column("p", numeric=True, where="data" if is_looked_at else "both"),
        Column("blocks", numeric=True),
        Column("verdict"),
        Column("reason", where="data"),
        *make_columns("look", "look_level", "naive_low", "naive_high", numeric=True, where="data"),
        Column("condition", where="data"),
        *(Column(name, numeric=True, where="data") for name in (_OF_LOOKS if is_looked_at else ())),
        *([Column("failed")] if has_failures else []),
        *([Column("notes", where="page")] if has_more else []),
    )
    rows = tuple(
        (
            *_make_row(contrast, report, has_failures, is_looked_at),
            *(["; ".join(_list_notes(contrast, report))] if has_more else []),
        )
        for contrast in contrasts
    )
    return Table(name, caption, columns, rows, folded)


def _list_notes(contrast: Contrast, report: ReportInput) -> list[str]:
    """What a verdict rests on, and what the typical boot leaves out: conditions, later looks, sites, means."""
    more = [*words.list_looks(contrast), *words.list_sites(contrast), *words.list_means(contrast, report.labels)]
    return [*words.list_conditions(contrast), *more]


def _make_row(contrast: Contrast, report: ReportInput, has_failures: bool, is_looked_at: bool) -> tuple[Value, ...]:
    _, low, high = list_ends(None, contrast.interval)
    _, naive_low, naive_high = list_ends(None, contrast.naive)
    return (
        *list_compared(contrast, report),
        words.format_estimate(contrast),
        words.format_margin(contrast),
        contrast.scale,
        make_end(contrast.ratio),
        make_end(contrast.difference),
        contrast.unit,
        low,
        high,
        *(contrast.equivalence or (None, None)),
        contrast.level,
        make_quantity(contrast.p, "p"),
        contrast.blocks,
        words.badge_verdict(contrast),
        contrast.reason,
        contrast.look,
        contrast.look_level,
        naive_low,
        naive_high,
        " and ".join(words.list_conditions(contrast)),
        *(_say_looks(contrast) if is_looked_at else ()),
        *([words.failure_counts(contrast)] if has_failures else []),
    )


_OF_LOOKS = ("adjusted", "last_look_blocks", "last_look_estimate", "last_look_low", "last_look_high")


def _say_looks(contrast: Contrast) -> tuple[Value, ...]:
    last = contrast.last_look
    of_last = (None,) * 4 if last is None else (last.blocks, *list_ends(last.estimate, last.interval))
    return (make_end(contrast.adjusted), *of_last)


plugin = BuiltInSection("verdicts", "The answer", 10, tell_verdicts)
