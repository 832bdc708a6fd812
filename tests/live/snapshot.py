"""What a host looks like, in everything that a run may touch: to be the same before and after."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from nearmetal.config import Paths

from .leftovers import groups

_OURS = ("nm-", "nearmetal-")

BOUND = 0x0400_0000
"""PF_NO_SETAFFINITY of the kernel's include/linux/sched.h, in a thread's flags: the kernel alone says where it runs, as
of the workers of its workqueues, and of those that rescue them, which follow the work from CPU to CPU."""

_VOLATILE = (
    "fs.dentry-state",
    "fs.file-nr",
    "fs.inode-nr",
    "fs.inode-state",
    "fs.quota.",
    "kernel.ns_last_pid",
    "kernel.pty.nr",
    "kernel.random.",
    "net.netfilter.nf_conntrack_count",
    "vm.user_reserve",
)
"""Sysctls that tell what happens, instead of what was set."""


def snapshot() -> dict[str, list[str]]:
    """Namespaces, links with their addresses, routes, rules of the firewall, mounts, control groups, files and
    processes of ours, sysctls, and where interrupts and kernel threads may run."""
    return {
        "namespaces": _lines("ip", "netns", "list"),
        "links": [line.split(":")[1].strip() for line in _lines("ip", "-o", "link")],
        "addresses": [" ".join(line.split()[1:4]) for line in _lines("ip", "-o", "address")],
        "routes": _lines("ip", "route", "show", "table", "all"),
        "firewall": [*_lines("iptables", "-S"), *_lines("iptables", "-t", "nat", "-S")],
        "mounts": sorted(Path("/proc/mounts").read_text().splitlines()),
        "groups": list(map(str, groups("nearmetal-nm-"))),
        "files": _files(),
        "processes": _processes(),
        "interrupts": sorted(
            f"{file.parent.name} {_text(file)}" for file in Path("/proc/irq").glob("*/smp_affinity_list")
        ),
        "kernel threads": _kernel_threads(),
        "sysctls": [line for line in _lines("sysctl", "-a") if not line.startswith(_VOLATILE)],
    }


def _files() -> list[str]:
    """Of ours, where anybody may have some, and in the folder of state."""
    places = [Path(place) for place in ("/run", "/run/lock", "/tmp", "/var/tmp")]
    found = [file for place in places for ours in _OURS for file in place.glob(f"{ours}*")]
    state = Paths.default().state
    return sorted(map(str, [*found, *state.glob("machines/*"), *state.glob("temporary/*"), *state.glob("proof-*")]))


def changed(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """What is no more, and what is new."""
    gone = [f"gone from {what}: {one}" for what in before for one in before[what] if one not in after[what]]
    return gone + [f"new in {what}: {one}" for what in before for one in after[what] if one not in before[what]]


def placement() -> dict[str, str]:
    """Where everything on this host may run, by what it is: threads and the group of their cpuset, interrupt lines,
    groups of tasks, kernel work.

    Threads that nobody can move are left out: the kernel moves them when it likes.
    """
    files = [*Path("/proc/irq").glob("*/smp_affinity_list"), *Path("/sys/fs/cgroup").rglob("cpuset.cpus*")]
    files += [Path("/proc/irq/default_smp_affinity"), Path("/sys/devices/virtual/workqueue/cpumask")]
    return {str(file): _text(file) for file in files} | dict(_threads())


def _threads() -> Iterator[tuple[str, str]]:
    for thread in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        try:
            fields = dict(line.partition(":\t")[::2] for line in (thread / "status").read_text().splitlines())
            counts = (thread / "stat").read_text().rpartition(")")[2].split()
            group = (thread / "cpuset").read_text().strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        flags, start = int(counts[6]), counts[19]
        if not flags & BOUND:
            yield f"{thread.name} {start} {fields['Name']}", f"{fields['Cpus_allowed_list']} in {group}"


def _lines(*argv: str) -> list[str]:
    return sorted(subprocess.run(argv, capture_output=True, text=True).stdout.splitlines())


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:  # an interrupt that only one CPU can have
        return ""


def _kernel_threads() -> list[str]:
    """Each name with the CPUs it may have, of those that can be moved; workers come and go with the work."""
    found: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = dict(line.partition(":\t")[::2] for line in (process / "status").read_text().splitlines())
            flags = int((process / "stat").read_text().rpartition(")")[2].split()[6])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if "VmSize" not in fields and fields.get("PPid") in ("0", "2") and not flags & BOUND:
            found.add(f"{fields['Name']} {fields['Cpus_allowed_list']}")
    return sorted(found)


def _processes() -> list[str]:
    """Command lines that carry a name of ours."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(word.startswith(_OURS) for word in words):
            found.append(" ".join(words)[:200])
    return sorted(found)
