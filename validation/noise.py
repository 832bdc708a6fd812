"""The noise observer held against gaps that are known, and against other tools that hear a CPU's noise.

    sudo python validation/noise.py [--cpu N] [--rounds 30] [--json]

- duty: a task of higher priority takes the CPU for 2 ms every 100 ms, and writes down when, and what that cost by the
  kernel's account. Goal: 95 % of these gaps are found, and 95 % of those have a length within 10 % of that.
- quota: the listener may use half of the CPU, by a control group. Goal: the share of time lost is within 10 % of what
  the kernel's own account of the group's processor time leaves. Interrupts and steal are heard, and are not in it.
- cyclictest: the same task beside a thread that wants to wake up every 200 us. It is late by as much as a gap is long,
  less up to its interval. Goal: the median delay above 1 ms is within 15 % of our median gap above 1 ms.
- osnoise: the same task beside the kernel's own tracer, where the kernel has it. Goal: the median over the rounds of
  rtla's "max single" noise is within 15 % of that of our longest gap.

What cannot be done here is told and does not count. The listener has a real-time priority, but for the quota, so that
what else runs on this host takes no part; a round is short enough for the kernel not to interfere with that.
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from nearmetal.errors import NearmetalError
from nearmetal.lab import cgroup, probe
from nearmetal.lab.cpus.noise import build_listen_command
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import MachineSpec

TAKEN = 2_000_000
"""Nanoseconds of each PERIOD that the competing task takes."""
PERIOD = 100_000_000
LISTEN = 0.8
"""Seconds of a round: the kernel lets ordinary programs run after 0.95 s in which a real-time one left them nothing."""
LONG = 1e-3
"""Seconds: longer than what ordinarily delays a program, and shorter than what the task takes."""
QUOTA = 0.5
INTERVAL_US = 200
TRACERS = Path("/sys/kernel/tracing/available_tracers")

Span = tuple[int, int]
"""Begin and end, in ns since the epoch."""
Known = tuple[int, int]
"""The middle of a time that the task took, in ns since the epoch, and how long it was on the CPU then, in ns."""


@dataclass(frozen=True)
class Row:
    what: str
    expected: float
    seen: float
    unit: str
    tolerance: str
    holds: bool | None
    """None for what could not be done, and why is in `note`."""
    note: str = ""


@dataclass(frozen=True)
class Duty:
    """What a round with the competing task came to."""

    known: int
    ratios: list[float]
    """Of the known gaps that were found: the length, over what the task took."""
    longest: list[float]
    """Gaps in seconds, the longest first."""


# ── The competing task ────────────────────────────────────────────────────────────────────────────────────────────


def _take(cpu: int, seconds: float, told: Connection) -> None:
    """Take TAKEN of every PERIOD from everybody on this CPU, and tell when it was."""
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    gc.disable()
    taken: list[Known] = []
    until = time.monotonic_ns() + round(seconds * 1e9)
    next_ns = time.monotonic_ns()
    while next_ns < until:
        next_ns += PERIOD
        # All that it does from here on is part of the gap that others see, its waking up included.
        used = time.thread_time_ns()
        time.sleep(max(0, next_ns - time.monotonic_ns()) / 1e9)
        begin = time.monotonic_ns()
        while time.monotonic_ns() < begin + TAKEN:
            pass
        taken.append((begin + TAKEN // 2, time.thread_time_ns() - used))
    epoch = time.time_ns() - time.monotonic_ns()
    told.send([(middle + epoch, cost) for middle, cost in taken])


@contextmanager
def competing(cpu: int, seconds: float) -> Iterator[Callable[[], list[Known]]]:
    """Beside what goes on inside; afterwards it tells when it had the CPU."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    task = multiprocessing.get_context("fork").Process(target=_take, args=(cpu, seconds, theirs), daemon=True)
    task.start()
    known: list[Known] = []
    try:
        yield lambda: known
        known += ours.recv()
        task.join(5)
    finally:
        task.kill()


# ── Listening ─────────────────────────────────────────────────────────────────────────────────────────────────────


def listen(cpu: int, seconds: float, *before: str) -> dict[str, Any]:
    """What the probe heard on this CPU; `before` is what starts it."""
    argv = [*before, *build_listen_command(str(probe.path()), [cpu], seconds)]
    ended = subprocess.run(argv, capture_output=True, check=True, timeout=seconds + 30)
    found: dict[str, Any] = json.loads(ended.stdout)["cpus"][0]
    return found


def duty(cpu: int) -> Duty:
    with competing(cpu, LISTEN + 1.0) as known:
        heard = listen(cpu, LISTEN, "chrt", "-f", "1")
    begin, end = heard["time_ns"], heard["time_ns"] + heard["elapsed_ns"]
    gaps = [(one["time_ns"], one["time_ns"] + one["length_ns"]) for one in heard["gaps"]["longest"]]
    within = [(middle, cost) for middle, cost in known() if begin + TAKEN < middle < end - TAKEN]
    found = [(_around(middle, gaps), cost) for middle, cost in within]
    ratios = [(gap[1] - gap[0]) / cost for gap, cost in found if gap is not None]
    return Duty(len(within), ratios, [one["length_ns"] / 1e9 for one in heard["gaps"]["longest"]])


def _around(moment: int, gaps: Sequence[Span]) -> Span | None:
    return next((gap for gap in gaps if gap[0] < moment < gap[1]), None)


async def quota(cpu: int) -> tuple[float, float]:
    """The share of time lost to a listener that may use QUOTA of the CPU: as the kernel accounts, and as heard."""
    site, name = LocalSite(), f"noise-{os.getpid()}"
    try:
        group = await cgroup.create_group(name, MachineSpec(quota=QUOTA), str(cpu), site, limit_memory=False)
        place = [word for folder in group.folders for word in ("--cgroup", folder)]
        heard = listen(cpu, 3 * LISTEN, str(probe.path()), "launch", *place, "--")
        used = (await cgroup.read_group_cost(group, site)).cpu_seconds
        return 1 - used * 1e9 / heard["elapsed_ns"], float(heard["gaps"]["share"])
    finally:
        await cgroup.remove_group(name, site)


# ── Others that listen ────────────────────────────────────────────────────────────────────────────────────────────


def cyclictest(cpu: int) -> list[float]:
    """By how much a thread woke up late, in seconds: the delays above LONG."""
    loops = round(LISTEN * 1e6 / INTERVAL_US)
    argv = ["cyclictest", "-q", "-t1", f"-a{cpu}", "-p40", f"-i{INTERVAL_US}", f"-l{loops}", "-h100000"]
    with competing(cpu, LISTEN + 1.0):
        ended = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30)
    counts = re.findall(r"^([0-9]+) ([0-9]+)$", ended.stdout, re.MULTILINE)
    if not counts:
        raise ValueError(f"cyclictest printed {ended.stdout!r}")
    return [late for us, count in counts for late in [int(us) / 1e6] * int(count) if late > LONG]


def osnoise(cpu: int) -> list[float]:
    """The longest single noise, in seconds."""
    argv = ["rtla", "osnoise", "top", "-q", "-c", str(cpu), "-d", "1s"]
    with competing(cpu, 3.0):
        ended = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    row = next((line.split() for line in ended.stdout.splitlines() if re.match(rf"\s*{cpu}\s+#", line)), None)
    if row is None:
        raise ValueError(f"rtla printed {ended.stdout!r}")
    # CPU, #periods, runtime, noise, % of the CPU, max noise, max single
    return [int(row[6]) / 1e6]


def missing(tool: str) -> str:
    """Why another tool cannot run here, or ""."""
    if shutil.which(tool) is None:
        return f"{tool} is not installed: apt-get install {'rt-tests' if tool == 'cyclictest' else tool}"
    if tool == "rtla" and (not TRACERS.exists() or "osnoise" not in TRACERS.read_text().split()):
        return "this kernel has no osnoise tracer (CONFIG_OSNOISE_TRACER), or tracefs is not mounted"
    return ""


# ── Judging ───────────────────────────────────────────────────────────────────────────────────────────────────────


def rows(cpu: int, rounds: int) -> list[Row]:
    others = {"cyclictest": cyclictest, "rtla": osnoise}
    why = {tool: missing(tool) for tool in others}
    duties: list[Duty] = []
    lost: list[tuple[float, float]] = []
    theirs: dict[str, list[float]] = {tool: [] for tool in others}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        duties.append(duty(cpu))
        lost.append(asyncio.run(quota(cpu)))
        for tool, run in others.items():
            if not why[tool]:
                theirs[tool] += run(cpu)
    ours = {
        "cyclictest": [gap for one in duties for gap in one.longest if gap > LONG],
        "rtla": [one.longest[0] for one in duties],
    }
    return [
        *_duty_rows(duties),
        _quota_row(lost),
        *(_other(tool, theirs[tool], ours[tool], why[tool]) for tool in others),
    ]


def _duty_rows(duties: Sequence[Duty]) -> list[Row]:
    known = sum(one.known for one in duties)
    ratios = [ratio for one in duties for ratio in one.ratios]
    found = len(ratios) / known
    near = sum(abs(ratio - 1) <= 0.1 for ratio in ratios) / max(1, len(ratios))
    middle = f"the median is {statistics.median(ratios):.4f} of it" if ratios else ""
    return [
        Row("duty: known gaps found", 1, found, "share", ">= 0.95", found >= 0.95, f"of {known}"),
        Row("duty: lengths within 10 % of what was taken", 1, near, "share", ">= 0.95", near >= 0.95, middle),
    ]


def _quota_row(lost: Sequence[tuple[float, float]]) -> Row:
    accounted, seen = (statistics.median(one[index] for one in lost) for index in (0, 1))
    text = f"of which the quota alone asks for {1 - QUOTA:.0%}"
    return Row("quota: share of time lost", accounted, seen, "share", "10 %", abs(seen / accounted - 1) <= 0.1, text)


def _other(tool: str, theirs: Sequence[float], ours: Sequence[float], why: str) -> Row:
    what, expected = f"{tool}, beside ours", statistics.median(ours)
    if why:
        return Row(what, expected, float("nan"), "s", "15 %", None, why)
    seen = statistics.median(theirs) if theirs else float("nan")
    note = (
        f"{len(theirs)} beside {len(ours)} of ours; the longest {max(theirs, default=0):.4f} s beside {max(ours):.4f} s"
    )
    return Row(what, expected, seen, "s", "15 %", abs(seen / expected - 1) <= 0.15, note)


def table(found: Sequence[Row]) -> str:
    lines = [
        f"what is known, and what is heard of it (load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs)\n"
    ]
    lines.append(f"{'what':<44}{'expected':>12}{'seen':>12}  {'tolerance':<10} holds")
    for row in found:
        scale, digits, unit = (1e3, 3, " ms") if row.unit == "s" else (1, 4, "")
        expected, seen = (f"{value * scale:.{digits}f}{unit}" for value in (row.expected, row.seen))
        holds = "NOT DONE" if row.holds is None else "yes" if row.holds else "NO"
        lines.append(f"{row.what:<44}{expected:>12}{seen:>12}  {row.tolerance:<10} {holds:<9} {row.note}".rstrip())
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    available = sorted(os.sched_getaffinity(0))
    parser.add_argument("--cpu", type=int, default=available[-1], help="which one (default: the last)")
    parser.add_argument("--rounds", type=int, default=30, help="of each (default: 30)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.cpu not in available:
        parser.error(f"at least one round, and a CPU of {available}")
    if os.geteuid() != 0:
        parser.error("only root may run tasks of higher priority, and make control groups")
    try:
        found = rows(arguments.cpu, arguments.rounds)
    except NearmetalError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    if arguments.json:
        print(json.dumps({"schema": "validation.v1", "rows": [asdict(row) for row in found]}))
    else:
        print(table(found))
    return 0 if all(row.holds is not False for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
