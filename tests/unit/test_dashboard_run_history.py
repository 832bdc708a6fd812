"""A journal folded line by line: what is done, what goes on, what went wrong."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nearmetal.dashboard import run_overview
from nearmetal.dashboard.early_verdicts import render_early_verdicts
from nearmetal.dashboard.run_history import Fate, RunHistory
from nearmetal.model import BlockPlan, Study, TrialAddress, TrialRecord, TrialStatus, identify_assignment
from nearmetal.planning import plan as planning
from nearmetal.report.words import Labels
from nearmetal.store.journal import read_events, read_records
from nearmetal.store.progress import TreatmentRow
from nearmetal.store.run_folder import RunFolder
from nearmetal.store.runs import describe_state
from nearmetal.study.blocks import plan_block
from nearmetal.study.study_file import read
from tests.golden.make_run import FOLDER
from tests.order import mock_run

TWO_WORKLOADS = mock_run.STUDY + '\n[[workloads]]\nname = "again"\nkind = "http"\nduration = "1s"\n'


def study(text: str = mock_run.STUDY) -> Study:
    return read(text, "order.toml")


@pytest.fixture
def course() -> RunHistory:
    """Of two treatments, `base` and `slow`, in two blocks; nothing has happened."""
    return new()


def new(text: str = mock_run.STUDY) -> RunHistory:
    return RunHistory(study(text), planning.make_plan(study(text)))


def event(name: str, at: float = 0.0, **what: Any) -> dict[str, Any]:
    return {"schema": "event.v1", "event": name, "at_ns": int(at * 1e9), **what}


def attempt(course: RunHistory, block: int, number: int) -> BlockPlan:
    return plan_block(course.plan, block, number)


def ended(block: BlockPlan, **statuses: TrialStatus) -> Iterator[TrialRecord]:
    """A record of each trial of a block, by environment."""
    for boot in block.boots:
        for trial in boot.trials:
            status = statuses.get(str(boot.treatment["environment"]), TrialStatus.OK)
            yield TrialRecord(
                trial=TrialAddress(
                    block=block.index, attempt=block.attempt, treatment=boot.treatment, **trial.model_dump()
                ),
                site="local",
                boot=None,
                status=status,
                reason=None if status is TrialStatus.OK else f"nm-0a1b2c-{block.attempt} went away",
                phases_ns={"measure": 2_000_000_000},
            )


def row(environment: str, workload: str = "web") -> TreatmentRow:
    return TreatmentRow(identify_assignment({"environment": environment}), workload)


def fates(course: RunHistory, environment: str, workload: str = "web") -> list[Fate]:
    return [place.fate for place in course.list_places(row(environment, workload))]


# ── The golden run ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_golden_run_has_ended_with_every_trial_in_its_place() -> None:
    folder = RunFolder(FOLDER)
    manifest = folder.read_manifest()
    course = RunHistory(manifest.study, manifest.plan)
    of_trials = {record.trial.id: record for record in read_records(folder.journal)}
    for line in map(json.loads, Path(folder.journal).read_text().splitlines()):
        course.take_line(of_trials[line["trial"]["id"]] if line["schema"].startswith("record.") else line)
    assert course.is_over
    assert course.to_come() == 0
    assert course.now is None
    assert course.counts == {TrialStatus.OK: len(of_trials)}
    assert [fates(course, name) for name in ("base", "slow")] == [[Fate.OK] * 8] * 2
    assert len(course.events) == len(list(read_events(folder.journal)))
    assert describe_state(course, is_measured=False) == "ended"
    assert run_overview.how_far(course) == "16 trials, 8 blocks"
    assert run_overview.list_troubles(course, Labels.from_treatments(manifest.plan.treatments)) == ([], 0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"responses": {}}, "no block has it on both sides"),
        ({"status": TrialStatus.FAILED}, "no block has a good trial of both"),
    ],
)
def test_a_run_in_which_nothing_can_be_compared_says_why(changes: dict[str, Any], reason: str) -> None:
    folder = RunFolder(FOLDER)
    manifest = folder.read_manifest()
    course = RunHistory(manifest.study, manifest.plan)
    for record in read_records(folder.journal):
        is_slow = record.trial.treatment["environment"] == "slow"
        course.take_line(record.model_copy(update=changes) if is_slow else record)
    course.take_line(event("RunEnded", interrupted=False))
    section, _ = render_early_verdicts(manifest, course, folder)
    assert section.lead == f"Nothing can be compared: {reason}."


def test_a_comparison_is_warned_of_what_is_its_own_beside_what_the_run_is_warned_of() -> None:
    folder = RunFolder(FOLDER)
    manifest = folder.read_manifest()
    course = RunHistory(manifest.study, manifest.plan)
    for record in read_records(folder.journal):
        again = record.model_copy(update={"trial": replace(record.trial, attempt=1)})
        course.take_line(again if record.trial.block == 2 else record)
    course.take_line(event("RunEnded", interrupted=False))
    section, report = render_early_verdicts(manifest, course, folder)
    assert "1 block was repeated after a bad trial" in str(report.analysis.warnings)
    told = str(section.blocks)
    assert "a later attempt counts for 1 of 8 blocks" in told and "was repeated" not in told


def test_what_an_analysis_of_the_primary_contrasts_takes_is_kept_and_no_more() -> None:
    folder = RunFolder(FOLDER)
    manifest = folder.read_manifest()
    course = RunHistory(manifest.study, manifest.plan)
    for record in read_records(folder.journal):
        course.take_line(record)
    kept = course.records[0]
    assert list(kept.responses) == ["throughput"]
    assert not kept.phases_ns and not kept.artifacts and not kept.observers


# ── While it goes on ──────────────────────────────────────────────────────────────────────────────────────────────


def test_before_anything_happens_everything_is_to_come(course: RunHistory) -> None:
    assert fates(course, "base") == [Fate.TO_COME, Fate.TO_COME]
    assert course.to_come() == 4
    assert describe_state(course, is_measured=False) == "interrupted"
    assert describe_state(course, is_measured=True) == "running"
    assert run_overview.time_left(course, None, 0) == ""
    assert run_overview.time_left(course, 30.0, 0) == "about 2 min 0 s left"


def test_the_boot_that_goes_on_is_told_with_its_trial(course: RunHistory) -> None:
    course.take_line(event("RunStarted"))
    course.take_line(event("BlockStarted", block=0, attempt=0, trials=2))
    course.take_line(event("BootStarted", at=5, block=0, attempt=0, treatment={"environment": "slow"}))
    labels = Labels.from_treatments(course.plan.treatments)
    assert course.find_running() == (row("slow"), 0)
    assert fates(course, "slow") == [Fate.RUNNING, Fate.TO_COME]
    assert run_overview.describe_activity(course, labels) == "web on slow, in block 1"
    strip = dict(run_overview.make_strips(course, labels, is_measured=True))["web"][1]
    assert (strip.squares[0].sign, strip.summary) == ("▶", "slow: 1 to come, 1 running")
    dead = dict(run_overview.make_strips(course, labels, is_measured=False))["web"][1]
    assert dead.squares[0].fate is Fate.TO_COME
    course.take_line(event("BootEnded", block=0, attempt=0, treatment={"environment": "slow"}, phases_ns={}))
    assert course.find_running() is None


def test_of_several_boots_of_a_treatment_the_one_is_meant_whose_turn_it_is() -> None:
    course = new(TWO_WORKLOADS)
    boots = [boot for boot in plan_block(course.plan, 0).boots if boot.treatment == {"environment": "slow"}]
    order = [boot.trials[0].workload for boot in boots]
    started = event("BootStarted", block=0, attempt=0, treatment={"environment": "slow"})
    course.take_line(started)
    assert course.find_running() == (row("slow", order[0]), 0)
    for record in ended(attempt(course, 0, 0)):
        if record.trial.treatment == {"environment": "slow"} and record.trial.workload == order[0]:
            course.take_line(record)
    assert course.find_running() is None, "its trial is over, and the next boot has not begun"
    course.take_line(started)
    assert course.find_running() == (row("slow", order[1]), 0)


def test_a_trial_in_a_boot_that_others_share_goes_on_since_the_one_before_it_ended() -> None:
    course = new(TWO_WORKLOADS.replace("[design]", "[design]\nshare_boot = true"))
    course.take_line(event("BootStarted", at=100, block=0, attempt=0, treatment={"environment": "slow"}))
    assert course.now is not None and course.now.since_ns == 100e9
    mine = [one for one in ended(attempt(course, 0, 0)) if one.trial.treatment == {"environment": "slow"}]
    boot = {"create": 3_000_000_001, "attach": 2_000_000_002}
    took = [{**boot, "prepare": 10**9, "measure": 7 * 10**9}, {**boot, "prepare": 2 * 10**9, "measure": 8 * 10**9}]
    starts = []
    for record, phases in zip(mine, took, strict=True):
        course.take_line(record.model_copy(update={"phases_ns": phases}))
        starts.append(course.now.since_ns / 1e9)
    assert starts == [pytest.approx(113), pytest.approx(123)]
    course.take_line(event("BootStarted", at=130, block=0, attempt=0, treatment={"environment": "base"}))
    assert course.now.since_ns == 130e9


def test_the_time_left_is_by_the_pace_of_this_session_alone(course: RunHistory) -> None:
    course.take_line(event("RunStarted", at=0))
    first, second = ended(attempt(course, 0, 0))
    course.take_line(first)
    course.take_line(event("RunEnded", at=1000, interrupted=True))
    assert describe_state(course, is_measured=False) == "interrupted"
    course.take_line(event("RunResumed", at=5000, finished=1))
    course.take_line(second)
    course.take_line(event("BootEnded", at=5010, block=0, attempt=0, treatment={"environment": "base"}, phases_ns={}))
    assert course.to_come() == 2
    assert run_overview.time_left(course, None, int(5010e9)) == "about 20 s left"
    assert run_overview.time_left(course, None, int(5014e9)) == "about 16 s left"
    hangs = run_overview.time_left(course, None, int(9000e9))
    assert hangs == "about 10 s left", "a trial that hangs does not bring the end nearer than the others take"
    assert run_overview.how_far(course) == "2 of 4 trials, block 1 of 2"


# ── What goes wrong ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_block_that_is_repeated_is_shown_by_its_latest_attempt(course: RunHistory) -> None:
    for record in ended(attempt(course, 0, 0), slow=TrialStatus.FAILED):
        course.take_line(record)
    assert fates(course, "slow") == [Fate.FAILED, Fate.TO_COME]
    assert course.to_come() == 2
    course.take_line(event("BlockEnded", block=0, attempt=0, whole=False))
    course.take_line(event("BlockStarted", block=0, attempt=1, trials=2))
    assert fates(course, "base") == fates(course, "slow") == [Fate.TO_COME, Fate.TO_COME]
    assert course.to_come() == 4, "both of it again, and the second block"
    for record in ended(attempt(course, 0, 1)):
        course.take_line(record)
    assert fates(course, "slow") == [Fate.OK, Fate.TO_COME]
    strips = dict(run_overview.make_strips(course, Labels.from_treatments(course.plan.treatments), is_measured=True))[
        "web"
    ]
    square = strips[1].squares[0]
    assert square.again
    assert square.said == ("block 1: failed after 2 s: nm-0a1b2c-0 went away; attempt 2 ok after 2 s")
    assert [(part.fate, part.count) for part in run_overview.make_bar(course)] == [
        (Fate.OK, 3),
        (Fate.FAILED, 1),
        (Fate.TO_COME, 2),
    ]


def test_what_is_withdrawn_is_not_to_come_any_more(course: RunHistory) -> None:
    for number in range(3):
        for record in ended(attempt(course, 0, number), slow=TrialStatus.LOST):
            course.take_line(record)
    course.take_line(event("Withdrawn", treatment={"environment": "slow"}, reason="it never came up"))
    assert fates(course, "slow") == [Fate.LOST, Fate.WITHDRAWN]
    assert course.to_come() == 1
    told, more = run_overview.list_troubles(course, Labels.from_treatments(course.plan.treatments))
    assert [(one.kind, one.about, one.where) for one in told] == [
        ("withdrawn", "slow", ""),
        ("lost", "slow, web", "3 times, last in block 1"),
    ]
    assert more == 0
    assert run_overview.describe_bad(course) == "3 lost"


def test_an_earlier_end_that_a_look_has_found_leaves_nothing_to_come(course: RunHistory) -> None:
    for record in ended(attempt(course, 0, 0)):
        course.take_line(record)
    course.take_line(event("LookTaken", look=1, blocks=1, decided=1, undecided=0, stops=True))
    assert fates(course, "base") == [Fate.OK, Fate.NOT_NEEDED]
    assert course.to_come() == 0


def test_what_a_later_version_says_changes_nothing(course: RunHistory) -> None:
    course.take_line(event("RunStarted"))
    course.take_line(event("SomethingNew", what="else"))
    assert course.phase == "RunStarted"
    assert course.lines == 2


def test_the_same_words_of_many_are_told_once_and_warnings_last(course: RunHistory) -> None:
    for record in ended(attempt(course, 0, 0), slow=TrialStatus.INVALID, base=TrialStatus.INVALID):
        course.take_line(record)
    for number, share in enumerate((1.2, 3.4)):
        warned = next(ended(attempt(course, 1, number))).model_dump()
        warned["warnings"] = [{"code": "steal", "text": f"the host took {share} % away"}]
        course.take_line(TrialRecord.model_validate(warned))
    course.take_line(event("LeftBehind", what="a namespace"))
    told, _ = run_overview.list_troubles(course, Labels.from_treatments(course.plan.treatments))
    assert [one.kind for one in told] == ["left behind", "invalid", "warning"]
    assert set(told[1].about.split("; ")) == {"base, web", "slow, web"}
    assert told[2].text == "the host took 1.2 to 3.4 % away", "as the report has it"
    assert told[2].where == "2 times, last in block 2"
