"""For how long something stood still, and that of a program of ours the kernel tells."""

import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from nearmetal.lab.commands import process
from nearmetal.lab.machines import pause_events
from nearmetal.lab.machines.pause_events import PauseEvent, PauseRecorder
from tests.waiting import until, wait_until


@pytest.mark.parametrize(
    ("events", "seconds"),
    [
        ([], 0),
        ([(12, True), (13.5, False), (15, True), (16, False)], 2.5),
        ([(12, False)], 2),  # it stood before
        ([(18, True)], 2),  # it still does
        ([(12, False), (18, True)], 4),
        ([(11, True), (12, True), (12.5, False)], 1.5),  # that it went on between them, nobody was told
        ([(5, True), (6, False), (12, True), (13, False)], 1),
        ([(5, True), (12, False)], 2),
        ([(5, True), (12, True), (12.5, False)], 2.5),
        ([(5, True)], 10),
    ],
)
def test_events_tell_for_how_long_something_stood_still(events: list[tuple[float, bool]], seconds: float) -> None:
    assert pause_events.sum_paused_seconds([PauseEvent(at, stands) for at, stands in events], 10, 20) == seconds


@pytest.mark.parametrize(
    ("events", "seconds"),
    [
        ([(12, False)], 0),
        ([(12, False), (13, True), (14, False)], 1),
        ([(13, True), (14, False), (16, False)], 1),
        ([(12, False), (13, True)], 7),
    ],
)
def test_that_it_goes_on_counts_behind_a_stop_alone(events: list[tuple[float, bool]], seconds: float) -> None:
    heard = pause_events.drop_unpaired_resumes([PauseEvent(at, stands) for at, stands in events])
    assert pause_events.sum_paused_seconds(heard, 10, 20) == seconds


def test_a_stop_that_is_over_before_it_is_told_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [SimpleNamespace(si_code=os.CLD_CONTINUED)]

    def waitid(*_: object) -> SimpleNamespace:
        if not told:
            raise ChildProcessError
        return told.pop()

    monkeypatch.setattr(os, "waitid", waitid)
    recorder = PauseRecorder(os.getpid())
    wait_until(lambda: not [one for one in threading.enumerate() if one.name == f"stops of {os.getpid()}"])
    assert recorder.sum_seconds(time.time() - 100) == 0


async def test_a_program_that_is_stopped_by_a_signal_is_heard_of_until_it_ends() -> None:
    running = process.LocalProcess(await process.start(["sleep", "600"]))
    recorder = PauseRecorder(running.pid)
    since = time.time()
    assert recorder.sum_seconds(since) == 0
    await running.signal(signal.SIGSTOP)
    await until(lambda: recorder.sum_seconds(since) > 0)
    stopped = recorder.sum_seconds(since)
    await until(lambda: recorder.sum_seconds(since) > stopped)
    await running.signal(signal.SIGCONT)
    await until(lambda: not recorder._events[-1].is_stop)
    assert recorder.sum_seconds(since) > stopped
    assert recorder.sum_seconds(time.time()) == 0
    assert (await running.stop()).status == 128 + signal.SIGTERM
    await until(lambda: not [one for one in threading.enumerate() if one.name == f"stops of {running.pid}"])
