"""What control groups allow a machine, whoever made them, and what the kernel has counted of them; version 1 and 2.

By two readings of a site for all of its machines: which groups there are, and their files.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nearmetal.errors import HostCannot
from nearmetal.lab import cgroup
from nearmetal.lab.read_lines import Lines, read_lines
from nearmetal.model import Site

_NO_LIMIT = 1 << 62
"""Version 1 writes "none" as the largest number of whole pages."""


@dataclass(frozen=True)
class GroupLimits:
    """The strictest among some groups and those above them, None for none; and what the kernel has counted of them, by
    their folders."""

    quota: float | None = None
    """CPUs' worth of time."""
    memory: int | None = None
    """In bytes."""
    periods: Mapping[str, int] = field(default_factory=dict)
    """In which the groups were held to a quota since they were made."""
    kills: Mapping[str, int] = field(default_factory=dict)
    """Processes of each group that the kernel killed for memory."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Processes that each could not start, since it had as many as it may."""
    frozen: Mapping[str, int] = field(default_factory=dict)
    """1 for each that stands still by order of its freezer, else 0."""
    frozen_us: Mapping[str, int] = field(default_factory=dict)
    """Microseconds for which each stood so. Only since Linux 6.18 and in version 2."""
    stalled_us: Mapping[str, int] = field(default_factory=dict)
    """Microseconds in which all of a group waited for memory. Only in version 2."""


# Of the group of a process itself: those above count their other groups. Its own words are told apart by the file.
_COUNTERS: Mapping[str, tuple[str, ...]] = {
    "": ("memory.events", "pids.events", "cgroup.events", "cgroup.stat.local", "memory.pressure"),
    "memory": ("memory.oom_control",),
    "pids": ("pids.events",),
    "freezer": ("freezer.state",),
}
# Of all groups above it too, but for the root, which has no limits.
_LIMITING: Mapping[str, tuple[str, ...]] = {
    "": ("cpu.max", "cpu.stat", "memory.max"),
    "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.stat"),
    "memory": ("memory.limit_in_bytes",),
}
_WORDS = "^-?[0-9]+( [0-9]+)?$|^max|^oom_kill |^nr_periods |^frozen|^full |^THAWED$|^FREEZING$|^FROZEN$"
"""Lines that are numbers or a limit alone, or begin with one of these words."""
_COUNTS: Mapping[tuple[str, str], str] = {
    ("cpu.stat", "nr_periods"): "periods",
    ("memory.events", "oom_kill"): "kills",
    ("memory.oom_control", "oom_kill"): "kills",
    ("pids.events", "max"): "refused",
    ("cgroup.events", "frozen"): "frozen",
    ("cgroup.stat.local", "frozen_usec"): "frozen_us",
    ("memory.pressure", "full"): "stalled_us",
}


async def read_limits(machines: Sequence[Sequence[str]], site: Site) -> list[GroupLimits]:
    """Of the groups that each machine's threads are in, whoever put them there, from the lines of their /proc/*/cgroup.
    MachineLost, HostCannot."""
    folders = [find_folders(lines) for lines in machines]
    files = dict.fromkeys(file for groups in folders for file in _list_files(groups))
    if not files:
        return [GroupLimits() for _ in machines]
    lines = await read_lines(site, _WORDS, list(files))
    if lines is None:
        raise HostCannot("its control groups cannot be read", site.name)
    return [parse_limits(groups, lines) for groups in folders]


def find_folders(lines: Iterable[str]) -> set[tuple[str, str]]:
    """Controllers, "" for all in version 2, each with its folder, from lines of /proc/PID/cgroup. Pure."""
    split = {tuple(line.split(":", 2)) for line in lines if line.count(":") >= 2}
    # Beside version 1 there may be a hierarchy of version 2 that controls nothing.
    is_second = not any(controllers for _, controllers, _ in split)
    if is_second:
        return {("", f"{cgroup.ROOT}{path}") for _, _, path in split}
    return {
        (controller, f"{cgroup.ROOT}/{controller}{path}")
        for _, controllers, path in split
        for controller in controllers.split(",")
        if controller in _COUNTERS or controller in _LIMITING
        if controller
    }


def _list_files(groups: Iterable[tuple[str, str]]) -> Iterator[str]:
    for controller, folder in sorted(groups):
        yield from (f"{folder}/{name}" for name in _COUNTERS.get(controller, ()))
        for above in _list_below_root(controller, folder):
            yield from (f"{above}/{name}" for name in _LIMITING.get(controller, ()))


def _list_below_root(controller: str, folder: str) -> Iterator[str]:
    """The folder and those above it, without that of its hierarchy."""
    root = f"{cgroup.ROOT}/{controller}" if controller else str(cgroup.ROOT)
    while len(folder) > len(root) and folder.rstrip("/") != root:
        yield folder
        folder = folder.rpartition("/")[0]


def parse_limits(groups: Iterable[tuple[str, str]], lines: Lines) -> GroupLimits:
    """Of these groups, as `find_folders` tells them, from lines of their files. Pure."""
    quotas, memories = [], []
    counts: dict[str, dict[str, int]] = {name: {} for name in _COUNTS.values()}
    for file in dict.fromkeys(_list_files(groups)):
        folder, _, name = file.rpartition("/")
        said = lines.get(file, ())
        if name in ("memory.max", "memory.limit_in_bytes"):
            memories += [int(line) for line in said if line.isdigit() and int(line) < _NO_LIMIT]
        elif name == "cpu.max":
            quotas += [int(words[0]) / int(words[1]) for line in said if (words := line.split())[0] != "max"]
        elif name == "cpu.cfs_quota_us":
            period = lines.get(f"{folder}/cpu.cfs_period_us", ())
            quotas += [int(line) / int(period[0]) for line in said if line != "-1" and period]
        elif name == "freezer.state":
            counts["frozen"][folder] = int(said != ("THAWED",)) if said else 0
        else:
            for line in said:
                what, *words = line.split()
                if (counted := _COUNTS.get((name, what))) and words:
                    counts[counted][folder] = int(words[-1].rpartition("=")[2])
    return GroupLimits(min(quotas, default=None), min(memories, default=None), **counts)
