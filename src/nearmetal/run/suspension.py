"""Was a host suspended while its machines were measured, as a laptop is whose lid is shut?

They stand still with it, and so do their clocks and the one that we measure by. docs/validity.md says what tells of it.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from nearmetal.errors import NearmetalError
from nearmetal.model import Site, Stage

_COUNT = "/sys/power/suspend_stats/success"

_SHORTEST = 0.1
"""Seconds that are told apart from how long it may take to read two clocks one after the other."""


@dataclass(frozen=True)
class SuspensionReading:
    """Since each host booted."""

    asleep: float
    """Seconds that this host was suspended."""
    counts: Mapping[str, int]
    """How often others were, by their sites' names; those that do not tell are absent."""


async def read(stage: Stage) -> SuspensionReading:
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
