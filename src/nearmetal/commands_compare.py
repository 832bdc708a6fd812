"""`nearmetal compare`: two runs of a study, what changed from one to the other, and what else was not the same."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from nearmetal.analysis.apart import AFTER, BEFORE
from nearmetal.analysis.results import FairnessRow
from nearmetal.analysis.two_runs import Change, Compared, Ran
from nearmetal.analysis.two_runs import compare as compared
from nearmetal.errors import BadInput, ExitCode
from nearmetal.printing import console_for, print_json
from nearmetal.report import figures, words
from nearmetal.report.terminal import SIGNS, STYLES
from nearmetal.report.words import Labels
from nearmetal.store import journal
from nearmetal.store.folder import RunFolder

_ROWS = 12
"""What else is not the same is told up to here; `--json` has it all."""
_LONGEST = 60
"""Characters of a value that are shown."""


def compare(before: Path, after: Path, margin: float | None, gate: bool, as_json: bool) -> int:
    """GATE_NOT_MET where a gate is asked for and something is surely worse, by more than the margin."""
    if before.resolve() == after.resolve():
        raise BadInput("both are the same run", str(after), "name two runs; `nearmetal ls` lists them")
    folders = [RunFolder.open(before), RunFolder.open(after)]
    ran = [Ran(folder.manifest(), tuple(journal.records(folder.journal))) for folder in folders]
    found = compared(ran[0], ran[1], (str(before), str(after)), margin)
    if not found.changes:
        raise BadInput(
            "these runs have nothing in common that could be compared",
            f"{before} and {after}",
            "name two runs that share a treatment, a workload of the same name and its primary response",
        )
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        _print(found, ran, console_for(False))
        if gate:
            console_for(False).print(_of_gate(found), style="bold red" if found.worse else "bold green")
    return ExitCode.GATE_NOT_MET if gate and found.worse else ExitCode.DONE


def _of_gate(found: Compared) -> str:
    asked = "reference" if any(change.of == "contrast" for change in found.changes) else "self alone, before"
    if not found.worse:
        return f"gate met: nothing is surely worse against its {asked}, by more than the margin"
    number = figures.count(found.worse, "comparison")
    return f"gate not met: {number} surely worse against its {asked}, by more than the margin"


def _print(found: Compared, ran: Sequence[Ran], console: Console) -> None:
    for when, run, name in zip((BEFORE, AFTER), ran, (found.before, found.after), strict=True):
        manifest = run.manifest
        console.print(f"{when}: {name}, {words.plain(manifest.study.name)} of {manifest.created}", soft_wrap=True)
    _print_apart(found.apart, console)
    labels = Labels.of([side for change in found.changes for side in (change.treatment, change.reference)])
    has_several = len({change.workload for change in found.changes}) > 1
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
            _print_change(change, f"{where}{what}", console)
    console.print(_small_print(found.changes), style="dim")
    console.print(
        "Two runs are two occasions: a change has whatever was not the same between them for its cause.", style="dim"
    )


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


def _short(text: str) -> str:
    text = words.plain(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _print_change(change: Change, what: str, console: Console) -> None:
    tone = words.tone(change)
    line = Text.assemble(
        (f"{SIGNS[tone]} {words.verdict(change).text}", STYLES[tone]),
        f"  {what}: {words.response(change.response)} {_said(change)}",
    )
    console.print(Padding(line, (0, 0, 0, 2), expand=False))


def _said(change: Change) -> str:
    if change.ratio is None and change.difference is None:
        return f"cannot be compared; {words.reason(change)}"
    became = " what it was" if change.scale == "ratio" and change.of == "treatment" else ""
    reason = f"; {words.reason(change)}" if change.reason else ""
    estimate = words.estimate(change)
    number, bracket, interval = estimate.partition(" (")
    return f"{number}{became}{bracket}{interval}{reason}"


def _small_print(changes: Sequence[Change]) -> str:
    sizes = sorted({(change.blocks_before, change.blocks) for change in changes})
    before, after = sizes[0]
    blocks = f"{before} and {after} blocks" if len(sizes) == 1 else "blocks differ between comparisons"
    if all(change.interval is None for change in changes):
        return blocks
    return f"{blocks}; in brackets the {figures.percent(1 - changes[0].level)} interval"
