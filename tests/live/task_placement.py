"""Where everybody may run on a machine or a host, as its own programs tell: to be the same before and after."""

from nearmetal.model import Commands, Handle, Readback, Site
from nearmetal.run.resource_readback import judge_threads, list_processes, read_threads

from .snapshot import BOUND

SNAPSHOT = """
grep -sHE '^(Name|Cpus_allowed_list):' /proc/[0-9]*/task/[0-9]*/status
grep -sH . /proc/[0-9]*/task/[0-9]*/stat
grep -sH . /proc/irq/*/smp_affinity_list /proc/irq/default_smp_affinity /sys/devices/virtual/workqueue/cpumask
sysctl -e kernel.timer_migration kernel.sched_rt_runtime_us kernel.numa_balancing vm.stat_interval
"""
"""Few programs: to start one takes long in a guest that is emulated."""


async def snapshot(on: Commands) -> dict[str, str]:
    """Where everybody may run, and the knobs. Who comes and goes, such as who reads this, is in one of two only.

    Threads that nobody can move are left out: the kernel moves them when it likes.
    """
    lines = (await on.exec(["sh", "-c", SNAPSHOT], timeout=120)).text.splitlines()
    bound = {thread for thread, flags in map(_flags, filter(_is_stat, lines)) if flags & BOUND}
    split = [
        line.rpartition(" = " if " = " in line else ":\t" if ":\t" in line else ":")
        for line in lines
        if not _is_stat(line)
    ]
    told = {name: value.strip() for name, _, value in split}
    names = {name.removesuffix("/status:Name"): value for name, value in told.items() if name.endswith(":Name")}
    found = {}
    for name, value in told.items():
        thread = name.removesuffix("/status:Cpus_allowed_list")
        if not name.endswith(":Name") and thread not in bound:
            found[f"{thread} {names.get(thread, '')}".strip()] = value
    return found


def _is_stat(line: str) -> bool:
    return "/stat:" in line


def _flags(line: str) -> tuple[str, int]:
    """The thread's folder, and its flags, of a line of its `stat`: proc_pid_stat(5)."""
    thread, _, stat = line.partition("/stat:")
    return thread, int(stat.rpartition(")")[2].split()[6])


def same(before: dict[str, str], after: dict[str, str]) -> None:
    both = before.keys() & after.keys()
    assert len(both) > 40
    assert {name: after[name] for name in both} == {name: before[name] for name in both}
    assert {name for name in before if not name.startswith("/proc/") or "/irq/" in name} <= both


async def read_placement(handle: Handle, site: Site, cpuset: str) -> Readback | None:
    """Whether a machine's tasks are on its cpuset. None for a machine that is not ours to place."""
    (threads,) = await read_threads([await list_processes(handle, site)], site)
    return judge_threads(threads, handle, cpuset)
