"""Has each machine still what it was given, now that it has been measured? Anybody who has its host can change that.

Read when the boot is verified, and after each measurement: docs/validity.md says what, and which changes are not seen.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearmetal import cpu_lists
from nearmetal.lab import cgroup_limits
from nearmetal.lab.cgroup_limits import GroupLimits
from nearmetal.lab.read_lines import Lines
from nearmetal.model import Handle, Readback, Site, Stage
from nearmetal.run import placement
from nearmetal.run.vitals import MEMORY, ONLINE, Vitals

_SAME_MEMORY = 0.01
"""Share by which a kernel's memory may differ from what it was: it sets a little aside for itself now and then."""


@dataclass(frozen=True)
class PlacedMachine:
    """A machine of ours on its site, with the CPUs that it was put on ("" for all)."""

    handle: Handle
    site: Site
    cpuset: str
    kept: frozenset[int] = frozenset()
    """CPUs of the site from which all was moved that is not measured."""


@dataclass(frozen=True)
class MachineResources:
    """What a machine finds itself to have; None for what it does not tell."""

    cpus: int | None
    memory: int | None
    """In bytes."""


@dataclass(frozen=True)
class Allotment:
    placed: tuple[PlacedMachine, ...]
    limits: tuple[GroupLimits | None, ...]
    """Of those placed, in their order; None for one of which its site's kernel tells nothing."""
    found: tuple[MachineResources, ...]
    """By the servers, then the clients."""
    where: tuple[Readback | None, ...]
    """Whether each of those placed is on its CPUs, in their order; None for one that is not ours to place."""

    def explain_change(self, stage: Stage, now: "Allotment") -> str | None:
        """Why what was measured does not count: of the first machine that has something else now. Pure."""
        for placed, before, after, where in zip(self.placed, self.limits, now.limits, now.where, strict=True):
            problems = limits_changed(before, after)
            if where is not None and not where.ok:
                problems.append(f"it is not where it was put: {where.reason}")
            if problems:
                return _describe_change(placed.handle.role or "machine", placed.handle.name, problems)
        for machine, had, has in zip((*stage.servers, *stage.clients), self.found, now.found, strict=True):
            if problems := found_changed(had, has):
                return _describe_change(machine.role, machine.name, problems)
        return None


FromSites = Mapping[str, tuple[GroupLimits | None, Readback | None]]
"""What the hosts of machines tell of them: by name its limits, and whether it is on its CPUs."""


async def read_sites(placed: Sequence[PlacedMachine]) -> FromSites:
    """MachineLost; HostCannot of a host that does not tell."""
    sites = {one.site.name: one.site for one in placed}
    read_sites = (_read_site(site, [one for one in placed if one.site.name == name]) for name, site in sites.items())
    found: dict[str, tuple[GroupLimits | None, Readback | None]] = {}
    for told in await asyncio.gather(*read_sites):
        found |= told
    return found


def combine(placed: Sequence[PlacedMachine], found: FromSites, vitals: Sequence[Vitals]) -> Allotment:
    """With what was read of the servers, then the clients. Pure."""
    limits, where = zip(*(found[one.handle.name] for one in placed), strict=True) if placed else ((), ())
    return Allotment(tuple(placed), limits, tuple(_find_found(one.lines or {}) for one in vitals), where)


async def _read_site(
    site: Site, placed: Sequence[PlacedMachine]
) -> dict[str, tuple[GroupLimits | None, Readback | None]]:
    pids = await asyncio.gather(*(placement.list_processes(one.handle, site) for one in placed))
    threads = await placement.read_threads(pids, site)
    limits = await cgroup_limits.read_limits([one.groups for one in threads], site)
    return {
        one.handle.name: (limit if its else None, placement.judge_threads(told, one.handle, one.cpuset, one.kept))
        for one, its, told, limit in zip(placed, pids, threads, limits, strict=True)
    }


def _find_found(lines: Lines) -> MachineResources:
    online, memory = (lines.get(path, ("",))[0] for path in (ONLINE, MEMORY))
    words = memory.split()
    return MachineResources(
        len(cpu_lists.parse(online)) if online else None,
        int(words[1]) * 1024 if words[:1] == ["MemTotal:"] else None,
    )


def limits_changed(before: GroupLimits | None, after: GroupLimits | None) -> list[str]:
    if before is None or after is None:
        return []
    problems = []
    if before.quota != after.quota:
        had, has = ("any" if one is None else f"{one:g} CPUs" for one in (before.quota, after.quota))
        problems.append(f"it may use {has} of their time instead of {had}")
    elif before.quota is None and any(
        count > before.periods.get(group, count) for group, count in after.periods.items()
    ):
        problems.append("it was held to a quota that has been taken away again")
    if before.memory != after.memory:
        had, has = ("any" if one is None else str(one) for one in (before.memory, after.memory))
        problems.append(f"its control group allows it {has} bytes of memory instead of {had}")
    return problems


def found_changed(had: MachineResources, has: MachineResources) -> list[str]:
    problems = []
    if None not in (had.cpus, has.cpus) and had.cpus != has.cpus:
        problems.append(f"{has.cpus} CPUs are online instead of {had.cpus}")
    if had.memory and has.memory and abs(has.memory / had.memory - 1) > _SAME_MEMORY:
        problems.append(f"it has {has.memory} bytes of memory instead of {had.memory}")
    return problems


def _describe_change(role: str, name: str, problems: Sequence[str]) -> str:
    return f"the {role} {name} did not keep what it was given while it was measured: {'; '.join(problems)}"
