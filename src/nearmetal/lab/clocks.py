"""How far a machine's or a host's clock is ahead of the controller's, and hosts' clocks of each other's."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearmetal.config import LIMITS
from nearmetal.errors import MALFORMED, MachineLost, NearmetalError, ToolFailed
from nearmetal.lab.machines import kernel
from nearmetal.lab.networks import network
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


_COUNT, _INTERVAL, _TIMEOUT = 50, "2ms", "200ms"
_SERVING = 30
"""Seconds after which a server of times ends by itself."""


async def compare_hosts(center: Site, others: Sequence[Site]) -> Mapping[str, ClockOffset]:
    """How far the clocks of other hosts are ahead of a host's, by their names, asked over the network between them.

    That is a hundred times closer than what commands over SSH tell. A host that cannot be asked so, as behind a
    firewall, is absent. MachineLost.
    """
    found = {site.name: SAME_CLOCK for site in others if site.boot_id == center.boot_id}
    by_address: dict[str, list[Site]] = {}
    try:
        for site in others:
            if site.name not in found:
                by_address.setdefault(await _find_address(center, site), []).append(site)
    except MachineLost:
        raise
    except NearmetalError:
        return found
    for address, sites in by_address.items():
        found |= await _serve_time(center, address, sites)
    return found


async def _find_address(center: Site, other: Site) -> str:
    """By which another host reaches it."""
    return center.underlay or (await network.facing(str(other.underlay), center)).address


async def _serve_time(center: Site, address: str, others: Sequence[Site]) -> Mapping[str, ClockOffset]:
    listen = f"[{address}]:0" if ":" in address else f"{address}:0"
    serve = (center.probe, "clock", "serve", "--listen", listen, "--for", f"{_SERVING}s")
    running = await center.spawn([center.probe, "launch", *center.bound, "--", *serve])
    try:
        where = str(json.loads(await running.first_line(LIMITS.command))["listening"])
        told = await asyncio.gather(*(_ask_time(site, where) for site in others))
    except MachineLost:
        raise
    except (NearmetalError, *MALFORMED):
        return {}
    finally:
        await running.stop()
    return {site.name: clock for site, clock in zip(others, told, strict=True) if clock is not None}


async def _ask_time(site: Site, server: str) -> ClockOffset | None:
    """How far it is ahead of who serves. The probe tells how far that one is ahead."""
    pace = ("--count", str(_COUNT), "--interval", _INTERVAL, "--timeout", _TIMEOUT)
    ended = await site.exec([site.probe, "clock", "ask", server, *pace, "--json"])
    try:
        document = json.loads(ended.stdout)
        ahead, bound = -int(document["offset_ns"]), int(document["bound_ns"])
    except MALFORMED:
        return None
    return ClockOffset(ahead - bound, ahead + bound)
