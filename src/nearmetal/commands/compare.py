"""`nearmetal compare`: two runs of a study, what changed from one to the other, and what else was not the same."""

import datetime
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from nearmetal.analysis.alone import Alone, Of, dropped
from nearmetal.analysis.apart import AFTER, BEFORE
from nearmetal.analysis.responses import count, key_of
from nearmetal.analysis.results import FairnessRow, Verdict
from nearmetal.analysis.two_runs import NOTHING_BEFORE, Change, Compared, Ran, WarnedOf, in_both, is_unjudged
from nearmetal.analysis.two_runs import compare as compared
from nearmetal.errors import BadInput, ExitCode
from nearmetal.printing import console_for, print_json, unfolded
from nearmetal.report import figures, words
from nearmetal.report.terminal import SIGNS, STYLES, counts_line
from nearmetal.report.words import Labels, find_response_kinds
from nearmetal.store import journal, runs
from nearmetal.store.folder import RunFolder

_TWO_RUNS = "name two runs; `nearmetal ls` lists them"
_ROWS = 12
"""What else is not the same is told up to here; `--json` has it all."""
_LONGEST = 60
"""Characters of a value that are shown."""
_TOLD_ELSEWHERE = frozenset({"unfinished", "blocks-missing"})
"""Codes of a run as a whole that its number of trials stands for, and the number of blocks of each comparison."""


def _read(folder: RunFolder) -> Ran:
    records, events = journal.read(folder.journal)
    return Ran(folder.manifest().with_facts(events), records, events)


def compare(before: Path, after: Path, margin: float | None, gate: bool, as_json: bool) -> int:
    """GATE_NOT_MET where a gate is asked for and something is surely worse, gone, or cannot be judged any more."""
    folders = [RunFolder.open(before), RunFolder.open(after)]
    if before.resolve() == after.resolve():
        raise BadInput("both are the same run", str(after), _TWO_RUNS)
    ran = [_read(folder) for folder in folders]
    if copied := in_both(*ran):
        what = f"both are the same run: they share {figures.count(copied, 'trial')}"
        raise BadInput(what, str(after), _TWO_RUNS)
    states = [runs.state(folder.journal) for folder in folders]
    found = compared(ran[0], ran[1], (str(before), str(after)), margin)
    if not found.changes:
        raise BadInput(
            "these runs have nothing in common that could be compared",
            f"{before} and {after}",
            "name two runs that share a treatment, a workload of the same name and its primary response",
        )
    if all(change.reason == NOTHING_BEFORE for change in found.changes):
        raise BadInput(
            "no good trial of what both runs were to measure",
            str(before),
            "`nearmetal show` says what became of its trials",
        )
    is_missed = bool(found.worse or found.gone or found.unjudged)
    if as_json:
        print_json(found)
    else:
        console = unfolded(console_for(False))
        _print(found, ran, states, console)
        if gate:
            console.print(_of_gate(found), style="bold red" if is_missed else "bold green")
    return ExitCode.GATE_NOT_MET if gate and is_missed else ExitCode.DONE


def _of_gate(found: Compared) -> str:
    of: Of = "contrast" if any(map(_is_of_costs, found.changes)) else "treatment"
    name = "comparison" if of == "contrast" else "treatment"
    missed = []
    if found.worse:
        missed.append(f"{figures.count(found.worse, name)} surely worse than before, by more than the margin")
    unplanned = dropped(found.alone, of)
    if found.gone > unplanned:
        missed.append(f"{figures.count(found.gone - unplanned, name)} without a good trial after")
    if unplanned:
        missed.append(f"{figures.count(unplanned, name)} that the run after was not even to measure")
    if found.unjudged:
        reasons = sorted({_reason(change) for change in found.changes if change.of == of and is_unjudged(change)})
        missed.append(f"{figures.count(found.unjudged, name)} that cannot be judged any more: {', '.join(reasons)}")
    if missed:
        return f"gate not met: {'; '.join(missed)}"
    unknown = sum(change.of == of and change.interval is None for change in found.changes)
    rest = f"; of {figures.count(unknown, name)} nothing can be said" if unknown else ""
    told = [change for change in found.changes if change.of == of and change.interval is not None]
    undecided = sum(change.verdict == Verdict.UNDECIDED for change in told)
    rest += f"; {undecided} of {len(told)} {'is' if undecided == 1 else 'are'} undecided" if undecided else ""
    return f"gate met: no {name} is surely worse than before, by more than the margin{rest}"


def _is_of_costs(change: Change) -> bool:
    return change.of == "contrast"


def _has_estimate(change: Change) -> bool:
    return change.ratio is not None or change.difference is not None


def _print(found: Compared, ran: Sequence[Ran], states: Sequence[runs.State], console: Console) -> None:
    for when, run, name, state in zip((BEFORE, AFTER), ran, (found.before, found.after), states, strict=True):
        manifest = run.manifest
        line = Text(f"{when}: {words.plain(manifest.study.name)} of {manifest.created}: ", overflow="fold")
        line.append_text(counts_line(count(run.records)))
        if state != "ended":
            planned = figures.count(manifest.plan.trials, "trial")
            line.append(f"; {state}, {'at most ' if manifest.plan.looks else ''}{planned} were planned", "yellow")
        console.print(line)
        console.print(f"  folder: {words.plain(name)}", soft_wrap=True)
    began = [datetime.datetime.fromisoformat(run.manifest.created) for run in ran]
    if began[1] < began[0]:
        console.print("! the run named second is the older of the two", style="yellow")
    for text, of in _warned([one for one in found.warnings if one.code not in _TOLD_ELSEWHERE]):
        console.print(Text(f"! {of}: {words.plain(text)}", style="bold yellow", overflow="fold"))
    if found.apart or not found.alone:
        _print_apart(found.apart, console)
    sides = [(one.treatment, one.reference) for one in found.changes]
    sides += [(one.treatment, one.reference) for one in found.alone]
    kinds = {**find_response_kinds(ran[0].manifest.plan), **find_response_kinds(ran[1].manifest.plan)}
    labels = Labels.of((side for pair in sides for side in pair), kinds)
    has_several = len({change.workload for change in found.changes}) > 1
    shared = _shared(found.changes)
    for of, heading in (
        ("treatment", "Each treatment, after against before"),
        ("contrast", "Against its reference: what the whole host did in between drops out"),
    ):
        chosen = [change for change in found.changes if change.of == of]
        if chosen:
            console.print(Text(heading, style="bold"))
        for change in chosen:
            where = f"{words.workload(change.workload)}, " if has_several else ""
            what = labels.treatment(change.treatment) if of == "treatment" else labels.versus(change)
            _print_change(change, f"{where}{what}", shared, labels, console)
    for text in shared:
        console.print(Text(f"! in each of these: {text}", style="yellow", overflow="fold"))
    _print_alone(found.alone, labels, console)
    console.print(_small_print(found.changes), style="dim")
    console.print(
        "Two runs are two occasions: a change has whatever was not the same between them for its cause.", style="dim"
    )


def _warned(warnings: Sequence[WarnedOf]) -> list[tuple[str, str]]:
    """Each with the runs that it is of: what is the same of both is told once."""
    runs_of: dict[str, list[str]] = {}
    for warning in warnings:
        runs_of.setdefault(warning.text, []).append(warning.run)
    return [(text, figures.listing(of)) for text, of in runs_of.items()]


def _print_apart(rows: Sequence[FairnessRow], console: Console) -> None:
    if not rows:
        console.print("nothing else is known to differ between the two")
        return
    console.print(Text("What else is not the same", style="bold"))
    for row in rows[:_ROWS]:
        values = " → ".join(_short(row.values.get(when, "not there")) for when in (BEFORE, AFTER))
        text = f"{words.plain(row.group)}, {words.plain(row.fact)}: {values}"
        console.print(Padding(text, (0, 0, 0, 2), expand=False))
    if len(rows) > _ROWS:
        console.print(f"  and {len(rows) - _ROWS} more: --json has them")


def _print_alone(lone: Sequence[Alone], labels: Labels, console: Console) -> None:
    """Treatments, and comparisons of such as both runs have: what they are and in which workloads."""
    without = {(one.run, one.workload, key_of(one.treatment)) for one in lone if one.of == "treatment"}
    primaries = {(one.workload, one.response) for one in lone}
    rows: dict[tuple[str, str], list[str]] = {}
    for one in lone:
        sides = [one.treatment] if one.of == "treatment" else [one.treatment, one.reference]
        if one.of == "contrast" and any((one.run, one.workload, key_of(side)) in without for side in sides):
            continue
        what = f"{one.run}: {' against '.join(labels.treatment(side) for side in sides)}"
        why = f"; left out of the other, {words.plain(one.why)}" if one.why else ""
        asked = words.workload(one.workload)
        if sum(workload == one.workload for workload, _ in primaries) > 1:  # of which another response is asked
            asked += f" ({labels.response(one.workload, one.response)})"
        rows.setdefault((what, why), []).append(asked)
    if rows:
        console.print(Text("Only one of the runs was to measure it", style="bold"))
    for (what, why), names in list(rows.items())[:_ROWS]:
        console.print(Padding(f"{what}: {', '.join(names)}{why}", (0, 0, 0, 2), expand=False))
    if len(rows) > _ROWS:
        console.print(f"  and {len(rows) - _ROWS} more: --json has them")


def _short(text: str) -> str:
    text = words.plain(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _shared(changes: Sequence[Change]) -> list[str]:
    """What there is to be warned of in each of several changes that something can be said of."""
    first, *others = [[warning.text for warning in one.warnings] for one in changes if _has_estimate(one)] or [[]]
    return [text for text in first if others and all(text in texts for texts in others)]


def _print_change(change: Change, what: str, shared: Sequence[str], labels: Labels, console: Console) -> None:
    tone = words.tone(change)
    line = Text.assemble(
        (f"{SIGNS[tone]} {words.verdict(change).text}", STYLES[tone]),
        f"  {what}: {labels.response(change.workload, change.response)} {_said(change, shared)}",
    )
    console.print(Padding(line, (0, 0, 0, 2), expand=False))


def _said(change: Change, shared: Sequence[str]) -> str:
    if not _has_estimate(change):
        return f"cannot be compared; {_reason(change)}"
    number, bracket, interval = words.estimate(change).partition(" (")
    became = f"{number} what it was" if change.scale == "ratio" else f"changed by {number}"
    texts = [warning.text for warning in change.warnings if warning.text not in shared]
    return f"{became}{bracket}{interval}{''.join(f'; {one}' for one in (_reason(change), *texts) if one)}"


_REASONS = {
    "not-positive": "a value of the run {when} is zero or negative, so it has no ratio",
    "not-finite": "a value of the run {when}, or what is made of it, is not a finite number",
    "censored": "a value of the run {when} is only known to lie beyond what was tried",
    "units-differ": "its unit, direction or scale in the run {when} is another one",
    "too-few-blocks": "too few blocks of the run {when} have it to tell",
}
"""Why there is no verdict, where one of the runs is the reason."""


def _reason(change: Change) -> str:
    """Why there is no verdict, or ""."""
    if change.reason == "no-margin" and not _is_of_costs(change):
        return "its median was 0, so a margin in percent of it means nothing"
    if change.because_of and change.reason in _REASONS:
        return _REASONS[change.reason].format(when=change.because_of)
    return words.reason(change)


def _small_print(changes: Sequence[Change]) -> str:
    having = [change for change in changes if _has_estimate(change)]
    if not having:
        return "nothing can be compared"
    before, after = (_range(sizes) for sizes in zip(*((one.blocks_before, one.blocks) for one in having), strict=True))
    blocks = f"{before} and {after} blocks"
    if all(change.interval is None for change in changes):
        return blocks
    return f"{blocks}; in brackets the {figures.percent(1 - changes[0].level)} interval"


def _range(sizes: Sequence[int]) -> str:
    return str(min(sizes)) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
