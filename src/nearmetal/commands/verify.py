"""`nearmetal verify`: whether a run's folder is as it was written."""

from pathlib import Path

from nearmetal.console.printing import console_for, print_json, unfold_console
from nearmetal.errors import ExitCode
from nearmetal.report import figures, words
from nearmetal.store.verify import Verification
from nearmetal.store.verify import verify as verify_run

_NAMED = 20
"""Of files that no record names, so many are shown; `--json` has them all."""


def verify(path: Path, as_json: bool) -> int:
    """BAD_INPUT when anything is damaged."""
    with console_for(True).status("looking at the run") as status:
        found = verify_run(path, lambda what: status.update(f"looking at {what}"))
    if as_json:
        print_json(found)
    else:
        _print_verification(found)
    return ExitCode.DONE if found.is_whole else ExitCode.BAD_INPUT


def _print_verification(found: Verification) -> None:
    console = unfold_console(console_for(False))
    for one in found.damaged:
        console.print(f"{words.strip_controls(one.file)}: {words.strip_controls(one.what)}", style="red")
    for name in found.unknown[:_NAMED]:
        console.print(f"{words.strip_controls(name)}: no record names it", style="yellow")
    if (more := len(found.unknown) - _NAMED) > 0:
        console.print(f"and {figures.format_count(more, 'more file')} that no record names", style="yellow")
    if found.without_checksum:
        lines = figures.format_count(found.without_checksum, "line")
        console.print(f"{lines} of an earlier version without a checksum: whether they were changed cannot be told")
    counts = ", ".join(
        (
            figures.format_count(found.trials, "trial"),
            f"{figures.format_count(found.lines, 'line')} of the journal",
            figures.format_count(found.artifacts, "file"),
        )
    )
    if found.is_whole:
        console.print(f"whole: {counts}", style="green")
    else:
        damaged = figures.format_count(len(found.damaged), "damage")
        console.print(
            f"{damaged} in {counts}; restore what is damaged from a copy of the run's folder", style="bold red"
        )
