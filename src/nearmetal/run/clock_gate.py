"""How far the clocks of a trial's machines are apart, before and after it, and what is not told with them. Pure.

A clock is compared with the controller's by one exchange, which bounds the offset from both sides: what is told is
sure, however long the exchange took.
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace

from nearmetal.lab.clocks import ClockOffset
from nearmetal.lab.machines import kernel
from nearmetal.model import Cause, ClockRecord, Machine, Measurement, Response, Warned
from nearmetal.run.blame import Fault
from nearmetal.run.machine_state import Clock, MachineState
from nearmetal.units import show_duration

_SLEW = 500e-6
"""Seconds a second by which a kernel puts a clock right at most (adjtimex(2)). More is a step."""
_SHORTEST_STEP_NS = 1e6
"""What is less disturbs no trial."""
_NS = 1e9


def compare_clocks(before: Sequence[MachineState], after: Sequence[MachineState]) -> tuple[ClockRecord | None, ...]:
    """Of each machine; None for one that did not tell the time before and after."""
    return tuple(
        None if was.clock is None or now.clock is None else _compare_readings(was.clock, now.clock)
        for was, now in zip(before, after, strict=True)
    )


def _compare_readings(before: Clock, after: Clock) -> ClockRecord:
    seconds = after.asked - before.asked
    gained = (after.ahead_ns - before.ahead_ns) / _NS
    unsure = (after.uncertainty_ns + before.uncertainty_ns) / _NS
    return ClockRecord(
        offset=(before.ahead_ns / _NS, after.ahead_ns / _NS),
        uncertainty=(before.uncertainty_ns / _NS, after.uncertainty_ns / _NS),
        drift=gained / seconds if seconds > 0 else 0.0,
        drift_uncertainty=unsure / seconds if seconds > 0 else 0.0,
    )


@dataclass(frozen=True)
class HostClocks:
    """What the hosts of a trial's clients told against that of its servers, by name."""

    at: float
    """When, on the controller's monotonic clock."""
    offsets: Mapping[str, ClockOffset]


NO_HOST_CLOCKS = HostClocks(0.0, {})


def compare_host_clocks(
    before: HostClocks, after: HostClocks, during: Mapping[str, ClockOffset]
) -> Mapping[str, ClockRecord]:
    """Of each that told before and after."""
    both = [name for name in before.offsets if name in after.offsets]
    found = {name: _compare_readings(*(_as_clock(one, name) for one in (before, after))) for name in both}
    told = {name: (one.ahead_ns / _NS, one.uncertainty_ns / _NS) for name, one in during.items()}
    return {name: replace(one, during=told.get(name)) for name, one in found.items()}


def _as_clock(told: HostClocks, name: str) -> Clock:
    offset = told.offsets[name]
    return Clock(told.at, told.at, None, offset.least_ns, offset.most_ns)


def correct_starts(
    machines: Sequence[Machine], center: str, hosts: Mapping[str, ClockOffset], timed: MutableMapping[str, int]
) -> None:
    """Have machines of several hosts start by how these lie to each other, which is known more closely.

    `timed` is what `find_uneven_start` takes. What the first of them is ahead of the controller stays: an error of that
    moves all alike. Machines with a kernel of their own have a clock of their own, and stay as they were measured.
    """
    ahead = {center: 0} | {name: one.ahead_ns for name, one in hosts.items()}
    shared = [one for one in machines if one.name in timed and one.site.name in ahead and kernel.is_its_hosts(one)]
    for machine in shared[1:]:
        timed[machine.name] = timed[shared[0].name] - ahead[shared[0].site.name] + ahead[machine.site.name]


def find_step(record: ClockRecord) -> float:
    """Seconds by which a clock was surely set forth (or, if negative, back) within the trial; 0.0 if it was not.

    Kernels put clocks right by less than `_SLEW`.
    """
    gained = record.offset[1] - record.offset[0]
    surely = abs(gained) - sum(record.uncertainty)
    is_step = surely > _SHORTEST_STEP_NS / _NS and abs(record.drift) - record.drift_uncertainty > _SLEW
    return gained if is_step else 0.0


def warn_of_steps(machines: Sequence[Machine], clocks: Sequence[ClockRecord | None]) -> Iterator[Warned]:
    for machine, record in zip(machines, clocks, strict=True):
        if record is not None and (step := find_step(record)):
            way = "forth" if step > 0 else "back"
            whose = f"the clock of the {machine.role} {machine.name}"
            text = f"{whose} went {way} by {show_duration(abs(step))} against the controller's while it was measured"
            yield Warned(code="clock-stepped", text=text)


def forget_moved(
    machines: Sequence[Machine], vitals: Sequence[MachineState], timed: MutableMapping[str, int], bound: float
) -> None:
    """Have clocks compared anew that are not where they were: `timed` is without them afterwards."""
    for machine, one in zip(machines, vitals, strict=True):
        if one.clock is not None and machine.name in timed:
            apart_ns = abs(one.clock.ahead_ns - timed[machine.name]) - one.clock.uncertainty_ns
            if apart_ns > bound * _NS:
                del timed[machine.name]


def find_uneven_start(
    machines: Sequence[Machine], clocks: Sequence[ClockRecord | None], timed: Mapping[str, int], bound: float
) -> Fault | None:
    """Why programs that were to start at one instant surely did not: a clock by which one did is elsewhere now.

    `timed`: ns by which each clock was taken to be ahead, by machine; of those alone that started something so.
    """
    for machine, record in zip(machines, clocks, strict=True):
        if record is None or machine.name not in timed:
            continue
        apart = abs(record.offset[1] - timed[machine.name] / _NS) - record.uncertainty[1]
        if apart > bound:
            text = (
                f"the clock of the {machine.role} {machine.name}, by which it was to start with the others, is off by "
                f"{show_duration(apart)} or more; the study allows {show_duration(bound)}"
            )
            return Fault(Cause.CLOCKS_UNTRUSTED, text)
    return None


@dataclass(frozen=True)
class GatedMeasurement:
    responses: Mapping[str, Response]
    warnings: tuple[Warned, ...] = ()
    fault: Fault | None = None
    """If what the study is about is among what is left out."""


def gate_responses(measured: Measurement, primary: str | None, bound: float) -> GatedMeasurement:
    """Leave out responses that need the clocks of both ends if these may be apart by more than the bound."""
    clocks = measured.both_clocks
    if clocks is None or not clocks.names or (clocks.apart is not None and clocks.apart <= bound):
        return GatedMeasurement(measured.responses)
    far = "cannot be compared" if clocks.apart is None else f"may be apart by {show_duration(clocks.apart)}"
    allowed = "" if clocks.apart is None else f"; the study allows {show_duration(bound)}"
    text = f"the clocks of both ends {far}{allowed}, so that {' and '.join(clocks.names)} are left out"
    kept = {name: response for name, response in measured.responses.items() if name not in clocks.names}
    fault = Fault(Cause.CLOCKS_UNTRUSTED, text) if primary in clocks.names else None
    return GatedMeasurement(kept, (Warned(code="clocks-untrusted", text=text),), fault)
