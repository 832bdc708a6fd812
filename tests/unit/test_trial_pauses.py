"""Whether a machine stood still while it was measured, from its clock and ours, or by who runs it."""

import time

import pytest

from nearmetal.model import Completed
from nearmetal.run import pause_detection
from nearmetal.run.machine_state import Clock, MachineState
from nearmetal.run.pause_detection import measure_stall
from tests.unit.workloads_stage import ScriptedMachine


def clock(at: float, uptime: float, took: float = 0.01) -> Clock:
    return Clock(at, at + took, uptime)


def test_a_clock_that_goes_with_ours_stood_nowhere() -> None:
    assert measure_stall(clock(100, 7.0), clock(160, 67.0)) == 0


def test_the_time_that_a_clock_lacks_is_that_of_a_pause() -> None:
    assert measure_stall(clock(100, 7.0), clock(106, 10.0)) == pytest.approx(2.99)


@pytest.mark.parametrize(("seconds", "lacking"), [(1.0, 0.09), (60.0, 0.5)])
def test_a_clock_that_is_not_exact_did_not_stand(seconds: float, lacking: float) -> None:
    assert measure_stall(clock(100, 7.0), clock(100 + seconds, 7.0 + seconds - lacking)) == 0


def test_asking_for_long_is_no_pause() -> None:
    """The first answer may be as old as its question, and the second as young as its answer."""
    assert measure_stall(clock(100, 7.0, took=3.0), clock(104, 8.5, took=3.0)) == 0


def test_another_boot_and_an_unknown_clock_tell_nothing() -> None:
    assert measure_stall(clock(100, 500.0), clock(160, 20.0)) == 0
    assert measure_stall(None, clock(160, 20.0)) == measure_stall(clock(100, 7.0), None) == 0


class PausedOnce(ScriptedMachine):
    async def paused(self, since: float) -> float:
        assert 0 <= time.time() - since < 60
        return 2.5


def at_work(name: str) -> ScriptedMachine:
    return ScriptedMachine(name, "10.0.0.1", lambda argv: Completed(status=0))


def test_the_machine_that_stood_longest_is_told() -> None:
    """By its clock, or by who runs it."""
    machines = [at_work("server1"), at_work("server2"), at_work("client")]
    assert pause_detection.describe_stall(machines, (1.0, 3.5, 0.0)) == (
        "the server server2 stood still for 3.5 s while it was measured: was it paused, or moved?"
    )
    assert pause_detection.describe_stall(machines, (0.0, 0.0, 0.0)) is None


async def test_what_was_paused_is_told_where_its_clock_went_on() -> None:
    machines = [at_work("server"), PausedOnce("client", "10.0.0.2", lambda argv: Completed(status=0))]
    before, after = (2 * (MachineState({}, clock(at, at)),) for at in (10.0, 20.0))
    told = await pause_detection.explain_stall(machines, before, after, time.time())
    assert told and told.startswith("the client client stood still for 2.5 s")
    assert await pause_detection.explain_stall(machines[:1], before[:1], after[:1], time.time()) is None
