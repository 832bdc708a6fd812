"""Verdicts for a terminal: words before numbers, readable at 60 columns and without colour."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nearmetal.analysis.results import Analysis, Contrast
from nearmetal.analysis.warning_groups import group_warnings
from nearmetal.model import TrialCounts
from nearmetal.report import figures, words
from nearmetal.report.answer import describe_values
from nearmetal.report.blocks import Tone
from nearmetal.report.explanations import by_chance, largest_of, more_different
from nearmetal.report.implausible_rankings import is_implausible
from nearmetal.report.report_input import ReportInput
from nearmetal.report.words import Labels, ResponseKinds

STYLES: dict[Tone, str] = {
    "better": "bold green",
    "worse": "bold red",
    "same": "bold blue",
    "no-worse": "bold cyan",
    "unknown": "bold yellow",
    "plain": "",
}

_WARNED = 4
"""Warnings in full below the verdicts."""

_BESIDE = 76
"""From this width on, the verdict stands beside the sentence; below, under it."""


def verdict_table(analysis: Analysis, width: int, kinds: ResponseKinds | None = None) -> RenderableType:
    """What was withdrawn, then the primary contrasts as sentences with their verdicts, by workload.

    For a console `width` columns wide. `kinds` say what responses are called.
    """
    primary = [contrast for contrast in analysis.contrasts if contrast.primary]
    first = words.list_first(analysis)
    parts: list[RenderableType] = [
        Text(f"! {words.strip_controls(warning.text)}", style="bold yellow", overflow="fold") for warning in first
    ]
    if not primary:
        return Group(*parts, Text("Nothing was compared: the study has no treatment beside its reference."))
    labels = Labels.from_treatments(
        [side for contrast in primary for side in (contrast.treatment, contrast.reference)], kinds
    )
    for workload in dict.fromkeys(contrast.workload for contrast in primary):
        chosen = [contrast for contrast in primary if contrast.workload == workload]
        parts.append(Text(words.strip_controls(workload), style="bold", overflow="fold"))
        parts.append(_make_table(chosen, labels, is_wide=width >= _BESIDE))
    parts.append(_small_print(primary))
    lines, codes = _list_warned(primary, analysis)
    parts += [Text(f"! {line}", style="yellow", overflow="fold") for line in lines]
    if told := [words.strip_controls(code) for code in dict.fromkeys([*(one.code for one in first), *codes])]:
        others = f" (or {', '.join(told[1:])})" if told[1:] else ""
        parts.append(Text(f"what each ! means: nearmetal explain {told[0]}{others}", style="dim", overflow="fold"))
    return Group(*parts)


def why_lines(report: ReportInput) -> RenderableType | None:
    """What goes along with the largest differences, in a sentence each; None where nothing was observed."""
    head = largest_of(report)
    if not head:
        return None
    table = _make_grid(1)
    for one in head:
        about = f"{words.name_workload(one.contrast.workload)}, {report.labels.name_versus(one.contrast)}"
        doubt = "; not plausible by itself: see the report" if is_implausible(one.contrast, report) else ""
        table.add_row("", Text(f"{about}: {one.most_unlike}{doubt}"))
    alpha = report.manifest.study.design.alpha
    chance = f"Each has an interval of its own: {by_chance(alpha)}"
    more = more_different(len(head), report)
    return Group(
        Text("Why? What goes along with the largest differences", style="bold"),
        table,
        *([Text(chance, style="dim")] if any(found.differs for one in head for found in one.found) else []),
        *([Text(f"{more}: see the report", style="dim")] if more else []),
    )


def counts_line(counts: TrialCounts) -> Text:
    """ "58 trials ok, 1 invalid, 1 lost": nothing is said of what did not happen."""
    line = Text(f"{figures.format_count(counts.ok, 'trial')} ok")
    for number, what in ((counts.invalid, "invalid"), (counts.failed, "failed"), (counts.lost, "lost")):
        if number:
            line.append(f", {number:,} {what}", style="yellow")
    return line


def _make_grid(space: int, *widths: int) -> Table:
    """A sign, columns of these widths, and text that takes what is left."""
    table = Table.grid(padding=(0, space, 0, 0), expand=False)
    for width in (1, *widths):
        table.add_column(width=width)
    table.add_column(overflow="fold")
    return table


def _make_table(contrasts: Sequence[Contrast], labels: Labels, *, is_wide: bool) -> Table:
    table = _make_grid(2, 18) if is_wide else _make_grid(1)
    for contrast in contrasts:
        tone = words.choose_tone(contrast)
        verdict, about = Text(words.badge_verdict(contrast).text, STYLES[tone]), _write_contrast(contrast, labels)
        cells = [verdict, about] if is_wide else [Text.assemble(verdict, ": ", about)]
        table.add_row(Text(words.SIGNS[tone], STYLES[tone]), *cells)
    return table


def _write_contrast(contrast: Contrast, labels: Labels) -> Text:
    text = Text(words.write_sentence(contrast, labels))
    for detail in (
        describe_values(contrast),
        words.explain_undecided(contrast),
        *words.list_conditions(contrast),
        *words.list_degrees(contrast),
        *words.list_looks(contrast),
        *words.list_sites(contrast),
        *words.list_failures(contrast, labels),
    ):
        text.append(f"; {detail}" if detail else "", style="dim")
    return text


def _small_print(primary: Sequence[Contrast]) -> Text:
    """What is the same for all of them, said once."""
    blocks = sorted({contrast.blocks for contrast in primary})
    number = figures.format_count(blocks[0], "block") if len(blocks) == 1 else f"{blocks[0]} to {blocks[-1]} blocks"
    if all(contrast.interval is None for contrast in primary):
        return Text(number, style="dim")
    levels = [contrast.level for contrast in primary]
    ends = dict.fromkeys(figures.format_percent(1 - level) for level in (max(levels), min(levels)))
    return Text(f"{number}; in brackets the {' to '.join(ends)} interval", style="dim")


def _list_warned(primary: Sequence[Contrast], analysis: Analysis) -> tuple[list[str], list[str]]:
    """Warnings of its contrasts, the most frequent first, in a few lines, and their codes; the report has all."""
    groups = group_warnings(
        (index, warning) for index, contrast in enumerate(primary) for warning in words.list_warned(contrast, analysis)
    )
    groups.sort(key=lambda group: -len(set(group.about)))
    lines = [
        f"{len(set(group.about))} of {figures.format_count(len(primary), 'comparison')}: "
        f"{words.strip_controls(group.text)}"
        for group in groups
    ]
    more = len(lines) - _WARNED
    rest = [f"{figures.format_count(more, 'other warning')}: see the report"] if more > 0 else []
    return lines[:_WARNED] + rest, [group.code for group in groups[:_WARNED]]
