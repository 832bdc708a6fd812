"""What a terminal shows of a run that goes on: a bar at any width, and estimates that are no verdicts."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from nearmetal.console.run_progress_display import RunProgressDisplay
from nearmetal.console.running_estimates import RunningEstimates
from nearmetal.run.events import Step, TrialEnded
from nearmetal.store.events import BlockEnded, BlockStarted, BootStarted
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from tests import plausible_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return plausible_run.make(tmp_path_factory.mktemp("run") / "run", blocks=10, faults=False)


def test_estimates_come_with_intervals_as_soon_as_blocks_suffice(run: RunFolder) -> None:
    estimates = RunningEstimates(run.read_manifest().plan)
    assert list(estimates.list_lines()) == []
    for record in read_records(run.journal):
        if record.trial.block < 2:
            estimates.take_record(record)
    first, *_ = estimates.list_lines()
    assert re.fullmatch("so far, no verdict: 0.9[0-9]* × web throughput, docker vs host", first)
    for record in read_records(run.journal):
        if record.trial.block >= 2:
            estimates.take_record(record)
    first, *others = estimates.list_lines()
    assert " × (0.9" in first and len(others) == 3


def test_of_a_block_that_is_repeated_the_last_attempt_counts(run: RunFolder) -> None:
    estimates = RunningEstimates(run.read_manifest().plan)
    once = [record for record in read_records(run.journal) if record.trial.block == 0]
    for record in once:
        estimates.take_record(record)
    (before, *_) = estimates.list_lines()
    for record in once:
        if record.trial.treatment["environment"] == "docker":
            halved = {name: replace(told, value=told.value / 2) for name, told in record.responses.items()}
            trial = replace(record.trial, attempt=1, id=record.trial.id[::-1])
            estimates.take_record(record.model_copy(update={"trial": trial, "responses": halved}))
    (after, *_) = estimates.list_lines()
    assert ": 0.9" in before and ": 0.4" in after


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_terminal_of_any_width_has_a_bar_and_estimates_below_it(width: int, run: RunFolder, tmp_path: Path) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None, legacy_windows=False)
    plan = run.read_manifest().plan
    with RunProgressDisplay(console, plan.trials, plan.blocks, 1.0, estimates=RunningEstimates(plan)) as watcher:
        watcher(BlockStarted(block=0, attempt=0, trials=6))
        watcher(BootStarted(block=0, attempt=0, treatment={"environment": "docker"}))
        watcher(Step(name="measure", state="begins"))
        for record in read_records(run.journal):
            watcher(TrialEnded(record=record))
        watcher(BlockEnded(block=0, attempt=0, whole=True))
        assert watcher._bar is not None
        watcher._bar.refresh()
    lines = re.sub(r"\x1b\[[0-9?;]*[a-zA-Z]", "", out.getvalue()).replace("\r", "\n").splitlines()
    assert any("━" in line and "60/60" in line for line in lines)
    assert any(line.startswith("so far, no verdict: 0.9") for line in lines)
