"""Has each machine still what it was given, now that it has been measured? Anybody who has its host can change that.

Read when the boot is verified, and after each measurement: docs/validity.md says what, and which changes are not seen.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from nearmetal import cpu_lists
from nearmetal.errors import HostCannot
from nearmetal.lab import cgroup, cgroup_limits
from nearmetal.lab.cgroup_limits import GroupLimits
from nearmetal.lab.read_lines import Lines, read_lines
from nearmetal.model import ControlGroup, Handle, ProcessId, Readback, Site, Stage
from nearmetal.run.machine_state import MEMORY, ONLINE, MachineState

_TOLD = "^(Name|Cpus_allowed_list):|^[0-9]+:"
"""Of a thread's status its name and its CPUs; of its control groups each line."""

_VCPU = re.compile(r"CPU (\d+)/")
"""How QEMU calls the thread of a vCPU (`-name debug-threads=on`)."""


@dataclass(frozen=True)
class Task:
    name: str
    cpus: str
    """Those that it may run on, in the kernel's notation."""


@dataclass(frozen=True)
class Threads:
    """What a site's kernel tells of the threads of a machine."""

    tasks: tuple[Task, ...]
    groups: tuple[str, ...]
    """Lines of their /proc/*/cgroup."""


def judge_threads(threads: Threads, handle: Handle, cpuset: str, kept: Set[int] = frozenset()) -> Readback | None:
    """Whether a machine's tasks are on its cpuset. None for a machine that is not ours to place. Pure.

    `kept`: CPUs of the site from which all was moved that is not measured.
    """
    if not cpuset or not threads.tasks:
        return None
    return judge_tasks(threads.tasks, cpuset, handle.hardware.pinned if handle.hardware else {}, kept)


async def read_threads(machines: Sequence[Sequence[int]], site: Site) -> list[Threads]:
    """Of the processes of each machine, by one reading. MachineLost, HostCannot."""
    paths = [f"/proc/{pid}/task/*/{name}" for pids in machines for pid in pids for name in ("status", "cgroup")]
    lines = await read_lines(site, _TOLD, paths) if paths else {}
    if lines is None:
        raise HostCannot("the threads of its machines cannot be read", site.name)
    by_pid: dict[str, list[str]] = {}
    for path in lines:
        by_pid.setdefault(path.split("/", 3)[2], []).append(path)
    return [_parse_threads(lines, [path for pid in pids for path in by_pid.get(str(pid), ())]) for pids in machines]


def _parse_threads(lines: Lines, paths: Sequence[str]) -> Threads:
    # One that ends meanwhile has no CPUs any more.
    told = [lines[path] for path in paths if path.endswith("/status") and len(lines[path]) == len(("name", "CPUs"))]
    tasks = [Task(*(line.partition(":")[2].strip() for line in both)) for both in told]
    groups = dict.fromkeys(line for path in paths if path.endswith("/cgroup") for line in lines[path])
    return Threads(tuple(tasks), tuple(groups))


async def list_processes(handle: Handle, site: Site) -> list[int]:
    """The machine's first process, or all those of its monitor; none of a machine that is not ours to place."""
    match handle.life:
        case ProcessId():
            return [handle.life.pid]
        case ControlGroup():
            return await cgroup.list_processes(handle.life, site)
        case None:
            return []


def judge_tasks(
    tasks: Sequence[Task], cpuset: str, pinned: Mapping[int, int], kept: Set[int] = frozenset()
) -> Readback:
    """Pure. `pinned` has the CPU of each vCPU by its number; it is empty if none has one of its own."""
    allowed = set(cpu_lists.parse(cpuset))
    used = set().union(*(cpu_lists.parse(task.cpus) for task in tasks))
    values: dict[str, Any] = {"asked": cpuset, "cpus": cpu_lists.show(used)}
    problems = [
        f"{task.name} may run on {task.cpus}" for task in tasks if not set(cpu_lists.parse(task.cpus)) <= allowed
    ]
    unused = allowed - used - kept
    if unused and not problems:
        problems.append(f"nothing of it may run on {cpu_lists.show(unused)}")
    if pinned:
        found = {vcpu[1]: task.cpus for task in tasks if (vcpu := _VCPU.match(task.name))}
        wanted = {str(vcpu): str(cpu) for vcpu, cpu in pinned.items()}
        values["vcpus"] = found
        problems += [
            f"vCPU {vcpu} may run on {found.get(vcpu, 'nothing')} instead of {cpu}"
            for vcpu, cpu in wanted.items()
            if found.get(vcpu) != cpu
        ]
    return Readback(values=values, ok=not problems, reason=f"on CPUs {cpuset}: {'; '.join(problems)}")


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


def combine(placed: Sequence[PlacedMachine], found: FromSites, vitals: Sequence[MachineState]) -> Allotment:
    """With what was read of the servers, then the clients. Pure."""
    limits, where = zip(*(found[one.handle.name] for one in placed), strict=True) if placed else ((), ())
    return Allotment(tuple(placed), limits, tuple(_find_found(one.lines or {}) for one in vitals), where)


async def _read_site(
    site: Site, placed: Sequence[PlacedMachine]
) -> dict[str, tuple[GroupLimits | None, Readback | None]]:
    pids = await asyncio.gather(*(list_processes(one.handle, site) for one in placed))
    threads = await read_threads(pids, site)
    limits = await cgroup_limits.read_limits([one.groups for one in threads], site)
    return {
        one.handle.name: (limit if its else None, judge_threads(told, one.handle, one.cpuset, one.kept))
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
