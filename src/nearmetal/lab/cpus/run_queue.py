"""How long a machine's threads, ready to run, waited for a CPU of their host: the scheduler's own count.

Source: /proc/PID/schedstat, see Documentation/scheduler/sched-stats.rst of the kernel. It tells of threads that live,
so it is meant for virtual machines, whose vCPUs are threads that stay.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nearmetal.lab.machines import cgroups
from nearmetal.model import Machine

_THREADS = """
for folder; do
    cat "$folder/tasks" "$folder/cgroup.threads" 2>/dev/null
done | sort -un | while read -r thread; do
    read -r counts <"/proc/$thread/schedstat" && echo "$thread $counts"
done 2>/dev/null
true
"""
"""`tasks` is version 1's list of a control group's threads, `cgroup.threads` version 2's."""

Accounts = Mapping[int, tuple[int, int, int]]
"""By thread, since it began: ns on a CPU, ns ready to run without one, how often it was given one."""


@dataclass(frozen=True)
class ThreadTotals:
    ran: float
    """Seconds on a CPU."""
    waited: float
    """Seconds ready to run, without a CPU."""
    turns: int
    """How often one was given a CPU."""

    @property
    def counters(self) -> dict[str, float | int]:
        return {"ran": round(self.ran, 6), "waited": round(self.waited, 6), "turns": self.turns}


async def read_accounts(machine: Machine) -> Accounts:
    """Of the machine's threads on its host; empty where they are not known, or the host's kernel does not count."""
    folders = await cgroups.folders(machine)
    if not folders:
        return {}
    return parse_accounts((await machine.site.exec(["sh", "-c", _THREADS, "threads", *folders])).text)


def parse_accounts(text: str) -> Accounts:
    """From lines of a thread and its three counts. Pure."""
    counts = (map(int, line.split()) for line in text.splitlines())
    return {thread: (ran, waited, turns) for thread, ran, waited, turns in counts}


def find_totals(before: Accounts, after: Accounts) -> ThreadTotals | None:
    """Of the threads that were there both times; None where none of them ran, as where nobody counts. Pure."""
    both = [(before[thread], after[thread]) for thread in before.keys() & after.keys()]
    ran, waited, turns = (sum(late[index] - early[index] for early, late in both) for index in range(3))
    return ThreadTotals(ran / 1e9, waited / 1e9, turns) if ran else None
