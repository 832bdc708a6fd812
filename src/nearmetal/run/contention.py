"""Was a site busy with something else while a trial measured? Read before and after, never in between.

The figures are for the CPUs that the trial's machines may use: a busy program elsewhere on a large host says little.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearmetal import cpu_lists
from nearmetal.errors import NearmetalError
from nearmetal.model import CPUS_JUDGED_FROM, Cost, Machine, Site, Stage, Warned
from nearmetal.units import show_share

MOST_STOLEN = 0.02
"""Share of the CPUs' time that a hypervisor may keep: the margin that a study calls equivalent by default."""

MOST_OTHERS = 0.05
"""Share of the CPUs' time for processes that are not the trial's. Above the daemons of an idle host, and a kernel that
serves the machines' own traffic; a program that keeps one of twenty CPUs busy reaches it."""

_HUNDREDTHS = 100
"""Of a second, in which /proc/stat counts on every architecture (USER_HZ)."""


@dataclass(frozen=True)
class Ticks:
    """Hundredths of a second of one CPU since its host booted."""

    processes: int
    """In programs and in the kernel on their behalf, guests included. Not interrupts: they are mostly our traffic."""
    stolen: int
    total: int


@dataclass(frozen=True)
class ContentionReading:
    at: float
    """Seconds of the controller's monotonic clock."""
    ticks: Mapping[int, Ticks]
    """By CPU."""
    pressure: float | None
    """Seconds in which some task waited for a CPU (PSI), where the kernel counts them."""


@dataclass(frozen=True)
class Accounts:
    """What was spent so far: by each machine (servers, then clients), and by their sites as a whole."""

    machines: tuple[Cost | None, ...]
    sites: Mapping[str, ContentionReading]
    """A site that cannot be read is absent."""


async def read_accounts(stage: Stage) -> Accounts:
    """Read everything. A machine that is lost raises, as it does for any command."""
    sites = {machine.site.name: machine.site for machine in _list_machines_of(stage)}
    read = await asyncio.gather(*map(_read, sites.values()))
    machines = await asyncio.gather(*(machine.cost() for machine in _list_machines_of(stage)))
    return Accounts(
        tuple(machines), {name: ticks for name, ticks in zip(sites, read, strict=True) if ticks is not None}
    )


async def require_machines(stage: Stage, seen: Accounts) -> None:
    """MachineLost where a machine is gone: then whatever was measured says nothing of it.

    Those whose accounts could be read are there.
    """
    for machine, cost in zip(_list_machines_of(stage), seen.machines, strict=True):
        if cost is None:
            await machine.exec(["true"])


def _list_machines_of(stage: Stage) -> tuple[Machine, ...]:
    return (*stage.servers, *stage.clients)


async def _read(site: Site) -> ContentionReading | None:
    pressure = b""
    try:
        stat = await site.get("/proc/stat")
        with contextlib.suppress(NearmetalError):
            pressure = await site.get("/proc/pressure/cpu")
    except NearmetalError:
        return None
    return parse(stat.decode(), pressure.decode(), time.monotonic())


def parse(stat: str, pressure: str, at: float) -> ContentionReading:
    """From the text of /proc/stat and /proc/pressure/cpu ("" where there is none)."""
    lines = [line.split() for line in stat.splitlines() if re.match(r"cpu\d+ ", line)]
    ticks = {int(words[0][3:]): _count_ticks(list(map(int, words[1:9]))) for words in lines}
    some = next((line.split() for line in pressure.splitlines() if line.startswith("some ")), [])
    total = next((int(word.removeprefix("total=")) for word in some if word.startswith("total=")), None)
    return ContentionReading(at, ticks, None if total is None else total / 1e6)


def _count_ticks(counted: Sequence[int]) -> Ticks:
    """From user (guests included), nice, system, idle, iowait, irq, softirq, steal."""
    user, nice, system, *_, stolen = counted
    return Ticks(user + nice + system, stolen, sum(counted))


def measure_contention(
    before: Accounts, after: Accounts, where: Sequence[tuple[str, str]], crowded: bool
) -> dict[str, Any]:
    """By site: seconds, CPUs, and the shares of their time that were stolen and that others used.

    `where` has the site and the cpuset ("" for all CPUs) of each machine, as in `Accounts.machines`. `crowded` says
    that others were asked for: what they use cannot be told from what disturbs, and `others` is None. So it is where
    a machine's own use is not known. `pressure` is the share of the time in which some task of the site waited.
    """
    shares: dict[str, Any] = {}
    for site in before.sites.keys() & after.sites.keys():
        mine = [index for index, (place, _) in enumerate(where) if place == site]
        sets = [cpu_lists.parse(where[index][1]) for index in mine]
        known = before.sites[site].ticks.keys() & after.sites[site].ticks.keys()
        used = known & set().union(*sets) if all(sets) else known
        ours = None if crowded else sum_cpu_time(before.machines, after.machines, mine)
        shares[site] = _measure_site(before.sites[site], after.sites[site], sorted(used), ours)
    return dict(sorted(shares.items()))


def _measure_site(
    before: ContentionReading, after: ContentionReading, used: Sequence[int], ours: float | None
) -> dict[str, Any]:
    pairs = [(before.ticks[cpu], after.ticks[cpu]) for cpu in used]
    total = sum(end.total - start.total for start, end in pairs)
    stolen = sum(end.stolen - start.stolen for start, end in pairs)
    busy = sum(end.processes - start.processes for start, end in pairs)
    seconds = after.at - before.at
    waited = None if before.pressure is None or after.pressure is None else after.pressure - before.pressure
    return {
        "seconds": round(seconds, 3),
        "cpus": cpu_lists.show(used),
        "stolen": _round_share(stolen, total),
        "others": None if ours is None else _round_share(busy - ours * _HUNDREDTHS, total),
        "pressure": None if waited is None else _round_share(waited, seconds),
    }


def _round_share(part: float, whole: float) -> float | None:
    """Four digits after the point, within 0 and 1: clocks that are read one after the other can disagree a little."""
    return round(min(1.0, max(0.0, part / whole)), 4) if whole > 0 else None


def sum_cpu_time(before: Sequence[Cost | None], after: Sequence[Cost | None], which: Iterable[int]) -> float | None:
    """CPU seconds of some of the machines between two readings; None as soon as one of them cannot tell."""
    total = 0.0
    for index in which:
        start, end = before[index], after[index]
        if start is None or end is None:
            return None
        total += end.cpu_seconds - start.cpu_seconds
    return total


def sum_memory(costs: Sequence[Cost | None], which: Iterable[int]) -> int | None:
    """Bytes of the host's memory that some of the machines take; None as soon as one of them cannot tell."""
    sizes = [None if (cost := costs[index]) is None else cost.memory_bytes for index in which]
    told = [size for size in sizes if size is not None]
    return sum(told) if len(told) == len(sizes) else None


def list_warnings(found: Mapping[str, Any]) -> list[Warned]:
    """What a reader should know of a site's other work. Never a reason not to count a trial."""
    return [warning for site, shares in found.items() for warning in _warn_of_site(site, shares)]


def _warn_of_site(site: str, shares: Mapping[str, Any]) -> list[Warned]:
    if shares["seconds"] < CPUS_JUDGED_FROM:
        return []
    host = "the host" if site == "local" else f"the host {site}"
    warned = []
    if (shares["stolen"] or 0.0) > MOST_STOLEN:
        stolen = show_share(shares["stolen"], 1)
        text = f"{host} was itself denied {stolen} of the time of the CPUs in use (steal)"
        warned.append(Warned(code="steal", text=text))
    if (shares["others"] or 0.0) > MOST_OTHERS:
        others = show_share(shares["others"], 1)
        text = f"{host} spent {others} of the time of the CPUs in use on programs that are not the trial's"
        warned.append(Warned(code="busy-host", text=text))
    return warned
