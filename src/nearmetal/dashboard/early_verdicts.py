"""What a run says before its end: the report's chapter of verdicts, of the blocks that have ended. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nearmetal.analysis.analyse import analyse
from nearmetal.analysis.responses import arms_of_study
from nearmetal.analysis.results import Analysis, Contrast
from nearmetal.dashboard.run_history import RunHistory
from nearmetal.model import Warned
from nearmetal.report import figures, words
from nearmetal.report.blocks import LONG, Block, Chart, Column, Notice, Section, Table
from nearmetal.report.report_input import ReportInput
from nearmetal.report.sections.verdicts import tell_verdicts
from nearmetal.store.manifest import Manifest
from nearmetal.store.run_folder import RunFolder

_GOES_WITHOUT_SAYING = frozenset({"unfinished", "withdrawn", "blocks-missing"})
"""Warnings of a run that has not ended, which the page tells elsewhere: there is more to come."""


def render_early_verdicts(manifest: Manifest, course: RunHistory, folder: RunFolder) -> tuple[Section, ReportInput]:
    """The chapter, and what it was made from. Statements and pictures: the tables are the report's."""
    records = tuple(course.records)
    arms = arms_of_study(records, manifest.study.design)
    analysis = analyse(manifest, records, course.events, manifest.plan.primaries, arms)
    report = ReportInput(manifest, _worth_reading(analysis, course), records, folder, arms, analysis.cells)
    primary = [contrast for contrast in report.analysis.contrasts if contrast.primary]
    if not any(contrast.blocks for contrast in primary):
        return _nothing_yet(course, primary), report
    alone = replace(report, analysis=_of_contrasts_alone(report.analysis))
    lead, told = tell_verdicts(alone)
    kept: list[Block] = [block for block in told if not isinstance(block, Table)]
    # The picture comes first: it is what changes.
    blocks = sorted(kept, key=lambda block: not isinstance(block, Chart))
    if not course.is_over:
        blocks.insert(0, _make_caveat(course))
        if course.plan.looks:
            boundaries = _list_boundaries(alone, course)
            blocks += [boundaries] if boundaries.rows else []
    title = "Verdicts" if course.is_over else "Verdicts so far"
    return Section("verdicts", title, lead, tuple(blocks)), report


def _of_contrasts_alone(analysis: Analysis) -> Analysis:
    """Without what the whole run is warned of, which is told in one place, and that is not this one."""
    contrasts = tuple(
        contrast.model_copy(update={"warnings": words.list_warned(contrast, analysis)})
        for contrast in analysis.contrasts
    )
    return analysis.model_copy(update={"contrasts": contrasts, "warnings": ()})


def _worth_reading(analysis: Analysis, course: RunHistory) -> Analysis:
    """Without what goes without saying of a run that goes on."""
    if course.is_over:
        return analysis
    contrasts = tuple(
        contrast.model_copy(update={"warnings": _worth_telling(contrast.warnings)}) for contrast in analysis.contrasts
    )
    return analysis.model_copy(update={"contrasts": contrasts, "warnings": _worth_telling(analysis.warnings)})


def _worth_telling(warnings: Iterable[Warned]) -> tuple[Warned, ...]:
    return tuple(warning for warning in warnings if warning.code not in _GOES_WITHOUT_SAYING)


def _make_caveat(course: RunHistory) -> Notice:
    alpha = figures.format_percent(course.study.design.alpha)
    if course.plan.looks:
        looks = figures.join_listing(str(look.blocks) for look in course.plan.looks)
        return Notice(
            f"This study looks at its verdicts after {looks} blocks, fixed beforehand. What a look has "
            f"decided stands: all looks together are wrong no more often than {alpha}. {_next(course)}"
        )
    planned = figures.format_count(course.plan.blocks, "block")
    return Notice(
        f"There is no verdict before the last of {planned}. Until then an interval shows how the measurement firms up "
        f"and decides nothing: who stops a run when its interval looks good is wrong more often than {alpha}. "
        f"After the last block a comparison is different if its p is at most {course.plan.level:.2g}."
    )


def _next(course: RunHistory) -> str:
    taken = {look["blocks"] for look in course.looks}
    coming = next((look for look in course.plan.looks if look.blocks not in taken), None)
    if coming is None:
        return ""
    says = f"different from p ≤ {coming.level:.2g} on, |W+ − W−| ≥ {coming.boundary}"
    says = says if coming.boundary is not None else "it can decide nothing"
    return f"The next look is after block {coming.blocks}: {says}."


def _list_boundaries(report: ReportInput, course: RunHistory) -> Table:
    """Each comparison at its latest look, beside what that look asked for."""
    columns = (Column("comparison"), Column("after block", True), Column("p then", True), Column("different if"))
    rows = [
        (
            f"{words.name_workload(contrast.workload)}, {report.labels.name_versus(contrast)}",
            look.blocks,
            f"{contrast.p:.2g}",
            f"p ≤ {look.level:.2g}" if look.boundary is not None else "never",
        )
        for contrast in report.analysis.contrasts
        if contrast.primary and contrast.look is not None and contrast.p is not None
        for look in course.plan.looks[contrast.look - 1 : contrast.look]
    ]
    return Table("boundaries", "At its latest look", columns, tuple(rows), folded=len(rows) > LONG)


def _nothing_yet(course: RunHistory, primary: Sequence[Contrast]) -> Section:
    if not course.plan.contrasts:
        text = "Nothing is compared: the study has no treatment beside its reference."
    elif course.is_over:
        reasons = dict.fromkeys(map(words.explain_undecided, primary))
        text = f"Nothing can be compared: {figures.join_listing(reasons)}."
    else:
        text = "A comparison takes a block in which both of its sides were measured. None has ended yet."
    return Section("verdicts", "Verdicts", text, ())
