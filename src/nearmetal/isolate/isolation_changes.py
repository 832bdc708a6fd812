"""What isolating CPUs changes: at once, and by the boot loader. Pure."""

from collections.abc import Iterator, Sequence

from nearmetal import cpu_lists
from nearmetal.isolate.host import KNOBS, Bystanders, Cpusets, Host
from nearmetal.model import Change
from nearmetal.treatments.isolation import kernel_arguments

ON = "site:local"
GOVERNOR = "performance"
_DEVICES = "/sys/devices/system"

_WHY = {
    "kernel.timer_migration": "timers stay on the CPU that set them",
    "kernel.sched_rt_runtime_us": "real-time work is not throttled",
    "kernel.numa_balancing": "no page is unmapped to see who uses it",
    "kernel.nmi_watchdog": "no interrupt comes to see whether the CPU still answers",
    "kernel.hung_task_timeout_secs": "the kernel looks less often for tasks that hang",
    "vm.stat_interval": "statistics of memory are gathered on every CPU less often",
}


def list_changes(host: Host, cpus: Sequence[int], cpusets: Cpusets, probe: str, required: bool) -> list[Change]:
    """Knobs, governors, and last everybody who may run there: what takes no reboot. `required`: or nothing at all.

    People's programs by a cpuset where that is fit for it; by their affinities all others who may still run there.
    """
    target = f"{probe} {cpu_lists.show(cpus)}"
    governed = [cpu.number for cpu in host.cpus if cpu.number in cpus and cpu.governor]
    counting = [cpu.number for cpu in host.cpus if cpu.number in cpus and cpu.counts_errors]
    wanted = [
        *(("sysctl", name, KNOBS[name]) for name in host.knobs),
        *(("file", f"{_DEVICES}/cpu/cpu{cpu}/cpufreq/scaling_governor", f"{GOVERNOR}\n") for cpu in governed),
        *(("file", f"{_DEVICES}/machinecheck/machinecheck{cpu}/ignore_ce", "1\n") for cpu in counting),
        *(() if cpusets.unfit else (("cpuset", target, cpusets.listed),)),
        ("bystanders", target, "clear"),
    ]
    return [
        Change.model_validate({"on": ON, "kind": kind, "target": target, "after": after, "required": required})
        for kind, target, after in wanted
    ]


def make_boot_change(cpus: Sequence[int]) -> Change:
    """A file of our own in /etc/default/grub.d; the user's lines are not edited."""
    arguments = " ".join(kernel_arguments(cpu_lists.show(cpus)))
    return Change(on=ON, kind="boot", target="kernel arguments", after=arguments)


def describe_change(change: Change, host: Host, there: Bystanders, cpusets: Cpusets) -> str:
    cpus = change.target.split()[-1]
    match change.kind:
        case "sysctl":
            now = host.knobs[change.target]
            step = f"stays {now}" if now == change.after else f"from {now} to {change.after}"
            return f"{change.target} {step}: {_WHY[change.target]}"
        case "file":
            why = "the clock rate does not follow the load"
            if change.target.endswith("ignore_ce"):
                why = "no CPU wakes up to count errors that the hardware has corrected, so that none are told"
            return f"{change.target}: to {change.after.strip()}: {why}"
        case "boot":
            return f"the boot loader adds {change.after}: scheduler, timer tick and RCU leave the CPU alone"
        case "cpuset":
            return _cpuset_in_words(cpusets, cpus)
    counts = (there if cpusets.unfit else there.leave_out(cpusets.tasks)).count_movable()
    return (
        f"{counts['threads']} threads and {counts['interrupts']} interrupt lines that may run on CPU {cpus}, and the "
        f"kernel's unbound work, go elsewhere; {counts['bound']} kernel threads are bound there and stay"
    )


def _cpuset_in_words(cpusets: Cpusets, cpus: str) -> str:
    threads = f"{len(cpusets.tasks)} threads of programs"
    if cpusets.version == "second":
        return f"a cpuset partition takes CPU {cpus} away from {threads}, and from the scheduler's balancing"
    return f"{threads} go to a control group without CPU {cpus}, which {cpusets.groups} other control groups lose"


def describe_way(cpusets: Cpusets) -> str:
    """How programs are moved, and why so."""
    if cpusets.unfit:
        return f"programs are moved by their affinities, not by a cpuset: {cpusets.unfit}"
    return "programs are moved by a cpuset: whoever is pinned meanwhile keeps that"


def list_notes(host: Host, cpus: Sequence[int]) -> Iterator[str]:
    """What isolating these CPUs leaves to be desired."""
    for cpu in host.cpus:
        shared = [one for one in cpu.siblings if one not in cpus]
        if cpu.number in cpus and shared:
            beside = f"CPU {cpu.number} shares its core with CPU {cpu_lists.show(shared)}"
            yield f"{beside}, which is not isolated and slows it: isolate both, or switch the other off"
    if 0 in cpus:
        yield "CPU 0 has duties that cannot be moved, so that it never is as quiet as another"
    if not set(cpus) <= set(cpu_lists.parse(host.nohz_full)):
        yield "the timer ticks on, up to 1000 times a second: only a kernel booted with nohz_full stops it (--boot)"
