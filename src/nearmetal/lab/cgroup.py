"""Control groups of a machine on its site, version 1 and 2: made, removed, and what the host spends.

A machine's group is called `nearmetal-NAME`, right below the root of every hierarchy that matters: without a parent
of their own, machines that come and go at the same time cannot take it away from each other. Docker makes its own
groups; their paths are read from /proc/PID/cgroup, and the same reading functions serve.
"""

from collections.abc import Mapping
from pathlib import Path

from nearmetal.errors import HostCannot
from nearmetal.lab import rootless
from nearmetal.lab.host_checks import finding
from nearmetal.lab.local_site import run_checked
from nearmetal.model import ControlGroup, Cost, Finding, MachineSpec, Site

ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS = ("cpuset", "cpuacct", "memory", "cpu")
PERIOD = 100_000
"""Microseconds in which a quota is counted, as by `docker run --cpus`."""

# One script, because a program a step would cost more time than all the rest of making a machine. It tells the version.
_CREATE = """
set -e
# tee says why the kernel refuses a value, which the shell cannot.
write() { echo "$2" 2>/dev/null >"$1" || echo "$2" | tee "$1" >/dev/null; }
root=$1 name=$2 cpus=$3 bytes=$4 quota=$5 period=$6
if [ -f "$root/cgroup.controllers" ]; then
    version=2 cpuset=$root/$name memory=$root/$name
    write "$root/cgroup.subtree_control" "+cpuset +cpu +memory"
    [ -d "$cpuset" ] || mkdir "$cpuset"
    swap=memory.swap.max swap_bytes=0 limit=memory.max
    [ -z "$quota" ] || write "$cpuset/cpu.max" "$quota $period"
else
    version=1 cpuset=$root/cpuset/$name memory=$root/memory/$name
    [ -d "$memory" ] || mkdir "$cpuset" "$root/cpuacct/$name" "$memory"
    read -r nodes <"$root/cpuset/cpuset.mems"
    write "$cpuset/cpuset.mems" "$nodes"
    [ "$cpus" ] || read -r cpus <"$root/cpuset/cpuset.cpus"
    swap=memory.memsw.limit_in_bytes swap_bytes=$bytes limit=memory.limit_in_bytes
    if [ "$quota" ]; then
        mkdir -p "$root/cpu/$name"
        write "$root/cpu/$name/cpu.cfs_period_us" "$period"
        write "$root/cpu/$name/cpu.cfs_quota_us" "$quota"
    fi
fi
[ -z "$cpus" ] || write "$cpuset/cpuset.cpus" "$cpus"
if [ "$bytes" ]; then
    write "$memory/$limit" "$bytes"
    [ ! -e "$memory/$swap" ] || write "$memory/$swap" "$swap_bytes"
fi
echo "$version"
"""
_LACKING = """
if [ -f "$1/cgroup.controllers" ]; then
    read -r had <"$1/cgroup.controllers"
    for one in cpuset cpu memory; do
        case " $had " in *" $one "*) ;; *) echo "$one" ;; esac
    done
else
    for one in cpuset cpuacct memory; do
        [ -e "$1/$one/cgroup.procs" ] || echo "$one"
    done
fi
"""
# The words are the file of CPU time, the group's folder of memory and one of its processes, or "". What the shell does
# itself takes no process: a trial of a thousand clients asks for each of them. A process without memory of its own, of
# the kernel or dead and not yet waited for, has nothing to tell.
_COST = """
cat "$1" || exit 1
echo
echo memory
tell() {
    while read -r name value unit; do
        [ "$name" = Pss: ] && echo "$name $value" && return
    done 2>/dev/null <"/proc/$1/smaps_rollup"
    while read -r name value; do
        [ "$name" = VmSize: ] && echo untold
    done 2>/dev/null <"/proc/$1/status"
}
for list in "$2"/cgroup.procs "$2"/*/cgroup.procs "$2"/*/*/cgroup.procs "$2"/*/*/*/cgroup.procs; do
    [ -f "$list" ] && while read -r pid; do tell "$pid"; done <"$list"
done
if [ "$3" ]; then
    while read -r name value; do
        [ "$name" = PPid: ] && parent=$value
    done 2>/dev/null <"/proc/$3/status"
    read -r name 2>/dev/null <"/proc/$parent/comm" && case $name in containerd-shim*|conmon) tell "$parent" ;; esac
fi
if [ -f "$2/memory.kmem.usage_in_bytes" ]; then
    read -r value <"$2/memory.kmem.usage_in_bytes" && echo "kmem $value"
else
    while read -r name value; do
        case $name in
            kernel|kernel_stack|slab_reclaimable|slab_unreclaimable|sock|pagetables|percpu) echo "$name $value" ;;
        esac
    done 2>/dev/null <"$2/memory.stat"
fi
:
"""
# Its words are the folders of groups. A process that forks while the list is read escapes the round, so there are
# rounds until the group can be removed. A machine may have made groups below its own.
REMOVE = """
for round in $(seq 500); do
    left=
    for group; do
        [ -d "$group" ] || continue
        find "$group" -depth -type d | while read -r folder; do
            while read -r pid; do [ "$pid" = 0 ] || kill -KILL "$pid"; done <"$folder/cgroup.procs"
            rmdir "$folder"
        done
        [ ! -d "$group" ] || left=$group
    done 2>/dev/null
    [ "$left" ] || exit 0
    sleep 0.01
done
echo "these processes cannot be killed: $(cat "$left/cgroup.procs")" >&2
exit 1
"""


async def find_version(site: Site) -> int:
    """2 where the unified hierarchy is the only one, else 1."""
    return 2 if (await site.exec(["test", "-f", str(ROOT / "cgroup.controllers")])).status == 0 else 1


async def check_groups(site: Site) -> Finding:
    """Whether control groups can be made that limit a machine. A hierarchy of version 1 lacks what version 2 has beside
    it, and either what its kernel was told to leave out."""
    if rootless.lacks_groups(site):
        return Finding(what="control groups", ok=True)
    lacking = (await site.exec(["sh", "-c", _LACKING, "lacking", str(ROOT)])).text.split()
    detail = f"{ROOT} lacks {', '.join(lacking)} (version {await find_version(site)})" if lacking else ""
    remedy = "boot with systemd.unified_cgroup_hierarchy=1, which is version 2 alone, and without cgroup_disable"
    return finding("control groups", not lacking, detail, remedy)


def name_group(name: str, version: int, has_quota: bool = False) -> ControlGroup:
    """The group of a machine of ours, whether it exists or not."""
    folder, controllers = _folder_name(name), _CONTROLLERS if has_quota else _CONTROLLERS[:-1]
    return _second_version(folder) if version == 2 else _first_version(dict.fromkeys(controllers, folder))


def _folder_name(name: str) -> str:
    if "/" in name:
        raise ValueError(f"{name!r} would lead to somebody else's control group")
    return f"nearmetal-{name}"


def _first_version(paths: Mapping[str, str]) -> ControlGroup:
    """A group of version 1, from its path within each controller's hierarchy."""
    cpuset, cpuacct, memory, _ = (str(ROOT / controller / paths.get(controller, "")) for controller in _CONTROLLERS)
    return ControlGroup(cpuset, cpuacct, memory, 1, str(ROOT / "cpu" / paths["cpu"]) if "cpu" in paths else "")


def _second_version(path: str) -> ControlGroup:
    folder = str(ROOT / path)
    return ControlGroup(folder, folder, folder, 2, folder)


async def create_group(name: str, spec: MachineSpec, cpus: str, site: Site, *, limit_memory: bool) -> ControlGroup:
    """Make a group with the machine's CPUs, its quota of them and, for what is no virtual machine, its memory (and no
    swap) as limits.

    A virtual machine has its memory from its monitor, whose own needs must not be taken out of the guest's.
    HostCannot with what the kernel said, for example to CPUs that are not there.
    """
    if rootless.lacks_groups(site):
        return ControlGroup("", "", "", 0, cpus=cpus, spent=f"{site.state}/machines/{name}/spent")
    limits = (cpus, str(spec.memory) if limit_memory else "", str(count_microseconds(spec) or ""), str(PERIOD))
    ended = await site.exec(["sh", "-c", _CREATE, "create", str(ROOT), _folder_name(name), *limits])
    if ended.status != 0:
        what = f"the control group of {name} could not be made: {ended.complaint}"
        raise HostCannot(what, remedy="`nearmetal doctor` says what is missing")
    return name_group(name, int(ended.stdout), has_quota=spec.quota is not None)


def count_microseconds(spec: MachineSpec) -> int | None:
    """CPU time that a machine may use in each `PERIOD`: its quota of each of its CPUs; None for no limit."""
    return None if spec.quota is None else round(spec.quota * spec.vcpus * PERIOD)


async def read_quota(group: ControlGroup, site: Site) -> float | None:
    """CPUs' worth of time that a group may use, as the kernel tells; None for no limit."""
    if not group.cpu:
        return None
    files = ("cpu.max",) if group.version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    allowed, period = (await run_checked(site, "cat", *(f"{group.cpu}/{file}" for file in files))).split()
    return None if allowed in (b"max", b"-1") else int(allowed) / int(period)


async def find_group(pid: int, site: Site) -> ControlGroup:
    """The control group that process `pid` of a site is in, whoever made it."""
    lines = [
        line.split(":", 2) for line in (await run_checked(site, "cat", f"/proc/{pid}/cgroup")).decode().splitlines()
    ]
    paths = {one: path.lstrip("/") for _, controllers, path in lines for one in controllers.split(",")}
    return _second_version(paths.get("", "")) if await find_version(site) == 2 else _first_version(paths)


async def read_group_cost(group: ControlGroup, site: Site, first: int | None = None) -> Cost:
    """What the group has used since it was made: CPU seconds, and memory now.

    Memory is the proportional set size of all its processes and the kernel's memory on their behalf, page cache that
    nobody has mapped apart: what its host would get back, should it go. None where one of them cannot be told.
    `first` is a process in it whose parent, if it is a container engine's shim, goes with the group. Without a group
    (version 0), it is the machine's first process, and memory is unknown.
    """
    if group.version == 0:
        assert first is not None
        return Cost(cpu_seconds=rootless.count_cpu_time(first, Path(group.spent)), memory_bytes=None)
    stat = "cpu.stat" if group.version == 2 else "cpuacct.usage"
    words = (f"{group.cpuacct}/{stat}", group.memory, "" if first is None else str(first))
    spent, _, held = (await run_checked(site, "sh", "-c", _COST, "cost", *words)).decode().partition("\nmemory\n")
    if group.version == 2:
        used = dict(line.split() for line in spent.splitlines())
        return Cost(cpu_seconds=int(used["usage_usec"]) / 1e6, memory_bytes=add_memory(held))
    return Cost(cpu_seconds=int(spent) / 1e9, memory_bytes=add_memory(held))


def add_memory(told: str) -> int | None:
    """Bytes, of what `_COST` tells of memory."""
    sizes = [line.split() for line in told.splitlines()]
    if any(name == "untold" for name, *_ in sizes):
        return None
    processes = sum(int(value) * 1024 for name, value, *_ in sizes if name == "Pss:")
    kernel = {name: int(value) for name, value, *_ in sizes if name != "Pss:"}
    if "kmem" in kernel:
        return processes + kernel["kmem"]
    if "kernel" in kernel:
        return processes + kernel["kernel"] - kernel.get("slab_reclaimable", 0)
    parts = ("slab_unreclaimable", "kernel_stack", "sock")  # before Linux 5.18 nobody adds them up
    if not all(name in kernel for name in parts):
        return None
    return processes + sum(kernel[name] for name in (*parts, "pagetables", "percpu") if name in kernel)


async def list_processes(group: ControlGroup, site: Site) -> list[int]:
    found = await site.exec(["cat", *(f"{folder}/cgroup.procs" for folder in group.folders)])
    return sorted({int(line) for line in found.text.split()})


async def remove_group(name: str, site: Site) -> None:
    """Kill what still runs in a machine's group and remove it. Idempotent. HostCannot when something cannot die."""
    folders = [folder for version in (1, 2) for folder in name_group(name, version, has_quota=True).folders]
    ended = await site.exec(["sh", "-c", REMOVE, "remove", *folders])
    if ended.status != 0:
        raise HostCannot(f"the control group of {name} could not be removed: {ended.complaint}")
