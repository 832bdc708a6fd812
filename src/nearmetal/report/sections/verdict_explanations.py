"""What goes along with each verdict: what else differs between its two sides, ranked, and what does not add up."""

from collections.abc import Sequence

from nearmetal.analysis.attribution import CovariateContrast
from nearmetal.analysis.covariates import OF_CPUS
from nearmetal.model import Assignment
from nearmetal.report import explanation_notes, figures, words
from nearmetal.report.blocks import (
    Badge,
    Block,
    Column,
    Notice,
    Paragraph,
    Quantity,
    Statement,
    Statements,
    Table,
    Value,
)
from nearmetal.report.explanations import (
    Explanation,
    badge_difference,
    by_chance,
    count_by_chance,
    explain_contrast,
    is_observed,
    list_asked,
    list_different,
    list_largest,
    list_values,
    more_different,
    show_difference,
)
from nearmetal.report.implausible_rankings import is_guest, is_implausible, make_box
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import make_columns

_TOLD = 3
"""So many of the differences stand in a sentence; the table has all."""
_OPEN = 3
"""Of more verdicts than this the tables are closed until asked for."""

_LEAD = (
    "What else differs where a verdict was asked for, by what observers and captures recorded: ranked, what differs by "
    "its own interval first. These go along with a verdict; none of them is a proof of its cause."
)


def _render(report: ReportInput) -> Contents | None:
    primary = list_asked(report)
    if not is_observed(report):
        primary = [contrast for contrast in primary if is_implausible(contrast, report)]
    if not primary:
        return None
    explained = [explain_contrast(one, report) for one in primary]
    boxes = [make_box(one.contrast, one.found, report) for one in explained if is_implausible(one.contrast, report)]
    explained = [one for one in explained if one.observed]
    if not explained and not boxes:
        return None
    head = _choose_head(explained, report)
    blocks: list[Block] = [*_make_summary(head, report), *boxes]
    if explained:
        rest = [one for one in explained if one not in head]
        blocks += [Statements(tuple(_make_statement(one, report) for one in rest))] if rest else []
        blocks += [_describe_method(report), *_make_tables(explained, report), _make_data(explained, report)]
        blocks += [Notice(text) for text in _list_besides(explained, report)]
    return _LEAD, blocks


def _choose_head(explained: Sequence[Explanation], report: ReportInput) -> list[Explanation]:
    of = {id(one.contrast): one for one in explained}
    return list_largest(of[id(contrast)] for contrast in list_different(report) if id(contrast) in of)


def _make_summary(head: Sequence[Explanation], report: ReportInput) -> list[Block]:
    """The sentences that matter: the largest differences, and what is most unlike between the two sides of each."""
    if not head:
        return []
    said = Statements(tuple(_state_largest(one, report) for one in head))
    more = more_different(len(head), report)
    return [said, Paragraph(f"These differ most; {more}.")] if more else [said]


def _state_largest(one: Explanation, report: ReportInput) -> Statement:
    text = f"{words.write_sentence(one.contrast, report.labels)}; {one.most_unlike}"
    doubt = "not plausible by itself, see below; " if is_implausible(one.contrast, report) else ""
    about = words.name_workload(one.contrast.workload)
    return Statement(about, text, words.badge_verdict(one.contrast), f"{doubt}{_write_detail(one.found, report)}")


def _make_statement(one: Explanation, report: ReportInput) -> Statement:
    differing = [found for found in one.found if found.differs]
    named = [f"{found.covariate.title}, {show_difference(found)}" for found in differing[:_TOLD]]
    treatment, reference, _ = report.labels.name_sides(one.contrast)
    if named:
        text = f"what differs most from {reference}: {'; '.join(named)}"
    elif any(found.interval for found in one.found):
        text = f"no difference between {treatment} and {reference} shows in what was observed"
    else:
        blocks = figures.format_count(max(found.blocks for found in one.found), "block")
        text = (
            f"{blocks}: too few to tell whether anything that was observed differs between {treatment} and {reference}"
        )
    return Statement(
        ", ".join(_name_contrast(one, report)),
        text,
        words.badge_verdict(one.contrast),
        _write_detail(one.found, report),
    )


def _write_detail(found: Sequence[CovariateContrast], report: ReportInput) -> str:
    """How many figures differ, and how many would if none did: no interval is corrected for how many there are."""
    told = [one for one in found if one.interval is not None]
    if not told:
        return f"{figures.format_count(len(found), 'figure that was', 'figures that were')} observed, without intervals"
    differing, untold = sum(one.differs for one in told), len(found) - len(told)
    text = f"{figures.format_count(differing, 'figure')} of {len(found)} that were observed "
    text += f"{'differs, by' if differing == 1 else 'differ, each by'} its own interval"
    if differing:
        text += f"; {count_by_chance(len(told), report.manifest.study.design.alpha)}"
    return text + (f"; {figures.format_count(untold, 'has', 'have')} too few blocks" if untold else "")


def _describe_method(report: ReportInput) -> Paragraph:
    alpha = report.manifest.study.design.alpha
    return Paragraph(
        f"In the tables each figure is compared block by block, with {figures.format_percent(1 - alpha)} intervals by "
        f"the statistic of the verdicts, not corrected for how many they are: {by_chance(alpha)}, so that a long table "
        "often has one. Both sides are medians over blocks; the change is what is typical within a block, and need not "
        "be that between medians. Packets, segments and ACKs hardly differ when they do by less than one in a hundred "
        "requests, or in ten MiB, and bytes by less than one for each, by either end of the interval: such rows stand "
        "below the others, and above what did not happen on either side."
    )


def _make_tables(explained: Sequence[Explanation], report: ReportInput) -> list[Table]:
    """One for each verdict, for people."""
    return [
        Table(
            f"why-{number}",
            f"{', '.join(_name_contrast(one, report))}: what goes along",
            (
                Column("what"),
                *(
                    Column(words.strip_controls(side), numeric=True)
                    for side in report.labels.name_sides(one.contrast)[:2]
                ),
                *make_columns("change", "verdict"),
            ),
            (
                *((*_show_compared(found), show_difference(found), badge_difference(found)) for found in one.found),
                *(
                    (covariate.title, *2 * [_make_quantity(0.0, covariate.unit)], None, Badge("none"))
                    for covariate in one.nil
                ),
            ),
            folded=len(explained) > _OPEN,
            where="page",
        )
        for number, one in enumerate(explained, start=1)
    ]


def _name_contrast(one: Explanation, report: ReportInput) -> tuple[str, str]:
    return words.name_workload(one.contrast.workload), report.labels.name_versus(one.contrast)


def _show_compared(one: CovariateContrast) -> tuple[Value, Value, Value]:
    unit = one.covariate.unit
    return one.covariate.title, _make_quantity(one.treatment, unit), _make_quantity(one.reference, unit)


def _make_data(explained: Sequence[Explanation], report: ReportInput) -> Table:
    """All of them, for programs."""
    columns = (
        *make_columns("workload", "comparison", "what"),
        *make_columns("treatment", "reference", "estimate", "low", "high", numeric=True),
        *make_columns("scale", "unit"),
        Column("blocks", numeric=True),
        Column("verdict"),
    )
    rows = tuple(
        (*_name_contrast(one, report), *_show_compared(found), *list_values(found), badge_difference(found))
        for one in explained
        for found in one.found
    )
    return Table("why", "Figures that go along with each verdict", columns, rows, where="data")


def _make_quantity(value: float, unit: str) -> Value:
    return Quantity(value, unit) if unit else value


def _list_besides(explained: Sequence[Explanation], report: ReportInput) -> list[str]:
    """What no row of the table can tell."""
    sides = [side for one in explained for side in (one.contrast.treatment, one.contrast.reference)]
    exits = explanation_notes.untold_exits(report) if any(is_guest(side, report) for side in sides) else ""
    differing = dict.fromkeys(explanation_notes.describe_clocks(one.contrast, report) for one in explained)
    of_cpus = _of_cpus(explained)
    told = (
        explanation_notes.not_whole([one.contrast for one in explained], report),
        *differing,
        explanation_notes.foreign_time(of_cpus, report),
        explanation_notes.untold_steal(of_cpus, report),
        exits,
        *explanation_notes.list_unobserved(sides, report),
    )
    return [text for text in told if text]


def _of_cpus(explained: Sequence[Explanation]) -> list[Assignment]:
    """The sides whose rows tell what CPUs did."""
    told = [one for one in explained if any(found.covariate.name in OF_CPUS for found in one.found)]
    return [side for one in told for side in (one.contrast.treatment, one.contrast.reference)]


plugin = BuiltInSection("why", "Why?", 12, _render)
