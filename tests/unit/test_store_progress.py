"""A journal folded once: whoever shows a run has the same numbers."""

import shutil
from pathlib import Path

import pytest

from nearmetal.dashboard.run_history import RunHistory
from nearmetal.model import TrialStatus
from nearmetal.store import journal, runs
from nearmetal.store.progress import RunProgress
from nearmetal.store.run_folder import RunFolder
from tests.golden.pages import HERE, RUNS


@pytest.mark.parametrize("name", RUNS)
def test_terminal_dashboard_and_list_have_the_same_numbers(name: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / name)
    shutil.copytree(HERE / name, folder.path)
    manifest = folder.read_manifest()
    lines = journal.read_lines(folder.journal)
    progress = RunProgress.from_lines(lines)
    course = RunHistory(manifest.study, manifest.plan)
    for line in lines:
        course.take_line(line)
    (listed,), _ = runs.list_entries([folder.path])
    assert (course.trials, course.counts, course.is_over) == (progress.trials, progress.counts, progress.is_over)
    assert (listed.trials, listed.ok, listed.again) == (
        progress.trials,
        progress.counts[TrialStatus.OK],
        progress.repeated,
    )
    assert listed.state == runs.find_state(folder.journal) == ("ended" if progress.is_over else "interrupted")


def test_trials_of_repeated_blocks_are_counted_as_they_are_begun() -> None:
    progress = RunProgress()

    def begin(block: int, attempt: int) -> None:
        progress.take_line({"event": "BlockStarted", "block": block, "attempt": attempt, "trials": 4})

    progress.take_line({"event": "RunStarted"})
    begin(0, 0)
    assert progress.again == 0
    begin(0, 1)
    assert progress.again == 4
    # Nothing of it has a record yet when the run goes on, and the attempt begins anew.
    progress.take_line({"event": "RunResumed"})
    assert progress.again == 0
    begin(0, 1)
    assert progress.again == 4


def test_records_and_events_are_read_in_their_order() -> None:
    path = HERE / "sequential" / "journal.jsonl"
    lines = journal.read_lines(path)
    assert len(lines) == len(path.read_text().splitlines())
    trials, events = journal.read_journal(path)
    assert [one for one in lines if one in trials] == list(trials)
    assert len(trials) + len(events) == len(lines)
