"""Whether a machine stood still while it was measured, from its clock and ours, or by who runs it."""

import time

import pytest

from nearmetal.errors import MachineLost, ToolFailed
from nearmetal.model import Completed
from nearmetal.run import standstill
from nearmetal.run.standstill import Clock, stood
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage


def clock(at: float, uptime: float, took: float = 0.01) -> Clock:
    return Clock(at, at + took, uptime)


def test_a_clock_that_goes_with_ours_stood_nowhere() -> None:
    assert stood(clock(100, 7.0), clock(160, 67.0)) == 0


def test_the_time_that_a_clock_lacks_is_that_of_a_pause() -> None:
    assert stood(clock(100, 7.0), clock(106, 10.0)) == pytest.approx(2.99)


@pytest.mark.parametrize(("seconds", "lacking"), [(1.0, 0.09), (60.0, 0.5)])
def test_a_clock_that_is_not_exact_did_not_stand(seconds: float, lacking: float) -> None:
    assert stood(clock(100, 7.0), clock(100 + seconds, 7.0 + seconds - lacking)) == 0


def test_asking_for_long_is_no_pause() -> None:
    """The first answer may be as old as its question, and the second as young as its answer."""
    assert stood(clock(100, 7.0, took=3.0), clock(104, 8.5, took=3.0)) == 0


def test_another_boot_and_an_unknown_clock_tell_nothing() -> None:
    assert stood(clock(100, 500.0), clock(160, 20.0)) == 0
    assert stood(None, clock(160, 20.0)) == stood(clock(100, 7.0), None) == 0


UP = b"10.00 9.0\n"


class Clocked(ScriptedMachine):
    """Tells its uptime, or fails to."""

    def __init__(self, name: str, *told: bytes | Exception) -> None:
        super().__init__(name, "10.0.0.1", lambda argv: Completed(status=0))
        self._told = list(told)

    async def get(self, path: str) -> bytes:
        assert path == "/proc/uptime"
        told = self._told.pop(0)
        if isinstance(told, Exception):
            raise told
        return told


class PausedOnce(Clocked):
    async def paused(self, since: float) -> float:
        assert 0 <= time.time() - since < 60
        return 2.5


async def test_the_machine_that_stood_longest_is_told() -> None:
    """By its clock, or by who runs it."""
    servers = [Clocked("server1", UP), Clocked("server2", UP)]
    stage = ScriptedStage(servers, [Clocked("client", UP)])
    assert standstill.reason(stage, (1.0, 3.5, 0.0)) == (
        "the server server2 stood still for 3.5 s while it was measured: was it paused, or moved?"
    )
    assert standstill.reason(stage, (0.0, 0.0, 0.0)) is None


async def test_what_was_paused_is_told_where_its_clock_went_on() -> None:
    stage = ScriptedStage([Clocked("server", UP, UP)], [PausedOnce("client", UP, UP)])
    before = await standstill.read(stage)
    assert [clock.uptime for clock in before.clocks if clock] == [10.0, 10.0]
    assert all(clock.asked <= clock.answered for clock in before.clocks if clock)
    told = await standstill.why(stage, before)
    assert told and told.startswith("the client client stood still for 2.5 s")


async def test_a_machine_whose_clock_cannot_be_read_tells_nothing_and_one_that_is_lost_says_so() -> None:
    cannot, strange = Clocked("server", ToolFailed("no such file")), Clocked("client", b"up since long\n")
    assert (await standstill.read(ScriptedStage([cannot], [strange]))).clocks == (None, None)
    with pytest.raises(MachineLost):
        await standstill.read(ScriptedStage([Clocked("server", MachineLost("gone", "server"))], []))
