"""Control groups of a machine on its site, version 1 and 2: limits, and what the host spends.

A machine's group is called `nearmetal/NAME` in every hierarchy that matters. Docker makes its own groups; their
paths are read from /proc/PID/cgroup, and the same reading functions serve.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nearmetal.lab.site import must
from nearmetal.model import Cost, MachineSpec, Site

ROOT = Path("/sys/fs/cgroup")
PARENT = "nearmetal"
_CONTROLLERS = ("cpuset", "cpuacct", "memory")


@dataclass(frozen=True)
class Group:
    """The folders of one control group: one per controller on version 1, the same one for all on version 2."""

    cpuset: str
    cpuacct: str
    memory: str
    version: int

    @property
    def folders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.cpuset, self.cpuacct, self.memory)))


async def version(site: Site) -> int:
    """2 where the unified hierarchy is the only one, else 1."""
    return 2 if (await site.exec(["test", "-f", str(ROOT / "cgroup.controllers")])).status == 0 else 1


def named(name: str, version: int) -> Group:
    """The group of a machine of ours, whether it exists or not."""
    if version == 2:
        folder = str(ROOT / PARENT / name)
        return Group(folder, folder, folder, 2)
    return _first_version(dict.fromkeys(_CONTROLLERS, f"{PARENT}/{name}"))


def _first_version(paths: Mapping[str, str]) -> Group:
    """A group of version 1, from its path within each controller's hierarchy."""
    cpuset, cpuacct, memory = (str(ROOT / controller / paths.get(controller, "")) for controller in _CONTROLLERS)
    return Group(cpuset, cpuacct, memory, 1)


async def create(name: str, spec: MachineSpec, cpus: str, site: Site, *, limit_memory: bool) -> Group:
    """Make a group with the machine's CPUs and, for what is no virtual machine, its memory as limits.

    A virtual machine has its memory from its monitor, whose own needs must not be taken out of the guest's.
    """
    group = named(name, await version(site))
    await must(site, "mkdir", "-p", *group.folders)
    writes: list[tuple[str, str]] = []
    if group.version == 2:
        await _delegate(site)
        if cpus:
            writes.append((f"{group.cpuset}/cpuset.cpus", cpus))
        if limit_memory:
            writes.append((f"{group.memory}/memory.max", str(spec.memory)))
    else:
        writes += await _first_version_cpuset(group, cpus, site)
        if limit_memory:
            writes.append((f"{group.memory}/memory.limit_in_bytes", str(spec.memory)))
    for path, value in writes:
        await must(site, "tee", path, stdin=value.encode())
    return group


async def _delegate(site: Site) -> None:
    """Version 2 hands controllers down one level at a time."""
    for folder in (ROOT, ROOT / PARENT):
        await must(site, "tee", f"{folder}/cgroup.subtree_control", stdin=b"+cpuset +cpu +memory")


async def _first_version_cpuset(group: Group, cpus: str, site: Site) -> list[tuple[str, str]]:
    """Version 1 starts a cpuset empty: parent first, then the group, CPUs and memory nodes both."""
    all_cpus = (await must(site, "cat", f"{ROOT}/cpuset/cpuset.cpus")).decode().strip()
    nodes = (await must(site, "cat", f"{ROOT}/cpuset/cpuset.mems")).decode().strip()
    parent = Path(group.cpuset).parent
    return [
        (f"{parent}/cpuset.cpus", all_cpus),
        (f"{parent}/cpuset.mems", nodes),
        (f"{group.cpuset}/cpuset.cpus", cpus or all_cpus),
        (f"{group.cpuset}/cpuset.mems", nodes),
    ]


async def of_process(pid: int, site: Site) -> Group:
    """The group that a process is in, whoever made it."""
    paths: dict[str, str] = {}
    unified = ""
    for line in (await must(site, "cat", f"/proc/{pid}/cgroup")).decode().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path.lstrip("/")
        if not controllers:
            unified = path.lstrip("/")
    if await version(site) == 2:
        folder = str(ROOT / unified)
        return Group(folder, folder, folder, 2)
    return _first_version(paths)


async def cost(group: Group, site: Site) -> Cost:
    """What the group has used since it was made: CPU seconds, and memory now without reclaimable page cache."""
    if group.version == 2:
        lines = await must(
            site, "cat", f"{group.cpuacct}/cpu.stat", f"{group.memory}/memory.current", f"{group.memory}/memory.stat"
        )
        words = _pairs(lines.decode())
        seconds = int(words["usage_usec"]) / 1e6
        cache = int(words.get("inactive_file", 0)) + int(words.get("active_file", 0))
    else:
        lines = await must(
            site,
            "cat",
            f"{group.cpuacct}/cpuacct.usage",
            f"{group.memory}/memory.usage_in_bytes",
            f"{group.memory}/memory.stat",
        )
        words = _pairs(lines.decode())
        seconds = int(lines.split()[0]) / 1e9
        cache = int(words.get("total_cache", 0)) - int(words.get("total_shmem", 0))
    singles = [line for line in lines.decode().splitlines() if line.isdigit()]
    return Cost(cpu_seconds=seconds, memory_bytes=max(0, int(singles[-1]) - cache))


def _pairs(text: str) -> dict[str, str]:
    return {words[0]: words[1] for line in text.splitlines() if len(words := line.split()) == 2}


async def processes(group: Group, site: Site) -> list[int]:
    found = await site.exec(["cat", *(f"{folder}/cgroup.procs" for folder in group.folders)])
    return sorted({int(line) for line in found.text.split()})


async def remove(name: str, site: Site) -> None:
    """Kill what still runs in a machine's group and remove it. Idempotent."""
    group = named(name, await version(site))
    for _ in range(100):
        left = await processes(group, site)
        if left:
            await site.exec(["kill", "-KILL", *map(str, left)])
        await site.exec(["rmdir", *group.folders])
        if (await site.exec(["test", "-d", group.cpuset])).status != 0:
            break
        await asyncio.sleep(0.02)
    # The parent stays as long as another machine is in it.
    await site.exec(["rmdir", "--ignore-fail-on-non-empty", *(str(Path(folder).parent) for folder in group.folders)])
