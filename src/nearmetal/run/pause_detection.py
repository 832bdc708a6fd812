"""What was stopped while a trial measured: a machine, its host, or this process itself.

Somebody may pause a guest, or move it, and let it go on.
Nothing inside tells of it, and all that it served is told as if it had served it in the whole time. docs/validity.md
says what does tell, and of which pauses nothing does.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearmetal.errors import NearmetalError
from nearmetal.model import Machine, Site, Stage
from nearmetal.run.machine_state import Clock, MachineState

_COUNT = "/sys/power/suspend_stats/success"

_SHORTEST = 0.1
"""Seconds that are told apart from how long it may take to read two clocks one after the other, from one that is read
in hundredths, and from a guest's that runs a little slow."""


@dataclass(frozen=True)
class SuspensionReading:
    """Since each host booted."""

    asleep: float
    """Seconds that this host was suspended."""
    counts: Mapping[str, int]
    """How often others were, by their sites' names; those that do not tell are absent."""


async def read_suspension(stage: Stage) -> SuspensionReading:
    far = {one.site.name: one.site for one in (*stage.servers, *stage.clients) if one.site.spec is not None}
    counts = await asyncio.gather(*map(_read_count, far.values()))
    return SuspensionReading(
        measure_sleep(), {name: count for name, count in zip(far, counts, strict=True) if count is not None}
    )


def measure_sleep() -> float:
    """Seconds that this host was suspended since it booted. Whoever is interrupted between two clocks is told more."""
    return min(-time.monotonic() + time.clock_gettime(time.CLOCK_BOOTTIME) for _ in range(3))


async def _read_count(site: Site) -> int | None:
    try:
        return int(await site.get(_COUNT))
    except (NearmetalError, ValueError):
        return None


def describe_suspension(before: SuspensionReading, after: SuspensionReading) -> str | None:
    """Why what was measured between two readings does not count; None where no host is known to have slept. Pure."""
    seconds = after.asleep - before.asleep
    if seconds > _SHORTEST:
        return f"this host was suspended for {seconds:.1f} s while it was measured"
    for name, count in after.counts.items():
        if count > before.counts.get(name, count):
            return f"the host {name} was suspended while it was measured"
    return None


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
    """Which machine stood still for longest, from the seconds of each; None if none did. Pure."""
    longest, machine = max(zip(still, machines, strict=True), key=lambda one: one[0])
    if not longest:
        return None
    which = f"the {machine.role} {machine.name}"
    return f"{which} stood still for {longest:.1f} s while it was measured: was it paused, or moved?"


_KEPT = 1000
"""Beats, of more than an hour."""

_beats: list[tuple[float, float]] = []
"""When each was noted, and how long after it was due."""
_due: list[float] = []
"""When the next one is."""


def note_alive(every: float) -> None:
    """This process runs now, and notes it again in so many seconds."""
    now = time.monotonic()
    if _due:
        _beats.append((now, now - _due[0]))
        del _beats[:-_KEPT]
    _due[:] = [now + every]


def measure_longest_pause(since: float) -> float:
    """Seconds that this process did not run, at least; 0 of a process that does not note it.

    `since`: by the monotonic clock.
    """
    now = time.monotonic()
    overdue = [now - due for due in _due]
    return max([0.0, *overdue, *(late for at, late in _beats if at >= since)])
