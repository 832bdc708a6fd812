"""Did a machine stand still while it was measured? Somebody may pause a guest, or move it, and let it go on.

Nothing inside tells of it, and all that it served is told as if it had served it in the whole time. But the clock of a
guest that is paused stands still with it, whoever its monitor is. A container has the clock that we have: of its pauses
its engine tells. When a signal stops QEMU its guest's clock jumps; of one that is ours the kernel tells. What else is
stopped by signals, in a guest or behind an engine's back, nobody tells.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from nearmetal.errors import MachineLost, NearmetalError
from nearmetal.model import Machine, Stage

_UPTIME = "/proc/uptime"

_SHORTEST = 0.1
"""Seconds that are told apart from a clock that is read in hundredths, and from a guest's that runs a little slow."""

_MOST = 0.01
"""Share of the time by which a clock may be slower than ours and not have stood: an emulated one is not exact."""


@dataclass(frozen=True)
class Clock:
    """What a machine's clock told, in seconds since its boot, and when: between two instants of the controller's."""

    asked: float
    answered: float
    uptime: float


@dataclass(frozen=True)
class Reading:
    """What is known of each machine before it is measured, or after it."""

    since: float
    """Unix time."""
    clocks: tuple[Clock | None, ...]
    """Of servers, then clients; None for one that does not tell."""


def _machines(stage: Stage) -> tuple[Machine, ...]:
    return (*stage.servers, *stage.clients)


async def read(stage: Stage) -> Reading:
    """MachineLost."""
    since = time.time()
    return Reading(since, tuple(await asyncio.gather(*map(_clock, _machines(stage)))))


async def why(stage: Stage, before: Reading) -> str | None:
    """Why what was measured since does not count; None where no machine is known to have stood still. MachineLost."""
    after = await read(stage)
    paused = await asyncio.gather(*(_paused(machine, before.since) for machine in _machines(stage)))
    return reason(stage, list(map(max, map(stood, before.clocks, after.clocks), paused)))


async def _paused(machine: Machine, since: float) -> float:
    seconds = await machine.paused(since)
    return seconds if seconds > _SHORTEST else 0.0


async def _clock(machine: Machine) -> Clock | None:
    asked = time.monotonic()
    try:
        text = await machine.get(_UPTIME)
    except MachineLost:
        raise
    except NearmetalError:
        return None
    answered = time.monotonic()
    try:
        return Clock(asked, answered, float(text.split()[0]))
    except (ValueError, IndexError):
        return None


def stood(before: Clock | None, after: Clock | None) -> float:
    """Seconds that a machine stood still between two readings, at least: 0 where none are told for sure. Pure.

    However long it took to ask, it ran for no less than from the first answer to the second question.
    """
    if before is None or after is None:
        return 0.0
    passed = after.asked - before.answered
    still = passed - (after.uptime - before.uptime)
    # A clock that went back is that of another boot, which says nothing of this one.
    is_same_boot = after.uptime >= before.uptime
    return still if is_same_boot and still > max(_SHORTEST, passed * _MOST) else 0.0


def reason(stage: Stage, still: Sequence[float]) -> str | None:
    """The same from the seconds that each stood still: of servers, then clients. Pure."""
    longest, machine = max(zip(still, _machines(stage), strict=True), key=lambda one: one[0])
    if not longest:
        return None
    which = f"the {machine.role} {machine.name}"
    return f"{which} stood still for {longest:.1f} s while it was measured: was it paused, or moved?"
