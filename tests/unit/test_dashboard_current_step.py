"""What the page says of the step that goes on, the values so far, and what a run can be asked."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from nearmetal.dashboard.run_view import RunView
from nearmetal.errors import BadInput
from nearmetal.model import TrialAddress, TrialRecord, TrialStatus
from nearmetal.run.dashboard_link import LiveNotes, wait_while_paused
from nearmetal.run.events import Step, TrialEnded, TrialStarted
from nearmetal.store.events import BootStarted, Event
from nearmetal.store.journal_lock import hold_journal
from nearmetal.store.run_control import LiveNote, forget_live, read_wish, write_wish
from nearmetal.store.run_folder import RunFolder
from tests.golden.make_run import FOLDER
from tests.unit.test_dashboard_page import HOSTILE, Elements, keep

NOTE = {
    "step": "measure",
    "since_ns": 0,
    "usual_ns": 60_000_000_000,
    "block": 3,
    "attempt": 1,
    "treatment": {"environment": "slow"},
    "workload": "web",
}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """In its middle."""
    folder = RunFolder(Path(shutil.copytree(FOLDER, tmp_path / "run")))
    keep(folder, 40)
    return folder


def shown(folder: RunFolder) -> dict[str, str]:
    """While it is measured."""
    with hold_journal(folder.journal):
        view = RunView(folder.path)
        return {**view.render_state(), **view.render_live()}


def note(folder: RunFolder, **others: object) -> None:
    folder.live.write_text(json.dumps({**NOTE, **others}))


# ── The step that goes on ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_step_and_how_long_it_took_the_last_time(run: RunFolder) -> None:
    note(run)
    parts = shown(run)
    text = Elements(parts["live"]).words
    assert "web on slow, in block 4 (attempt 2)" in text
    assert "it measures" in text
    assert "took 1 min 0 s the last time" in text
    assert "Now" not in Elements(parts["state"]).words, "told once"


def test_a_run_that_notes_nothing_is_shown_by_its_journal(run: RunFolder) -> None:
    parts = shown(run)
    assert parts["live"] == ""
    assert "Now" in Elements(parts["state"]).words


def test_of_a_run_that_nobody_measures_an_old_note_says_nothing(run: RunFolder) -> None:
    note(run)
    view = RunView(run.path)
    parts = {**view.render_state(), **view.render_live()}
    assert (parts["live"], parts["values"]) == ("", "")
    assert "nearmetal resume" in parts["state"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"step": 1}', json.dumps({**NOTE, "x": 1}).encode()],
)
def test_a_damaged_note_is_none(content: bytes, run: RunFolder) -> None:
    run.live.write_bytes(content)
    assert LiveNote.read(run) is None
    assert shown(run)["live"] == ""


def test_a_note_that_leads_elsewhere_is_none(run: RunFolder, tmp_path: Path) -> None:
    note(run)
    run.live.rename(tmp_path / "elsewhere")
    run.live.symlink_to(tmp_path / "elsewhere")
    assert LiveNote.read(run) is None


def test_hostile_words_of_a_note_stay_text(run: RunFolder) -> None:
    note(run, step=HOSTILE, workload=HOSTILE, treatment={"environment": HOSTILE})
    found = Elements(shown(run)["live"])
    assert not {"script", "img"} & set(found.tags)
    assert "<script>" in found.text
    assert "\u202e" not in found.text


# ── Values ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_values_so_far_are_those_of_trials_that_are_ok(run: RunFolder) -> None:
    values = shown(run)["values"]
    assert "web: throughput" in values
    assert "<td>9,990/s</td><td>5</td><td>9,875/s</td><td>5</td>" in values
    run.journal.write_text(run.journal.read_text().replace('"value":9875.0', '"value":987.5'))
    assert "<td>988/s</td>" in shown(run)["values"], "as many decimals as the other treatment's"
    run.journal.write_text(run.journal.read_text().replace('"status":"ok"', '"status":"invalid","reason":"it is not"'))
    assert "988/s" not in shown(run)["values"]


# ── What the runner notes ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_step_is_noted_as_it_begins_with_what_it_took_the_last_time(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    notes = LiveNotes(folder)
    treatment = {"environment": "base"}
    address = TrialAddress(id="1", block=2, attempt=0, position=0, repeat=0, treatment=treatment, workload="web")
    notes(BootStarted(block=2, attempt=0, treatment=treatment))
    notes(Step(name="create", state="begins"))
    found = LiveNote.read(folder)
    assert found is not None
    assert (found.step, found.workload, found.block, found.usual_ns) == ("create", "", 2, None)
    for usual in (None, 7):
        notes(TrialStarted(trial=address))
        notes(Step(name="measure", state="begins"))
        found = LiveNote.read(folder)
        assert found is not None
        assert (found.step, found.workload, found.usual_ns) == ("measure", "web", usual)
        before = folder.live.stat()
        notes(Step(name="measure", state="ended"))
        assert folder.live.stat() == before, "nothing is written at its end"
        record = TrialRecord(trial=address, site="local", boot=None, status=TrialStatus.OK, phases_ns={"measure": 7})
        notes(TrialEnded(record=record))


def test_a_folder_that_cannot_be_written_stops_no_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "gone")
    LiveNotes(folder)(Step(name="create", state="begins"))
    forget_live(folder)
    assert not folder.path.exists()


# ── What it can be asked ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_waits_while_it_is_paused_and_no_longer(run: RunFolder) -> None:
    class Sink:
        def __init__(self) -> None:
            self.told: list[Event] = []

        def emit(self, event: Event) -> None:
            self.told.append(event)

    async def pause() -> bool:
        waiting = asyncio.create_task(wait_while_paused(str(run.request), sink))
        await asyncio.sleep(1.2)
        assert not waiting.done()
        write_wish(run, None)
        return await asyncio.wait_for(waiting, 30)

    sink = Sink()
    assert not asyncio.run(wait_while_paused(str(run.request), sink))
    assert not asyncio.run(wait_while_paused("", sink)), "the blocks of a fleet"
    assert not sink.told
    write_wish(run, "pause")
    assert asyncio.run(pause())
    assert [(one.name, one.state) for one in sink.told if isinstance(one, Step)] == [
        ("paused", "begins"),
        ("paused", "ended"),
    ]


def test_a_run_that_is_not_measured_takes_no_orders(run: RunFolder) -> None:
    note(run)
    with pytest.raises(BadInput, match="nothing measures this run now"):
        RunView(run.path).ask("pause")
    assert not run.request.exists()


def test_a_run_that_notes_nothing_takes_no_orders(run: RunFolder) -> None:
    with hold_journal(run.journal), pytest.raises(BadInput, match="takes no orders"):
        RunView(run.path).ask("stop")
    assert not run.request.exists()


def test_what_was_asked_is_seen_by_every_dashboard_and_taken_back_by_any(run: RunFolder) -> None:
    note(run)
    with hold_journal(run.journal):
        one, other = RunView(run.path), RunView(run.path)
        one.ask("pause")
        assert read_wish(run.request) == "pause"
        other.render_state()
        assert "It pauses when this trial has ended" in other.render_live()["live"]
        other.ask(None)
        assert read_wish(run.request) is None
        one.ask("stop")
        with pytest.raises(BadInput, match="was asked to stop"):
            other.ask(None)
        assert read_wish(run.request) == "stop"


def test_a_link_in_the_place_of_an_order_is_replaced_and_not_followed(run: RunFolder, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    run.request.symlink_to(victim)
    assert read_wish(run.request) is None
    write_wish(run, "pause")
    assert victim.read_text() == "kept"
    assert read_wish(run.request) == "pause"
