"""Is a machine where it was put? Read back from its host's kernel: the CPUs of its processes, or of its vCPUs."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from nearmetal import cpu_lists
from nearmetal.errors import HostCannot
from nearmetal.lab import cgroup
from nearmetal.lab.read_lines import Lines, read_lines
from nearmetal.model import ControlGroup, Handle, ProcessId, Readback, Site

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
