"""Where everybody may run on a machine or a host, as its own programs tell: to be the same before and after."""

from nearmetal.model import Commands

SNAPSHOT = """
grep -sHE '^(Name|Cpus_allowed_list):' /proc/[0-9]*/task/[0-9]*/status
grep -sH . /proc/irq/*/smp_affinity_list /proc/irq/default_smp_affinity /sys/devices/virtual/workqueue/cpumask
sysctl -e kernel.timer_migration kernel.sched_rt_runtime_us kernel.numa_balancing vm.stat_interval
"""
"""Few programs: to start one takes long in a guest that is emulated."""


async def snapshot(on: Commands) -> dict[str, str]:
    """Where everybody may run, and the knobs. Who comes and goes, such as who reads this, is in one of two only.

    The kernel's workers are left out: they cannot be moved, and follow the mask of the workqueues at their own time.
    """
    lines = (await on.exec(["sh", "-c", SNAPSHOT], timeout=120)).text.splitlines()
    split = [line.rpartition(" = " if " = " in line else ":\t" if ":\t" in line else ":") for line in lines]
    told = {name: value.strip() for name, _, value in split}
    names = {name.removesuffix(":Name"): value for name, value in told.items() if name.endswith(":Name")}
    workers = {path for path, name in names.items() if name.startswith("kworker/")}
    found = {}
    for name, value in told.items():
        path = name.removesuffix(":Cpus_allowed_list")
        if not name.endswith(":Name") and path not in workers:
            found[f"{path} {names.get(path, '')}".strip()] = value
    return found


def same(before: dict[str, str], after: dict[str, str]) -> None:
    both = before.keys() & after.keys()
    assert len(both) > 40
    assert {name: after[name] for name in both} == {name: before[name] for name in both}
    assert {name for name in before if not name.startswith("/proc/") or "/irq/" in name} <= both
