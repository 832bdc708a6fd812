"""Control groups of a machine on its site, version 1 and 2: limits, and what the host spends.

A machine's group is called `nearmetal-NAME`, right below the root of every hierarchy that matters: without a parent
of their own, machines that come and go at the same time cannot take it away from each other. Docker makes its own
groups; their paths are read from /proc/PID/cgroup, and the same reading functions serve.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nearmetal.errors import HostCannot
from nearmetal.lab.site import must
from nearmetal.model import Cost, MachineSpec, Site

ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS = ("cpuset", "cpuacct", "memory")

# A program each would cost more time than all the rest of making a machine. tee, because it says why a write failed.
_CREATE_FIRST = """
set -e
cpuset=$1 cpuacct=$2 memory=$3 cpus=$4 bytes=$5
root=${cpuset%/*}
for group in "$cpuset" "$cpuacct" "$memory"; do [ -d "$group" ] || mkdir "$group"; done
tee "$cpuset/cpuset.mems" <"$root/cpuset.mems" >/dev/null
echo "${cpus:-$(cat "$root/cpuset.cpus")}" | tee "$cpuset/cpuset.cpus" >/dev/null
[ "$bytes" ] || exit 0
echo "$bytes" | tee "$memory/memory.limit_in_bytes" >/dev/null
if [ -e "$memory/memory.memsw.limit_in_bytes" ]; then
    echo "$bytes" | tee "$memory/memory.memsw.limit_in_bytes" >/dev/null
fi
"""
_CREATE_SECOND = """
set -e
group=$1 cpus=$2 bytes=$3
echo "+cpuset +cpu +memory" | tee "${group%/*}/cgroup.subtree_control" >/dev/null
[ -d "$group" ] || mkdir "$group"
[ -z "$cpus" ] || echo "$cpus" | tee "$group/cpuset.cpus" >/dev/null
[ "$bytes" ] || exit 0
echo "$bytes" | tee "$group/memory.max" >/dev/null
if [ -e "$group/memory.swap.max" ]; then
    echo 0 | tee "$group/memory.swap.max" >/dev/null
fi
"""
# A process that forks while the list is read escapes the round, so there are rounds until the group can be removed.
_REMOVE = """
for round in $(seq 500); do
    left=
    for group; do
        [ -d "$group" ] || continue
        while read -r pid; do kill -KILL "$pid"; done <"$group/cgroup.procs"
        rmdir "$group" || left=$group
    done 2>/dev/null
    [ "$left" ] || exit 0
    sleep 0.01
done
echo "these processes cannot be killed: $(cat "$left/cgroup.procs")" >&2
exit 1
"""


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
    if "/" in name:
        raise ValueError(f"{name!r} would lead to somebody else's control group")
    group = f"nearmetal-{name}"
    if version == 2:
        folder = str(ROOT / group)
        return Group(folder, folder, folder, 2)
    return _first_version(dict.fromkeys(_CONTROLLERS, group))


def _first_version(paths: Mapping[str, str]) -> Group:
    """A group of version 1, from its path within each controller's hierarchy."""
    cpuset, cpuacct, memory = (str(ROOT / controller / paths.get(controller, "")) for controller in _CONTROLLERS)
    return Group(cpuset, cpuacct, memory, 1)


async def create(name: str, spec: MachineSpec, cpus: str, site: Site, *, limit_memory: bool) -> Group:
    """Make a group with the machine's CPUs and, for what is no virtual machine, its memory (and no swap) as limits.

    A virtual machine has its memory from its monitor, whose own needs must not be taken out of the guest's.
    HostCannot with what the kernel said, for example to CPUs that are not there.
    """
    group = named(name, await version(site))
    limits = (cpus, str(spec.memory) if limit_memory else "")
    if group.version == 2:
        ended = await site.exec(["sh", "-c", _CREATE_SECOND, "create", group.cpuset, *limits])
    else:
        ended = await site.exec(
            ["sh", "-c", _CREATE_FIRST, "create", group.cpuset, group.cpuacct, group.memory, *limits]
        )
    if ended.status != 0:
        said = ended.stderr.decode("utf-8", "replace").strip()
        raise HostCannot(
            f"the control group of {name} could not be made: {said}", remedy="run nearmetal doctor as root"
        )
    return group


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
    """Kill what still runs in a machine's group and remove it. Idempotent. HostCannot when something cannot die."""
    group = named(name, await version(site))
    ended = await site.exec(["sh", "-c", _REMOVE, "remove", *group.folders])
    if ended.status != 0:
        raise HostCannot(f"the control group of {name} could not be removed: {ended.stderr.decode().strip()}")
