"""What is told of clocks before and after a trial, and what is not told with clocks that are too far apart."""

import pytest

from nearmetal.model import BothClocks, Cause, ClockRecord, Completed, Machine, Measurement, Response
from nearmetal.run.clock_gate import (
    compare_clocks,
    find_step,
    find_uneven_start,
    forget_moved,
    gate_responses,
    warn_of_steps,
)
from nearmetal.run.machine_state import Clock, MachineState
from tests.unit.workloads_stage import ScriptedMachine

MS = 1_000_000


def vitals(at: float, ahead_ms: float, unsure_ms: float = 1.0) -> MachineState:
    least, most = (round((ahead_ms + by) * MS) for by in (-unsure_ms, unsure_ms))
    return MachineState({}, Clock(at, at + 0.01, at, least, most))


def record(before_ms: float, after_ms: float, seconds: float = 10.0) -> ClockRecord:
    (found,) = compare_clocks([vitals(0, before_ms)], [vitals(seconds, after_ms)])
    assert found is not None
    return found


def test_offset_and_drift_are_told_with_their_uncertainty() -> None:
    found = record(5, 25)
    assert found.offset == pytest.approx((0.005, 0.025)) and found.uncertainty == pytest.approx((0.001, 0.001))
    assert found.drift == pytest.approx(0.002) and found.drift_uncertainty == pytest.approx(0.0002)
    assert compare_clocks([MachineState()], [vitals(1, 1)]) == (None,)


@pytest.mark.parametrize(
    ("before", "after", "step"),
    [
        (0, 3_600_000, 3600.0),
        (3_600_000, 0, -3600.0),
        (5, 5, 0.0),
        (5, 6.9, 0.0),  # within what is not known
        (5, 9, 0.0),  # put right by no more than kernels do
        (5, 20, 0.015),
    ],
)
def test_a_step_either_way_is_noticed(before: float, after: float, step: float) -> None:
    assert find_step(record(before, after)) == pytest.approx(step)


SERVER: Machine = ScriptedMachine("server", "10.0.0.1", lambda argv: Completed(status=0))


def test_a_step_is_a_warning() -> None:
    (warned,) = warn_of_steps([SERVER], [record(3_600_000, 0)])
    assert warned.code == "clock-stepped"
    assert "the server server went back by 60 min against the controller's" in warned.text
    assert list(warn_of_steps([SERVER], [None])) == list(warn_of_steps([SERVER], [record(1, 1)])) == []


def test_a_start_by_a_clock_that_is_elsewhere_does_not_count() -> None:
    timed = {"server": 5 * MS}
    fault = find_uneven_start([SERVER], [record(5, 105)], timed, 0.01)
    assert fault is not None and (fault.cause, fault.blame) == (Cause.CLOCKS_UNTRUSTED, "instrument")
    assert "is off by 99 ms or more; the study allows 10 ms" in fault.reason
    assert find_uneven_start([SERVER], [record(5, 105)], timed, 0.2) is None
    assert find_uneven_start([SERVER], [record(5, 15)], timed, 0.01) is None
    assert find_uneven_start([SERVER], [record(5, 105)], {}, 0.01) is None, "nothing started by its clock"


def test_a_clock_that_has_moved_since_is_compared_anew() -> None:
    timed = {"server": 5 * MS}
    forget_moved([SERVER], [vitals(0, 6)], timed, 0.01)
    assert timed == {"server": 5 * MS}
    forget_moved([SERVER], [vitals(0, 3_600_000)], timed, 0.01)
    assert timed == {}


def measured(apart: float | None) -> Measurement:
    responses = {name: Response(value=1.0, unit="s", better="lower") for name in ("rtt_p50", "forward_p50")}
    return Measurement(responses=responses, events=1, both_clocks=BothClocks(names=("forward_p50",), apart=apart))


@pytest.mark.parametrize(
    ("apart", "bound", "kept"), [(0.0, 0.01, True), (0.002, 0.01, True), (0.002, 0.001, False), (None, 1.0, False)]
)
def test_what_needs_both_clocks_is_left_out_beyond_the_bound(apart: float | None, bound: float, kept: bool) -> None:
    gated = gate_responses(measured(apart), "rtt_p50", bound)
    assert ("forward_p50" in gated.responses) is kept and "rtt_p50" in gated.responses
    assert [one.code for one in gated.warnings] == ([] if kept else ["clocks-untrusted"])
    assert gated.fault is None, "the study is about something else"
    fault = gate_responses(measured(apart), "forward_p50", bound).fault
    assert (fault and fault.cause) == (None if kept else Cause.CLOCKS_UNTRUSTED)


def test_what_needs_one_clock_is_kept() -> None:
    plain = measured(0.0).model_copy(update={"both_clocks": None})
    assert gate_responses(plain, "rtt_p50", 0.001).responses == plain.responses
