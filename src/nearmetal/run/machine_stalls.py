"""Did a machine stand still while it was measured? Somebody may pause a guest, or move it, and let it go on.

Nothing inside tells of it, and all that it served is told as if it had served it in the whole time. docs/validity.md
says what does tell, and of which pauses nothing does.
"""

import asyncio
from collections.abc import Sequence

from nearmetal.model import Machine
from nearmetal.run.machine_state import Clock, MachineState

_SHORTEST = 0.1
"""Seconds that are told apart from a clock that is read in hundredths, and from a guest's that runs a little slow."""

_MOST = 0.01
"""Share of the time by which a clock may be slower than ours and not have stood: an emulated one is not exact."""


async def explain_stall(
    machines: Sequence[Machine], before: Sequence[MachineState], after: Sequence[MachineState], since: float
) -> str | None:
    """Why what was measured between two readings does not count; None if no machine is known to have stood still.

    `since`: the Unix time of the first. MachineLost.
    """
    paused = await asyncio.gather(*(_measure_pause(machine, since) for machine in machines))
    clocks = ((was.clock, now.clock) for was, now in zip(before, after, strict=True))
    return describe_stall(
        machines, [max(measure_stall(*both), pause) for both, pause in zip(clocks, paused, strict=True)]
    )


async def _measure_pause(machine: Machine, since: float) -> float:
    seconds = await machine.paused(since)
    return seconds if seconds > _SHORTEST else 0.0


def measure_stall(before: Clock | None, after: Clock | None) -> float:
    """Seconds that a machine stood still between two readings, at least: 0 where none are told for sure. Pure.

    However long it took to ask, it ran for no less than from the first answer to the second question.
    """
    if before is None or after is None or before.uptime is None or after.uptime is None:
        return 0.0
    passed = after.asked - before.answered
    still = passed - (after.uptime - before.uptime)
    # A clock that went back is that of another boot, which says nothing of this one.
    is_same_boot = after.uptime >= before.uptime
    return still if is_same_boot and still > max(_SHORTEST, passed * _MOST) else 0.0


def describe_stall(machines: Sequence[Machine], still: Sequence[float]) -> str | None:
    """The same from the seconds that each stood still. Pure."""
    longest, machine = max(zip(still, machines, strict=True), key=lambda one: one[0])
    if not longest:
        return None
    which = f"the {machine.role} {machine.name}"
    return f"{which} stood still for {longest:.1f} s while it was measured: was it paused, or moved?"
