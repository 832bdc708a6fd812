"""A run as a person watches it: what a terminal is told of its course, and of what is left."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from nearmetal.commands import run_action
from nearmetal.console.run_progress_display import RunProgressDisplay
from nearmetal.model import TrialRecord, TrialStatus
from nearmetal.run.events import Step, TrialEnded, TrialStarted
from nearmetal.store.events import BlockStarted, BootEnded, BootStarted, LeftBehind, LookTaken, Withdrawn
from nearmetal.store.journal import read_records
from nearmetal.store.progress import RunProgress
from nearmetal.store.run_folder import RunFolder
from tests.golden.make_run import FOLDER


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, _environ={"TERM": "dumb"})
    with RunProgressDisplay(console, trials=2, blocks=1, estimate=3.0) as watcher:
        watcher(BlockStarted(block=0, attempt=0, trials=2))
    assert out.getvalue() == "block 1/1: 2 trials, ~6 s left\n"


def test_a_run_that_goes_on_begins_where_it_stopped() -> None:
    out = io.StringIO()
    before = RunProgress.from_lines(list(read_records(RunFolder(FOLDER).journal))[:6])
    console = Console(file=out, force_terminal=True, width=80)
    with RunProgressDisplay(console, trials=8, blocks=4, estimate=2.0, progress=before):
        pass
    assert "6/8" in out.getvalue() and "0/8" not in out.getvalue() and "~4 s left" in out.getvalue()


def test_what_was_measured_again_takes_nothing_off_what_is_left() -> None:
    run = RunFolder(FOLDER)
    seen = list(read_records(run.journal))[:10]
    trials = [replace(one.trial, attempt=1, id=one.trial.id[::-1]) for one in seen[8:]]
    again = [one.model_copy(update={"trial": trial}) for one, trial in zip(seen[8:], trials, strict=True)]
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    with run_action.make_progress_display(
        run.read_manifest().study, run.read_manifest().plan, console, [*seen, *again]
    ):
        pass
    assert "12/18" in out.getvalue()


def test_steps_that_trials_share_are_part_of_what_is_left_once_for_each_boot() -> None:
    run = RunFolder(FOLDER)
    one = next(iter(read_records(run.journal)))

    def trial(id: str, attempt: int = 0, **changed: Any) -> TrialRecord:
        address = replace(one.trial, id=id, attempt=attempt)
        return one.model_copy(update={"trial": address, **changed})

    boot = {"create": 30_000_000_000, "verify": 2_000_000_000}
    shared = [trial(f"{number}", phases_ns={**boot, "measure": 10_000_000_000 + number}) for number in range(6)]
    short = trial("short", phases_ns=boot, status=TrialStatus.FAILED)
    other = trial("other", 1, phases_ns={"create": 7})
    manifest = run.read_manifest()
    console = Console(file=io.StringIO())
    for before, each in (([*shared, short], 92 / 6), ([short, *shared], 92 / 6), ([*shared, other], 92 / 7)):
        watcher = run_action.make_progress_display(manifest.study, manifest.plan, console, before)
        assert watcher._estimate == pytest.approx(each)
    none = run_action.make_progress_display(manifest.study, manifest.plan, console)
    assert run_action.make_progress_display(manifest.study, manifest.plan, console, [short])._estimate == none._estimate


def test_what_went_wrong_fits_into_the_terminal() -> None:
    out = io.StringIO()
    with RunProgressDisplay(Console(file=out, width=40), trials=8, blocks=4, estimate=2.0) as watcher:
        watcher(Withdrawn(treatment={"environment": "mock"}, reason="it was there and then it was not, " * 3))
    assert max(map(len, out.getvalue().splitlines())) <= 40


def test_what_a_machine_says_steers_no_terminal_of_a_run() -> None:
    bad = "\x1b]0;other\x07\x1b[2J"
    seen = next(iter(read_records(RunFolder(FOLDER).journal)))
    treatment = {"environment": "mock", "place": bad}
    trial = replace(seen.trial, treatment=treatment, workload=bad)
    failed = {"trial": trial, "status": TrialStatus.FAILED, "reason": bad}
    for is_terminal in (False, True):
        out = io.StringIO()
        console = Console(file=out, width=200, force_terminal=is_terminal, color_system=None)
        with RunProgressDisplay(console, trials=8, blocks=4, estimate=2.0) as watcher:
            watcher(BlockStarted(block=0, attempt=0, trials=2))
            watcher(BootStarted(block=0, attempt=0, treatment=treatment))
            watcher(TrialStarted(trial=trial))
            watcher(Step(name="measure", state="begins"))
            watcher(TrialEnded(record=seen.model_copy(update=failed)))
            watcher(Withdrawn(treatment=treatment, reason=bad))
            watcher(LeftBehind(what=bad))
            watcher(BootEnded(block=0, attempt=0, treatment=treatment, phases_ns={}))
        assert "left behind" in out.getvalue()
        assert not any(mark in out.getvalue() for mark in ("\x1b]", "\x07", "\x1b[2J"))


def test_a_run_that_may_stop_early_says_when_it_looked() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80)
    with RunProgressDisplay(console, trials=80, blocks=40, estimate=3.0, looks=6) as watcher:
        watcher(BlockStarted(block=7, attempt=0, trials=2))
        watcher(LookTaken(look=1, blocks=8, decided=1, undecided=2, stops=False))
        watcher(LookTaken(look=2, blocks=12, decided=3, undecided=0, stops=True))
    assert out.getvalue().splitlines() == [
        "block 8/40: 2 trials, at most ~4 min 0 s left",
        "look 1/6, after 8 blocks: 1 decided, 2 open",
        "look 2/6, after 12 blocks: 3 decided, no more blocks",
    ]
