"""Whether a machine stood still while it was measured, from its clock and ours."""

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


async def test_the_machine_that_stood_longest_is_told() -> None:
    servers = [Clocked("server1", b"10.00 9.0\n"), Clocked("server2", b"10.00 9.0\n")]
    stage = ScriptedStage(servers, [Clocked("client", b"10.00 9.0\n")])
    (one, two, three) = await standstill.clocks(stage)
    assert one and two and three and one.asked <= one.answered and one.uptime == 10.0
    later = [Clock(one.asked + 6, one.answered + 6, up) for up in (15.0, 12.5, 16.0)]
    reason = standstill.told(stage, (one, two, three), later)
    assert reason == "server2 stood still for 3.5 s while it was measured: was it paused, or moved?"
    assert standstill.told(stage, (one, two, three), [later[2]] * 3) is None


async def test_a_machine_whose_clock_cannot_be_read_tells_nothing_and_one_that_is_lost_says_so() -> None:
    cannot, strange = Clocked("server", ToolFailed("no such file")), Clocked("client", b"up since long\n")
    assert await standstill.clocks(ScriptedStage([cannot], [strange])) == (None, None)
    with pytest.raises(MachineLost):
        await standstill.clocks(ScriptedStage([Clocked("server", MachineLost("gone", "server"))], []))
