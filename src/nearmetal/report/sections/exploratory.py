"""Everything else that was compared: labelled as what it is, a source of questions and no answer."""

from collections.abc import Sequence
from dataclasses import replace

from nearmetal.analysis.proportional_responses import find_proportional
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.report import figures, words
from nearmetal.report.blocks import Block, Chart, Paragraph
from nearmetal.report.explanations import count_by_chance
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.sections.verdicts import contrast_table, describe_marks, ratio_panel

_LEAD = (
    "Responses the study did not name beforehand: take them as hints for the next study, not as findings. Each "
    "interval is at {level}: the study's whole level, which they do not share."
)

_AFTER_LOOKS = (
    " The study did not stop for their sake, but may have stopped because of something that goes with them: their p "
    "and intervals only describe."
)

_DRAWN = 40
"""More contrasts than this are told by the table alone."""


def _render(report: ReportInput) -> Contents | None:
    order = {response: place for place, response in enumerate(_in_order(report))}
    repeated = find_proportional(report.analysis.cells, report.manifest.plan.primaries) & order.keys()
    own = [one for one in report.analysis.contrasts if (one.workload, one.response) not in repeated]
    contrasts = sorted(
        (contrast for contrast in own if not contrast.primary),
        key=lambda contrast: order[contrast.workload, contrast.response],
    )
    if not contrasts and not repeated:
        return None
    ratios = [contrast for contrast in contrasts if contrast.ratio is not None]
    blocks: list[Block] = []
    if 0 < len(ratios) <= _DRAWN:
        margin = figures.format_percent(report.manifest.study.design.margin)
        caption = f"Dashed line: the reference. Shaded: the margin of {margin}. {describe_marks(ratios)}"
        description = "Ratios of the exploratory responses to the reference; the table has the same figures."
        blocks.append(Chart("exploratory", caption, description, (ratio_panel("ratios", "", ratios, report),)))
    if contrasts:
        caption = "All exploratory comparisons"
        alike = [one for one in contrasts if words.is_same(one)]
        table = contrast_table("exploratory", caption, contrasts, report, folded=bool(blocks))
        if 0 < len(alike) < len(contrasts):
            others = [one for one in contrasts if not words.is_same(one)]
            shown = contrast_table("exploratory-shown", caption, others, report, folded=bool(blocks))
            blocks += [replace(table, where="data"), replace(shown, where="page"), _told_alike(alike, report)]
        else:
            blocks.append(table)
    blocks += _not_repeated(sorted(repeated, key=order.__getitem__), report)
    level = figures.format_percent(1 - report.manifest.study.design.alpha)
    lead = (
        _LEAD.format(level=level)
        + _count_different(contrasts, report.manifest.study.design.alpha)
        + (_AFTER_LOOKS if report.manifest.plan.looks else "")
    )
    return lead, blocks


def _told_alike(alike: Sequence[Contrast], report: ReportInput) -> Paragraph:
    """What has one value on both sides in each block, in a sentence in place of a row for each."""
    told = dict.fromkeys(
        f"{report.labels.name_response(one.workload, one.response)} of {words.name_workload(one.workload)}"
        for one in alike
    )
    return Paragraph(f"{words.SAME.capitalize()} on both sides: {figures.join_listing(told)}.")


def _count_different(contrasts: Sequence[Contrast], alpha: float) -> str:
    """How many are different, and how many of so many would be if nothing differed."""
    told = [one for one in contrasts if one.interval is not None]
    if not told:
        return ""
    found = sum(one.verdict is Verdict.DIFFERENT for one in told)
    of = f"{found:,} of {figures.format_count(len(told), 'comparison')} {'is' if found == 1 else 'are'} different"
    return f" {of}; {count_by_chance(len(told), alpha)}."


def _not_repeated(repeated: Sequence[tuple[str, str]], report: ReportInput) -> list[Block]:
    """What is a primary response in another unit, of whose comparison there shall not be a second interval."""
    told = [
        f"{report.labels.name_response(workload, response)} of {words.name_workload(workload)}, which is "
        f"{report.labels.name_response(workload, report.manifest.plan.primaries[workload])} times a constant in "
        "every trial"
        for workload, response in repeated
    ]
    return [Paragraph(f"Not compared a second time: {'; '.join(told)}.")] if told else []


def _in_order(report: ReportInput) -> list[tuple[str, str]]:
    """(workload, response) in the order in which a reader meets them in the plan."""
    pairs = list(dict.fromkeys((contrast.workload, contrast.response) for contrast in report.analysis.contrasts))
    workloads = list(dict.fromkeys(workload for workload, _ in pairs))
    return sorted(pairs, key=lambda pair: workloads.index(pair[0]))


plugin = BuiltInSection("exploratory", "Exploratory comparisons", 40, _render)
