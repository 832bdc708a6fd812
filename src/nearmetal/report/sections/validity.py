"""Whether the answer can be trusted: what went wrong, what was warned of, what drifted."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from nearmetal.analysis.responses import key_of
from nearmetal.analysis.results import Cell
from nearmetal.analysis.warning_groups import WarningGroup, group_warnings
from nearmetal.model import TrialRecord, TrialStatus
from nearmetal.report import figures, words
from nearmetal.report.blocks import Block, Chart, Column, Notice, Panel, Table, Value
from nearmetal.report.charts.drift import Line, draw_lines
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import make_columns
from nearmetal.shortened_list import shorten_list

_NAMED = 6
"""With more treatments or comparisons than this, a warning names those that have it most."""


_FEWEST_POINTS = 4
"""Blocks of a treatment below which a line shows no trend."""
_TREND = "A trend over blocks is a drift, which blocks cancel out."
_SLOPE = "A slope over the position within a block is what random order guards against."


def _render(report: ReportInput) -> Contents:
    bad = [record for record in report.records if record.status is not TrialStatus.OK]
    warned = _make_warnings(report)
    lead = f"{_judge_run(bool(warned.rows), report)} {_count_trials(bad, report)}"
    blocks: list[Block] = [
        Notice(words.strip_controls(warning.text), "warning") for warning in words.list_later(report.analysis)
    ]
    if bad:
        blocks.append(_make_troubles(bad, report))
    if warned.rows:
        blocks.append(warned)
    over_blocks, over_positions = list(_over_blocks(report)), list(_over_positions(report))
    if panels := (*over_blocks, *over_positions):
        # Which treatments are not drawn, if there are any.
        is_bound = any(any(cell.censored) for cells in _primary_cells(report).values() for cell in cells)
        undrawn = ", but of those of which some blocks have only a bound" if is_bound else ""
        blocks.append(
            Chart(
                "drift",
                f"Each treatment's primary response against its own median{undrawn}. "
                + " ".join(text for text, drawn in ((_TREND, over_blocks), (_SLOPE, over_positions)) if drawn),
                "Primary responses relative to their medians, over blocks and over positions within a block.",
                panels,
            )
        )
    return lead, blocks


def _judge_run(has_warnings: bool, report: ReportInput) -> str:
    """The heading's answer: what to hold against the figures, the weightiest first."""
    first = dict.fromkeys(words.strip_controls(warning.code) for warning in words.list_first(report.analysis))
    if report.analysis.trials.ok == 0:
        return "No: no trial ended well."
    if first:
        named = f"{'warnings' if len(first) > 1 else 'warning'} {figures.join_listing(first)}"
        return f"Only with care: the whole run has the {named}."
    if has_warnings or words.list_later(report.analysis):
        return "With some care: read the warnings below."
    return "Yes, as far as the run itself can tell: it has no warning."


def _count_trials(bad: Sequence[TrialRecord], report: ReportInput) -> str:
    counts = report.analysis.trials
    total = counts.ok + counts.invalid + counts.failed + counts.lost
    ended = f"{counts.ok:,} of {figures.format_count(total, 'trial')} ended well"
    if not bad:
        return f"{ended}, none was invalid, failed or lost."
    return f"{ended}; {counts.invalid} invalid, {counts.failed} failed, {counts.lost} lost.{describe_use(bad)}"


def describe_use(bad: Sequence[TrialRecord]) -> str:
    """What becomes of trials that are not ok."""
    own = sum(record.blame == "treatment" for record in bad)
    text = ""
    if own:
        text += (
            f" {figures.format_count(own, 'trial')} failed by the treatment's own fault: that is the outcome, ranked "
            "below every value, and no reason to repeat the block."
        )
    if own < len(bad):
        text += f" {'The others' if own else 'Those'} are kept and never counted; their blocks were repeated whole."
    return text


def _make_troubles(bad: Sequence[TrialRecord], report: ReportInput) -> Table:
    columns = (
        *make_columns("status", "treatment", "workload"),
        # The journal counts from 0; people, and what a run says while it goes on, from 1.
        Column("block", numeric=True, where="page"),
        Column("block", numeric=True, where="data"),
        Column("attempt", numeric=True, where="page"),
        Column("attempt", numeric=True, where="data"),
        Column("reason"),
    )
    rows = tuple(
        (
            str(record.status),
            report.labels.name_treatment(record.trial.treatment),
            record.trial.workload,
            record.trial.block + 1,
            record.trial.block,
            record.trial.attempt + 1,
            record.trial.attempt,
            "; ".join(map(str.strip, (record.reason or "").splitlines())),
        )
        for record in bad
    )
    return Table("troubles", "Trials that are not ok, and why", columns, rows, folded=len(rows) > 20)


def _make_warnings(report: ReportInput) -> Table:
    """A row for each code and wording, with how many have it and which. What a contrast repeats has none."""
    trials = [(record.trial, warning) for record in report.records for warning in record.warnings]
    codes = {warning.code for _, warning in trials}
    primary = [contrast for contrast in report.analysis.contrasts if contrast.primary]
    contrasts = [
        ((place, f"{words.strip_controls(contrast.workload)}: {report.labels.name_versus(contrast)}"), warning)
        for place, contrast in enumerate(primary)
        for warning in contrast.warnings
        if warning.code not in codes
    ]
    rows: list[tuple[Value, ...]] = []
    for of_trials in group_warnings(trials):
        having = {trial.id: report.labels.name_treatment(trial.treatment) for trial in of_trials.about}
        rows.append(_make_row(of_trials, len(having), len(report.records), "trial", Counter(having.values())))
    for of_contrasts in group_warnings(contrasts):
        having_it = dict.fromkeys(of_contrasts.about)
        about = Counter(name for _, name in having_it)
        rows.append(_make_row(of_contrasts, len(having_it), len(primary), "comparison", about))
    columns = (
        Column("warning"),
        Column("how many", where="page"),
        *make_columns("times", "of", numeric=True, where="data"),
        Column("what of", where="data"),
        *make_columns("where", "what was seen"),
    )
    return Table(
        "warnings", "Warnings: the values count, read them with care", columns, tuple(rows), folded=len(rows) > 20
    )


def _make_row(group: WarningGroup[Any], times: int, of: int, what: str, about: Counter[str]) -> tuple[Value, ...]:
    # The few that have it most, each with how often where it is more than once.
    named = [name if times == 1 else f"{name} ({times:,})" for name, times in about.most_common()]
    return (
        group.code,
        f"{times:,} of {figures.format_count(of, what)}",
        times,
        of,
        f"{what}s",
        shorten_list(named, _NAMED, "; "),
        group.text,
    )


def _over_blocks(report: ReportInput) -> Iterable[Panel]:
    for (workload, response), cells in _primary_cells(report).items():
        groups = [
            Line(
                report.labels.name_treatment(cell.treatment),
                report.colour(cell.treatment),
                tuple(
                    (block + 1, value / cell.median - 1) for block, value in zip(cell.blocks, cell.values, strict=True)
                ),
            )
            for cell in cells
            if _has_scale(cell)
        ]
        if any(len(group.points) >= _FEWEST_POINTS for group in groups):
            title = f"{words.strip_controls(workload)}: drift over blocks"
            yield Panel(
                f"{workload}-{response}-blocks",
                draw_lines(title, report.labels.name_response(workload, response), "block", groups),
            )


def _over_positions(report: ReportInput) -> Iterable[Panel]:
    """All treatments of an environment together, by the place of the trial in its block."""
    for (workload, response), cells in _primary_cells(report).items():
        medians = {key_of(cell.treatment): cell.median for cell in cells if _has_scale(cell)}
        points: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for record in report.records:
            trial = record.trial
            if trial.workload != workload or record.status is not TrialStatus.OK:
                continue
            told, median = record.responses.get(response), medians.get(key_of(trial.treatment))
            if told is not None and median is not None:
                environment = str(trial.treatment.get("environment", ""))
                points[environment].append((trial.position + 1, told.value / median - 1))
        groups = [
            Line(words.strip_controls(name), colour, tuple(points[name]))
            for name, colour in report.colours.items()
            if name in points
        ]
        if any(len(group.points) >= _FEWEST_POINTS and len({x for x, _ in group.points}) > 2 for group in groups):
            title = f"{words.strip_controls(workload)}: place in the block"
            subtitle = report.labels.name_response(workload, response)
            yield Panel(
                f"{workload}-{response}-positions",
                draw_lines(title, subtitle, "place in the order of the block", groups, each="place"),
            )


def _primary_cells(report: ReportInput) -> dict[tuple[str, str], list[Cell]]:
    found: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in report.analysis.cells:
        if (cell.workload, cell.response) in report.primaries:
            found[cell.workload, cell.response].append(cell)
    return found


def _has_scale(cell: Cell) -> bool:
    """Whether values can be told as shares of their median; bounds do not drift."""
    return bool(cell.values) and cell.median != 0 and math.isfinite(cell.median) and not any(cell.censored)


plugin = BuiltInSection("validity", "Can it be trusted?", 60, _render)
