"""Runs of a study before and after, what changed, and what else was not the same."""

import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from nearmetal.analysis.changes import NOTHING_BEFORE
from nearmetal.analysis.gates import Gate
from nearmetal.analysis.run_comparison import StoredRun, find_copies, find_responses
from nearmetal.analysis.run_comparison import compare as compared
from nearmetal.console.printing import console_for, print_json, unfold_console
from nearmetal.errors import BadInput, ExitCode
from nearmetal.report import figures
from nearmetal.report.comparison import make_labels, print_comparison, print_gates
from nearmetal.report.gate_formats import GatePage, describe_compared, render_junit, render_markdown
from nearmetal.spelling import did_you_mean
from nearmetal.store import journal, runs
from nearmetal.store.run_folder import RunFolder
from nearmetal.system import pipes

Form = Literal["text", "md", "junit", "json"]

_TWO_RUNS = "name two runs; `nearmetal ls` lists them"


def _read(folder: RunFolder) -> StoredRun:
    records, events = journal.read_journal(folder.journal)
    return StoredRun(folder.read_manifest().with_facts(events), records, events, str(folder.named))


def compare_runs(
    before: Sequence[Path],
    after: Sequence[Path],
    margin: float | None = None,
    gates: Sequence[Gate] = (),
    form: Form = "text",
) -> int:
    """GATE_NOT_MET if a gate is not. BadInput where nothing can be compared, or a gate is about nothing."""
    places = [*before, *after]
    folders = [RunFolder.open(path) for path in places]
    if len({path.resolve() for path in places}) < len(places):
        raise BadInput("both are the same run", _first_again(places), _TWO_RUNS)
    read = [_read(folder) for folder in folders]
    if copy := find_copies(read):
        what = f"both are the same run: they share {figures.format_count(copy[1], 'trial')}"
        raise BadInput(what, copy[0].name, _TWO_RUNS)
    states = [runs.find_state(folder.journal) for folder in folders]
    refuse_unknown_responses(gates, find_responses(read))
    ran = read[: len(before)], read[len(before) :]
    found = compared(*ran, margin, gates)
    if not found.changes:
        raise BadInput(
            "these runs have nothing in common that could be compared",
            figures.join_listing(str(path) for path in places),
            "name two runs that share a treatment, a workload of the same name and its primary response",
        )
    if all(change.reason == NOTHING_BEFORE for change in found.changes):
        raise BadInput(
            "no good trial of what both runs were to measure",
            figures.join_listing(str(path) for path in before),
            "`nearmetal show` says what became of its trials",
        )
    if form == "json":
        print_json(found)
    elif form == "text":
        console = unfold_console(console_for(False))
        print_comparison(found, *ran, states, console)
        print_gates(found, console)
    else:
        print_page(describe_compared(found, make_labels(found, read), ran[1][0].manifest.study.name), form)
    return ExitCode.DONE if all(outcome.met for outcome in found.gates) else ExitCode.GATE_NOT_MET


def print_page(page: GatePage, form: str) -> None:
    """As "md" or "junit", on stdout."""
    text = render_junit(page) if form == "junit" else render_markdown(page)
    with suppress(BrokenPipeError):  # whoever reads it has had enough
        pipes.write_whole(sys.stdout.buffer, text.encode())


def refuse_unknown_responses(gates: Sequence[Gate], known: Collection[str]) -> None:
    """BadInput where a gate names a response that nothing has."""
    for gate in gates:
        if gate.response is not None and gate.response not in known:
            what = f"there is no response {gate.response!r}"
            raise BadInput(what, f"--gate={gate.text!r}", did_you_mean(gate.response, sorted(known), "choose one of"))


def _first_again(places: Sequence[Path]) -> str:
    resolved = [path.resolve() for path in places]
    return next(str(path) for number, path in enumerate(places) if resolved[number] in resolved[:number])
