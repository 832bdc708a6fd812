"""Whether a host was suspended while it was measured. None is suspended here; which clocks tell is looked at live."""

from itertools import chain, repeat
from pathlib import Path

import pytest

from nearmetal.errors import ToolFailed
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import Completed, HostSpec, TrialStatus
from nearmetal.run import pause_detection
from nearmetal.run.pause_detection import SuspensionReading, describe_suspension
from tests.order import mock_run
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (SuspensionReading(7.0, {"far": 2}), None),
        (SuspensionReading(7.05, {"far": 2}), None),  # so long may it take to read two clocks
        (SuspensionReading(130.2, {"far": 2}), "this host was suspended for 123.2 s while it was measured"),
        (SuspensionReading(7.0, {"far": 3}), "the host far was suspended while it was measured"),
        (SuspensionReading(7.0, {"far": 0}), None),  # it booted since
        (SuspensionReading(7.0, {}), None),
        (SuspensionReading(7.0, {"far": 2, "new": 9}), None),
    ],
)
def test_the_time_that_a_host_slept_and_how_often(after: SuspensionReading, why: str | None) -> None:
    assert describe_suspension(SuspensionReading(7.0, {"far": 2}), after) == why


class Far(LocalSite):
    """Another host, or what is taken for one; with what it tells of its count."""

    spec = HostSpec(ssh="user@far")

    def __init__(self, name: str, *counts: bytes) -> None:
        super().__init__()
        self.name = name
        self._counts = list(counts)

    async def get(self, path: str) -> bytes:
        assert path == "/sys/power/suspend_stats/success"
        if not self._counts:
            raise ToolFailed("no such file")
        return self._counts.pop(0)


def machine(name: str) -> ScriptedMachine:
    return ScriptedMachine(name, "10.0.0.1", lambda argv: Completed(status=0))


async def test_another_host_is_asked_how_often_it_was_suspended() -> None:
    server, client, silent = machine("server"), machine("client1"), machine("client2")
    server.site = client.site = Far("far", b"3\n", b"4\n")
    silent.site = Far("silent")
    stage = ScriptedStage([server], [client, silent])
    before = await pause_detection.read_suspension(stage)
    assert before.counts == {"far": 3}
    assert (
        describe_suspension(before, await pause_detection.read_suspension(stage))
        == "the host far was suspended while it was measured"
    )


async def test_a_trial_in_which_this_host_was_suspended_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = chain((10.0, 10.0, 15.0), repeat(15.0))  # as the trial begins, and before and after it measures
    monkeypatch.setattr(pause_detection, "measure_sleep", lambda: next(told))
    _, records = await mock_run.run(tmp_path / "run")
    first, *others = records
    assert (first.status, first.reason) == (
        TrialStatus.INVALID,
        "this host was suspended for 5.0 s while it was measured",
    )
    assert {record.status for record in others} == {TrialStatus.OK}


async def test_clocks_of_a_host_that_is_awake_keep_their_distance() -> None:
    """A constant would do so too: that they tell of one that slept is seen live."""
    stage = ScriptedStage([machine("server")], [])
    before = await pause_detection.read_suspension(stage)
    assert before.counts == {}
    assert before.asleep > -0.1
    assert describe_suspension(before, await pause_detection.read_suspension(stage)) is None
