"""How far a machine's or a host's clock is ahead of the controller's."""

import json
import time
from dataclasses import dataclass

from nearmetal.errors import MALFORMED, ToolFailed
from nearmetal.lab.machines import kernel
from nearmetal.lab.site import LocalSite
from nearmetal.model import Machine, Site

_EXCHANGES = 5


@dataclass(frozen=True)
class ClockOffset:
    """CLOCK_REALTIME there is ahead of the controller's by no less and no more than this."""

    least_ns: int
    most_ns: int

    @property
    def ahead_ns(self) -> int:
        return (self.least_ns + self.most_ns) // 2

    @property
    def uncertainty_ns(self) -> int:
        return abs(self.most_ns - self.least_ns) // 2

    def narrow(self, other: "ClockOffset") -> "ClockOffset":
        """What both bounds allow; the narrower of both, should a clock have been set in between."""
        both = ClockOffset(max(self.least_ns, other.least_ns), min(self.most_ns, other.most_ns))
        if both.least_ns <= both.most_ns:
            return both
        return min(self, other, key=lambda one: one.uncertainty_ns)


SAME_CLOCK = ClockOffset(0, 0)


async def compare_clock(where: Machine | Site) -> ClockOffset:
    """By a few exchanges, each of which bounds the offset from both sides. ToolFailed if the probe does not tell.

    A program there starts after it was asked for and ends before the answer (RFC 5905, section 8).
    """
    if kernel.boot_of(where) == LocalSite().boot_id:
        return SAME_CLOCK
    found: ClockOffset | None = None
    for _ in range(_EXCHANGES):
        asked = time.time_ns()
        ended = await where.exec([where.probe, "at", "now", "--json", "--", "true"])
        answered = time.time_ns()
        try:
            document = json.loads(ended.stdout)
            bounds = sorted((int(document["ended_ns"]) - answered, int(document["started_ns"]) - asked))
        except MALFORMED:
            raise ToolFailed(f"the probe does not tell the time: {ended.complaint[-500:]}", where.name) from None
        one = ClockOffset(*bounds)
        found = one if found is None else found.narrow(one)
    assert found is not None
    return found
