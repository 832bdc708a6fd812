"""How far a machine's or a host's clock is ahead of the controller's, and hosts' clocks of each other's."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nearmetal.config import LIMITS
from nearmetal.errors import MALFORMED, MachineLost, NearmetalError, ToolFailed
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines import kernel
from nearmetal.lab.networks import network
from nearmetal.model import Completed, Machine, Running, Site

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


PACE = ("--count", "50", "--interval", "2ms", "--timeout", "200ms")
"""Of questions while nothing is measured."""
_PACE_MEANWHILE = ("--count", "1000000", "--interval", "500ms", "--timeout", "400ms")
"""Of questions while something is measured: a packet of 80 bytes each way, twice a second."""
_SERVING = 30
"""Seconds after which a server of times ends by itself."""


async def compare_hosts(center: Site, others: Sequence[Site]) -> Mapping[str, ClockOffset]:
    """How far the clocks of other hosts are ahead of a host's, by their names, asked over the network between them.

    That is a hundred times closer than what commands over SSH tell. A host that cannot be asked so, as behind a
    firewall, is absent. MachineLost.
    """
    found = _find_same(center, others)
    for address, sites in (await _group_by_address(center, others)).items():
        async with _serve_time(center, address, _SERVING) as where:
            asked = sites if where else ()
            told = await asyncio.gather(*(site.exec(_order(site, where, PACE)) for site in asked))
            found |= _read_all(zip(asked, told, strict=True))
    return found


class ClockWatch:
    """Hosts that compare their clocks with a host's, with nothing said to them, until they are asked to tell."""

    def __init__(self, found: Mapping[str, ClockOffset]) -> None:
        """`found`: of hosts that have one clock with it."""
        self._found = dict(found)
        self._serving = contextlib.AsyncExitStack()
        self._asking: list[tuple[Site, Running]] = []

    @classmethod
    async def start(cls, center: Site, others: Sequence[Site], limit: float) -> "ClockWatch":
        """It ends by itself after `limit` seconds. MachineLost."""
        watch = cls(_find_same(center, others))
        try:
            for address, sites in (await _group_by_address(center, others)).items():
                where = await watch._serving.enter_async_context(_serve_time(center, address, limit))
                for site in sites if where else ():
                    argv = [site.probe, "launch", *site.bound, "--", *_order(site, where, _PACE_MEANWHILE)]
                    watch._asking.append((site, await site.spawn(argv)))
        except BaseException:
            await watch.stop()
            raise
        return watch

    async def stop(self) -> Mapping[str, ClockOffset]:
        """How far each was ahead at any time since the start, by its name; without those that did not tell."""
        async with self._serving:
            told = await asyncio.gather(*(running.stop() for _, running in self._asking), return_exceptions=True)
        both = zip(self._asking, told, strict=True)
        ended = [(site, one) for (site, _), one in both if not isinstance(one, BaseException)]
        self._asking.clear()
        return {**self._found, **_read_all(ended)}


def _find_same(center: Site, others: Sequence[Site]) -> dict[str, ClockOffset]:
    return {site.name: SAME_CLOCK for site in others if site.boot_id == center.boot_id}


async def _group_by_address(center: Site, others: Sequence[Site]) -> Mapping[str, Sequence[Site]]:
    """Hosts with clocks of their own, by the address at which each reaches the center; None if one finds no way.
    MachineLost."""
    found: dict[str, list[Site]] = {}
    try:
        for site in others:
            if site.boot_id != center.boot_id:
                address = center.underlay or (await network.find_route(str(site.underlay), center)).address
                found.setdefault(address, []).append(site)
    except MachineLost:
        raise
    except NearmetalError:
        return {}
    return found


@asynccontextmanager
async def _serve_time(center: Site, address: str, limit: float) -> AsyncIterator[str]:
    """Where times can be asked for; "" if nothing can listen there. MachineLost."""
    listen = f"[{address}]:0" if ":" in address else f"{address}:0"
    serve = (center.probe, "clock", "serve", "--listen", listen, "--for", f"{limit:g}s")
    running = await center.spawn([center.probe, "launch", *center.bound, "--", *serve])
    try:
        try:
            where = str(json.loads(await running.first_line(LIMITS.command))["listening"])
        except MachineLost:
            raise
        except (NearmetalError, *MALFORMED):
            where = ""
        yield where
    finally:
        await running.stop()


def _order(site: Site, server: str, pace: Sequence[str]) -> Sequence[str]:
    return [site.probe, "clock", "ask", server, *pace, "--json"]


def _read_all(told: Iterable[tuple[Site, Completed]]) -> Mapping[str, ClockOffset]:
    read = ((site.name, _read_offset(ended)) for site, ended in told)
    return {name: clock for name, clock in read if clock is not None}


def _read_offset(ended: Completed) -> ClockOffset | None:
    """How far the one that asked is ahead of the one that serves. The probe tells how far that one is ahead."""
    try:
        document = json.loads(ended.stdout)
        ahead, bound = -int(document["offset_ns"]), int(document["bound_ns"])
    except MALFORMED:
        return None
    return ClockOffset(ahead - bound, ahead + bound)
