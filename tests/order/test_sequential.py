"""A sequential run: it stops when all is decided, goes on while it is not, and is resumed as it would have gone on."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.lab.changes import ledger
from nearmetal.model import Cause, TrialRecord, TrialStatus
from nearmetal.report import report_input as report
from nearmetal.report.write import render
from nearmetal.run import boot, plan_execution
from nearmetal.run.blame import Fault
from nearmetal.run.events import TrialEnded
from nearmetal.run.plan_execution import RunCourse
from nearmetal.store import runs
from nearmetal.store.events import BlockEnded, Event, LookTaken, Withdrawn
from nearmetal.store.journal import read_events as journaled
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from tests import journals
from tests.order import mock_run

pytestmark = pytest.mark.usefixtures("one_picture")

SEQUENTIAL = mock_run.STUDY.replace("blocks = 2", "blocks = { min = 6, max = 12 }")
ALIKE = SEQUENTIAL.replace("speed = 0.5", "noise = 0.3")


@pytest.fixture(autouse=True)
def the_same_noise_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretended noise follows machines' names, and these the lab's token: by chance alike would be called different."""
    numbers = itertools.count(1)
    monkeypatch.setattr(ledger, "new_token", lambda: f"{next(numbers):06x}")


def looked(events: list[Event]) -> list[tuple[int, int, bool]]:
    return [(event.blocks, event.undecided, event.stops) for event in events if isinstance(event, LookTaken)]


def trials(path: Path) -> list[int]:
    listed, _ = runs.list_entries([path])
    return [listed[0].trials, listed[0].planned]


async def test_it_stops_at_the_look_at_which_all_is_decided(tmp_path: Path) -> None:
    events, records = await mock_run.run(tmp_path / "run", SEQUENTIAL)
    assert looked(events) == [(8, 0, True)]
    assert {record.trial.block for record in records} == set(range(8))
    assert trials(tmp_path / "run") == [16, 16]


class Unread(list[TrialRecord]):
    def __iter__(self) -> NoReturn:
        pytest.fail("all records are read after each block: of ten thousand that takes minutes")


async def test_after_a_block_without_a_look_no_record_is_read(tmp_path: Path) -> None:
    await mock_run.run(tmp_path / "run")
    course = RunCourse(RunFolder(tmp_path / "run"), ())
    course.records = Unread(course.records)
    assert [course.look_after(ran) for ran in (1, 2)] == [False, False]
    course.end_run(False)


async def test_it_goes_on_to_the_most_while_something_is_open(tmp_path: Path) -> None:
    events, records = await mock_run.run(tmp_path / "run", ALIKE)
    assert looked(events) == [(8, 1, False), (12, 1, False)]
    assert {record.trial.block for record in records} == set(range(12))


@pytest.mark.parametrize("after", [pytest.param(3, marks=pytest.mark.long), 16])
async def test_what_was_interrupted_stops_where_it_would_have(tmp_path: Path, after: int) -> None:
    """In the midst of a block, and between the last trial before a look and the look."""
    ended = 0

    def interrupt(event: Event) -> None:
        nonlocal ended
        ended += isinstance(event, TrialEnded)
        if ended == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await mock_run.run(tmp_path / "run", SEQUENTIAL, interrupt)
    events, records = await mock_run.resume(tmp_path / "run")
    assert looked(events) == [(8, 0, True)]
    assert len(records) == 16
    assert trials(tmp_path / "run") == [16, 16]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept") / "run"


@pytest.fixture
async def stopped(kept: Path, tmp_path: Path) -> Path:
    """A run that stopped at its first look. It takes most of a second, and is made once."""
    if not kept.exists():
        await mock_run.run(kept, SEQUENTIAL)
    return Path(shutil.copytree(kept, tmp_path / "run"))


async def test_what_has_stopped_does_not_go_on(stopped: Path) -> None:
    events, records = await mock_run.resume(stopped)
    assert looked(events) == []
    assert len(records) == 16
    taken = [event for event in journaled(RunFolder(stopped).journal) if event["event"] == "LookTaken"]
    assert len(taken) == 1


async def test_a_treatment_that_is_withdrawn_is_not_waited_for(tmp_path: Path) -> None:
    """Not even to the first look: nothing that is still to come could be seen there."""
    broken = SEQUENTIAL.replace("speed = 0.5", 'label = "s"\nfault = "create"\nfault_on = [1, 2, 3]')
    events, records = await mock_run.run(tmp_path / "run", broken)
    assert any(isinstance(event, Withdrawn) for event in events)
    assert looked(events) == [(3, 0, True)]
    assert {record.trial.block for record in records} == {0, 1, 2}
    assert sum(record.status is TrialStatus.OK for record in records) > 0
    (contrast,) = report.read_run_input(RunFolder(tmp_path / "run")).analysis.contrasts
    assert (contrast.verdict, contrast.reason) == (Verdict.WITHDRAWN, None)
    listed, _ = runs.list_entries([tmp_path / "run"])
    assert (listed[0].state, listed[0].planned) == ("ended", 6)


WITHDRAWN_LATE = mock_run.STUDY.replace("blocks = 2", "blocks = { min = 8, max = 16 }").replace(
    """[factors]
environment = ["base", "slow"]""",
    """[environments.bad]
kind = "mock"
label = "b"
noise = 0.3
fault = "create"
fault_on = [10, 11, 12]
[factors]
environment = ["base", "slow", "bad"]""",
)
"""After the first look, before the second; all else is decided at the first."""


@pytest.fixture
def host_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    """For machines that do not come up, so that a block is tried three times and its treatment withdrawn after it."""

    def find_fault(error: Exception, *_: object) -> Fault:
        return Fault(Cause.HOST_CANNOT, str(error))

    monkeypatch.setattr(boot, "find_fault", find_fault)


def change(folder: Path, of_line: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> list[Contrast]:
    """Write its journal anew, line by line; what is concluded then."""
    journal = RunFolder(folder).journal
    with journals.changed(journal) as lines:
        lines[:] = [new for line in lines for new in of_line(line)]
    return [one for one in report.read_run_input(RunFolder(folder)).analysis.contrasts if one.primary]


def nearly_decided(line: dict[str, Any]) -> list[dict[str, Any]]:
    """The one that is withdrawn was better in the first block and worse in the others, which the second look tells."""
    if line["schema"].startswith("record.") and line["status"] == "ok":
        is_bad, first = line["trial"]["treatment"]["environment"] == "bad", line["trial"]["block"] == 0
        size = {"base": 1.0, "slow": 0.5, "bad": 1.001 if first else 0.9}
        wobble = 1 + line["trial"]["block"] / 1000 * is_bad
        line["responses"]["throughput"]["value"] = 100 * wobble * size[line["trial"]["treatment"]["environment"]]
    return [line]


def as_if_waited(line: dict[str, Any]) -> list[dict[str, Any]]:
    """Two more blocks of the others, and the second look in its place."""
    if line.get("event") == "LookTaken" and line["look"] == 2:
        return [line | {"blocks": 12}]
    if line["schema"].startswith("record.") and line["trial"]["block"] == 9 and line["status"] == "ok":
        trial = line["trial"]
        more = [trial | {"block": block, "id": f"{trial['id']}-{block}"} for block in (10, 11)]
        return [line, *(line | {"trial": another} for another in more)]
    return [line]


@pytest.mark.usefixtures("host_to_blame")
async def test_it_ends_when_all_that_is_open_was_withdrawn_and_says_what_it_would_have_said(tmp_path: Path) -> None:
    """The next look is taken at once, on the same values: it decides what it would have decided."""
    events, _ = await mock_run.run(tmp_path / "run", WITHDRAWN_LATE)
    assert looked(events)[-1] == (10, 0, True)
    at_once = change(tmp_path / "run", nearly_decided)
    waited = change(tmp_path / "run", as_if_waited)
    verdicts = [
        [(one.verdict, one.ratio, one.interval, one.p, one.look, one.blocks) for one in each]
        for each in (at_once, waited)
    ]
    assert verdicts[0] == verdicts[1]
    assert [(one.verdict, one.look, one.blocks) for one in at_once] == [
        (Verdict.DIFFERENT, 1, 8),
        (Verdict.WITHDRAWN, 2, 9),
    ]


async def test_it_does_not_end_while_another_comparison_is_open(tmp_path: Path) -> None:
    events, _ = await mock_run.run(tmp_path / "run", WITHDRAWN_LATE.replace("speed = 0.5", "noise = 0.3"))
    assert [blocks for blocks, _, _ in looked(events)] == [8, 12, 16]


@pytest.mark.usefixtures("host_to_blame")
@pytest.mark.parametrize("kind", [Withdrawn, pytest.param(BlockEnded, marks=pytest.mark.long)])
async def test_what_was_interrupted_after_a_withdrawal_ends_where_it_would_have(
    tmp_path: Path, kind: type[Event]
) -> None:
    withdrawn = False

    def interrupt(event: Event) -> None:
        nonlocal withdrawn
        withdrawn = withdrawn or isinstance(event, Withdrawn)
        if withdrawn and isinstance(event, kind):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await mock_run.run(tmp_path / "run", WITHDRAWN_LATE, interrupt)
    events, records = await mock_run.resume(tmp_path / "run")
    assert looked(events) == [(10, 0, True)]
    assert {record.trial.block for record in records} == set(range(10))
    events, records = await mock_run.resume(tmp_path / "run")
    assert (looked(events), len({record.trial.block for record in records})) == ([], 10)


async def test_the_report_says_when_no_look_could_decide_anything(tmp_path: Path) -> None:
    events, _ = await mock_run.run(
        tmp_path / "run", SEQUENTIAL.replace("{ min = 6, max = 12 }", "{ min = 1, max = 2 }")
    )
    assert looked(events) == [(2, 1, False)]
    text = render(RunFolder(tmp_path / "run"), "md")
    assert isinstance(text, str)
    assert "one at the end, and with at most 2 blocks it cannot decide anything" in text


def test_a_look_is_none_where_the_plan_has_none(stopped: Path) -> None:
    folder = RunFolder(stopped)
    assert plan_execution.take_look_after(7, folder.read_manifest(), list(read_records(folder.journal)), []) is None


def test_the_report_says_when_it_looked_and_what_a_look_had_to_see(stopped: Path) -> None:
    text = render(RunFolder(stopped), "md")
    assert isinstance(text, str)
    assert "| 8 | different, worse | decided at look 1; " in text
    assert r"8 (\|W+ − W−\| ≥ 32, p ≤ 0.023) and 12 (\|W+ − W−\| ≥ 54, p ≤ 0.034)" in text
    assert "their p and intervals only describe" in text
    assert "a verdict rests on those before the look" in text
    assert "planned blocks have it" not in text and "planned blocks were begun" not in text
    page = render(RunFolder(stopped), "html")
    assert "8 of at most 12 blocks" in page
