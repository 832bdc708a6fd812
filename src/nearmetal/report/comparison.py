"""A comparison of runs for a terminal: what else was not the same, and what changed."""

import datetime
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from nearmetal.analysis.changes import ResponseChange
from nearmetal.analysis.responses import count, key_of
from nearmetal.analysis.results import FairnessRow, Verdict
from nearmetal.analysis.run_comparison import Comparison, RunWarning, StoredRun
from nearmetal.analysis.run_differences import AFTER, BEFORE, UnsharedComparison
from nearmetal.report import figures, words
from nearmetal.report.blocks import Tone
from nearmetal.report.gate_descriptions import describe_outcome
from nearmetal.report.terminal import STYLES, counts_line
from nearmetal.report.words import Labels, find_response_kinds
from nearmetal.store.runs import State

_ROWS = 12
"""Other differences are printed up to here; `--json` has them all."""
_LONGEST = 60
"""Characters of a value that are shown."""
_TOLD_ELSEWHERE = frozenset({"unfinished", "blocks-missing"})
"""Codes of a run as a whole that its number of trials stands for, and the number of blocks of each comparison."""

_HEADINGS = (
    ("treatment", "Each treatment, after against before"),
    ("contrast", "Against its reference: what the whole host did in between drops out"),
)


def print_comparison(
    found: Comparison,
    before: Sequence[StoredRun],
    after: Sequence[StoredRun],
    states: Sequence[State],
    console: Console,
) -> None:
    """`states` are those of the runs before, then of those after."""
    runs = [*((BEFORE, run) for run in before), *((AFTER, run) for run in after)]
    for (when, run), state in zip(runs, states, strict=True):
        _print_run(when, run, state, console)
    began = [[datetime.datetime.fromisoformat(run.manifest.created) for run in side] for side in (before, after)]
    if min(began[1]) < max(began[0]):
        console.print("! the run named second is the older of the two", style="yellow")
    has_several = len(runs) > 2
    for text, of in _group_warnings([one for one in found.warnings if one.code not in _TOLD_ELSEWHERE], len(runs)):
        console.print(Text(f"! {of}: {words.strip_controls(text)}", style="bold yellow", overflow="fold"))
    if found.apart or not found.alone:
        _print_apart(found.apart, console)
    labels = make_labels(found, [run for _, run in runs])
    shared = _list_shared(found.changes)
    for of, heading in _HEADINGS:
        chosen = [change for change in found.changes if change.of == of]
        if chosen:
            console.print(Text(heading, style="bold"))
        for change in chosen:
            _print_change(change, name_change(change, found, labels), shared, labels, console)
    for text in shared:
        console.print(Text(f"! in each of these: {text}", style="yellow", overflow="fold"))
    _print_alone(found.alone, labels, console)
    console.print(_small_print(found.changes, has_several), style="dim")
    closing = "Each run is an occasion" if has_several else "Two runs are two occasions"
    console.print(f"{closing}: a change has whatever was not the same between them for its cause.", style="dim")


def print_gates(found: Comparison, console: Console) -> None:
    for outcome, line in zip(found.gates, describe_gates(found), strict=True):
        console.print(line, style="bold green" if outcome.met else "bold red")


def describe_gates(found: Comparison) -> list[str]:
    """A sentence each."""
    of = "contrast" if any(change.of == "contrast" for change in found.changes) else "treatment"
    name = "comparison" if of == "contrast" else "treatment"
    asked = [change for change in found.changes if change.of == of and change.primary]
    unknown = sum(change.interval is None for change in asked)
    rest = f"; of {figures.format_count(unknown, name)} nothing can be said" if unknown else ""
    told = [change for change in asked if change.interval is not None]
    undecided = sum(change.verdict is Verdict.UNDECIDED for change in told)
    rest += f"; {undecided} of {len(told)} {'is' if undecided == 1 else 'are'} undecided" if undecided else ""
    failing = sum(change.failed * change.blocks_before > change.failed_before * change.blocks for change in asked)
    rest += (
        f"; {figures.format_count(failing, name)} failed more often than before, though not surely" if failing else ""
    )
    lines = [describe_outcome(outcome, name, "before", rest) for outcome in found.gates]
    reasons = sorted(
        {_explain_reason(one) for one in asked if one.interval is None or one.verdict is Verdict.UNDECIDED} - {""}
    )
    return [
        line if outcome.met or not reasons else f"{line} ({'; '.join(reasons)})"
        for line, outcome in zip(lines, found.gates, strict=True)
    ]


def make_labels(found: Comparison, runs: Sequence[StoredRun]) -> Labels:
    sides = [(one.treatment, one.reference) for one in found.changes]
    sides += [(one.treatment, one.reference) for one in found.alone]
    kinds = {key: kind for run in runs for key, kind in find_response_kinds(run.manifest.plan).items()}
    return Labels.from_treatments((side for pair in sides for side in pair), kinds)


def name_change(change: ResponseChange, found: Comparison, labels: Labels) -> str:
    """ "web, docker vs host"; the workload where there are several."""
    has_several = len({one.workload for one in found.changes}) > 1
    where = f"{words.name_workload(change.workload)}, " if has_several else ""
    return where + (labels.name_treatment(change.treatment) if change.of == "treatment" else labels.name_versus(change))


def tell_verdict(change: ResponseChange) -> tuple[str, Tone]:
    """In words, with what it means."""
    if change.verdict is Verdict.WITHDRAWN:
        return "withdrawn", "worse"
    tone = words.choose_tone(change)
    if change.verdict is Verdict.NOT_WORSE:
        return "not worse", tone
    return f"{change.verdict}{f', {tone}' if tone in ('better', 'worse') else ''}", tone


def describe_change(change: ResponseChange, shared: Sequence[str] = ()) -> str:
    """How large it is, why there is no verdict, and what it is warned of but for what is `shared` with others."""
    if not _has_estimate(change):
        what = "" if change.verdict is Verdict.WITHDRAWN else "cannot be compared; "
        return f"{what}{_explain_reason(change)}"
    texts = [warning.text for warning in change.warnings if warning.text not in shared]
    return f"{describe_size(change)}{''.join(f'; {one}' for one in (_explain_reason(change), *texts) if one)}"


def describe_size(change: ResponseChange) -> str:
    """ "0.90 × what it was (0.88 to 0.92)", "changed by +0.2 points (+0.1 to +0.3)"."""
    number, bracket, interval = words.format_estimate(change).partition(" (")
    if number == figures.UNBOUNDED:
        to = "ratio to" if change.scale == "ratio" else "difference from"
        became = f"has no typical {to} what it was"  # a failure has no size
    else:
        became = f"{number} what it was" if change.scale == "ratio" else f"changed by {number}"
    return f"{became}{bracket}{interval}"


def _print_run(when: str, run: StoredRun, state: State, console: Console) -> None:
    manifest = run.manifest
    line = Text(f"{when}: {words.strip_controls(manifest.study.name)} of {manifest.created}: ", overflow="fold")
    line.append_text(counts_line(count(run.records)))
    if state != "ended":
        planned = figures.format_count(manifest.plan.trials, "trial")
        line.append(f"; {state}, {'at most ' if manifest.plan.looks else ''}{planned} were planned", "yellow")
    console.print(line)
    console.print(f"  folder: {words.strip_controls(run.name)}", soft_wrap=True)


def _group_warnings(warnings: Sequence[RunWarning], runs: int) -> list[tuple[str, str]]:
    """Each with those of so many runs that it is of: what is the same of several is told once."""
    runs_of: dict[str, list[str]] = {}
    for warning in warnings:
        which = f"{warning.run} ({words.strip_controls(warning.folder)})" if runs > 2 else warning.run
        runs_of.setdefault(warning.text, []).append(which)
    return [(text, "each run" if len(of) == runs > 2 else figures.join_listing(of)) for text, of in runs_of.items()]


def _print_apart(rows: Sequence[FairnessRow], console: Console) -> None:
    if not rows:
        console.print("no recorded fact of study, software, host or machines differs between the two")
        return
    console.print(Text("Other differences", style="bold"))
    for row in rows[:_ROWS]:
        values = " → ".join(_shorten_text(row.values.get(when, "not there")) for when in (BEFORE, AFTER))
        text = f"{words.strip_controls(row.group)}, {words.strip_controls(row.fact)}: {values}"
        console.print(Padding(text, (0, 0, 0, 2), expand=False))
    if len(rows) > _ROWS:
        console.print(f"  and {len(rows) - _ROWS} more: --json has them")


def _print_alone(lone: Sequence[UnsharedComparison], labels: Labels, console: Console) -> None:
    """Treatments, and comparisons of such as both runs have: what they are and in which workloads."""
    without = {(one.run, one.workload, key_of(one.treatment)) for one in lone if one.of == "treatment"}
    primaries = {(one.workload, one.response) for one in lone}
    rows: dict[tuple[str, str], list[str]] = {}
    for one in lone:
        sides = [one.treatment] if one.of == "treatment" else [one.treatment, one.reference]
        if one.of == "contrast" and any((one.run, one.workload, key_of(side)) in without for side in sides):
            continue
        what = f"{one.run}: {' against '.join(labels.name_treatment(side) for side in sides)}"
        why = f"; left out of the other, {words.strip_controls(one.why)}" if one.why else ""
        asked = words.name_workload(one.workload)
        if sum(workload == one.workload for workload, _ in primaries) > 1:  # of which another response is asked
            asked += f" ({labels.name_response(one.workload, one.response)})"
        rows.setdefault((what, why), []).append(asked)
    if rows:
        console.print(Text("Only one of the runs was to measure it", style="bold"))
    for (what, why), names in list(rows.items())[:_ROWS]:
        console.print(Padding(f"{what}: {', '.join(names)}{why}", (0, 0, 0, 2), expand=False))
    if len(rows) > _ROWS:
        console.print(f"  and {len(rows) - _ROWS} more: --json has them")


def _shorten_text(text: str) -> str:
    text = words.strip_controls(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _list_shared(changes: Sequence[ResponseChange]) -> list[str]:
    """What there is to be warned of in each of several changes that something can be said of."""
    first, *others = [[warning.text for warning in one.warnings] for one in changes if _has_estimate(one)] or [[]]
    return [text for text in first if others and all(text in texts for texts in others)]


def _print_change(change: ResponseChange, what: str, shared: Sequence[str], labels: Labels, console: Console) -> None:
    verdict, tone = tell_verdict(change)
    line = Text.assemble(
        (f"{words.SIGNS[tone]} {verdict}", STYLES[tone]),
        f"  {what}: {labels.name_response(change.workload, change.response)} {describe_change(change, shared)}",
    )
    console.print(Padding(line, (0, 0, 0, 2), expand=False))


def _has_estimate(change: ResponseChange) -> bool:
    return change.ratio is not None or change.difference is not None


_REASONS = {
    "not-positive": "a value of the run {when} is zero or negative, so it has no ratio",
    "withdrawn": "in the run {when} it failed so often that it was measured no more",
    "not-finite": "a value of the run {when}, or what is made of it, is not a finite number",
    "censored": "a value of the run {when} is only known to lie beyond what was tried",
    "units-differ": "its unit, direction or scale in the run {when} is another one",
    "too-few-blocks": "too few blocks of the run {when} have it to tell",
}
"""Why there is no verdict, where one of the runs is the reason."""


def _explain_reason(change: ResponseChange) -> str:
    """Why there is no verdict, or ""."""
    if change.reason == "no-margin" and change.of == "treatment":
        return "its median was 0, so a margin in percent of it means nothing"
    if change.reason == "too-few-runs":
        return f"too few runs to tell; it takes {change.needs_runs} a side"
    if change.reason == "failures-unlike":
        return "it fails in another share of its blocks"
    if change.because_of and change.reason in _REASONS:
        return _REASONS[change.reason].format(when=change.because_of)
    return words.explain_undecided(change)


def _small_print(changes: Sequence[ResponseChange], has_several: bool) -> str:
    having = [change for change in changes if _has_estimate(change)]
    if not having:
        return "nothing can be compared"
    before, after = (
        _format_range(sizes) for sizes in zip(*((one.blocks_before, one.blocks) for one in having), strict=True)
    )
    blocks = f"{before} and {after} blocks"
    if has_several:
        runs = (_format_range(sizes) for sizes in zip(*((one.runs_before, one.runs) for one in having), strict=True))
        blocks = f"{' and '.join(runs)} runs of {blocks}; each run counts as one value"
    levels = dict.fromkeys(change.level for change in changes if change.interval is not None)
    if not levels:
        return blocks
    intervals = figures.join_listing(figures.format_percent(1 - level) for level in levels)
    which = " (those by which a gate goes share the level)" if len(levels) > 1 else ""
    return f"{blocks}; in brackets the {intervals} interval{which}"


def _format_range(sizes: Sequence[int]) -> str:
    return str(min(sizes)) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
