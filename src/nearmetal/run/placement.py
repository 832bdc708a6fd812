"""Is a machine where it was put? Read back from its host's kernel: the CPUs of its processes, or of its vCPUs."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from nearmetal import cpu_lists
from nearmetal.lab import cgroup
from nearmetal.lab.site import must
from nearmetal.model import ControlGroup, Handle, ProcessId, Readback, Site

# A process that ends meanwhile is none of the machine's.
_TASKS = """
for pid; do
    for task in /proc/$pid/task/*; do
        { read -r name <"$task/comm" && list=$(grep Cpus_allowed_list: "$task/status"); } 2>/dev/null || continue
        echo "${list##*[[:space:]]} $name"
    done
done
"""

_VCPU = re.compile(r"CPU (\d+)/")
"""How QEMU calls the thread of a vCPU (`-name debug-threads=on`)."""


@dataclass(frozen=True)
class Task:
    name: str
    cpus: str
    """Those that it may run on, in the kernel's notation."""


async def read(handle: Handle, site: Site, cpuset: str, kept: Set[int] = frozenset()) -> Readback | None:
    """Whether a machine's tasks are on its cpuset. None for a machine that is not ours to place.

    `kept`: CPUs of the site from which all was moved that is not measured.
    """
    pids = await processes(handle, site)
    if not cpuset or not pids:
        return None
    text = await must(site, "sh", "-c", _TASKS, "tasks", *map(str, pids))
    pinned = handle.hardware.pinned if handle.hardware else {}
    return judged([_task(line) for line in text.decode().splitlines()], cpuset, pinned, kept)


async def processes(handle: Handle, site: Site) -> list[int]:
    """The machine's first process, or all those of its monitor; none of a machine that is not ours to place."""
    match handle.life:
        case ProcessId():
            return [handle.life.pid]
        case ControlGroup():
            return await cgroup.processes(handle.life, site)
        case None:
            return []


def _task(line: str) -> Task:
    allowed, _, name = line.partition(" ")
    return Task(name, allowed)


def judged(tasks: Sequence[Task], cpuset: str, pinned: Mapping[int, int], kept: Set[int] = frozenset()) -> Readback:
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
