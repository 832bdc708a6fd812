"""`nearmetal isolate` on this very host, as a user has it: given back exactly, wherever it was killed."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from .isolating import State, given_back, killed_at, nearmetal, same, state

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="of one CPU none can be kept free"),
]

ALL = 0
"""Changes: however many there are. Fewer, in negative numbers: the last is of all bystanders, and the one before it of
programs, where those are moved by a cpuset."""


@pytest.fixture
def before() -> Iterator[State]:
    with given_back() as found:
        yield found


def test_it_stands_is_told_to_a_run_and_is_cleaned(before: State, tmp_path: Path) -> None:
    """Nobody has to be there: what `on` did stands, and `clean` undoes it."""
    ended = nearmetal("isolate", "on", "--json")
    told = json.loads(ended.stdout)
    assert ended.returncode == (1 if told["warnings"] else 0)
    during = state()
    assert during != before
    assert "kernel.timer_migration = 0" in during[1]
    moved = [name for name, cpus in during[0].items() if before[0].get(name, cpus) != cpus]
    assert len(moved) > 10
    assert json.loads(nearmetal("isolate", "status", "--json").stdout)["cpus"] == told["cpus"]
    a_run_beside_it_says_so(told["cpus"], tmp_path)
    cleaned = json.loads(nearmetal("clean", "--json").stdout)
    assert cleaned["left"] == []
    assert len(cleaned["restored"]) >= 2
    same(before, state())


STUDY = """
name = "beside-it"
[factors]
environment = ["host"]
[[workloads]]
name = "sums"
kind = "command"
argv = ["echo", "7"]
response = "lucky"
unit = "1"
better = "higher"
match = "([0-9]+)"
[design]
blocks = 1
"""


def a_run_beside_it_says_so(cpus: str, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    ran = nearmetal("run", str(study), "-o", str(tmp_path / "run"))
    assert ran.returncode == 0, ran.stderr
    assert f"CPU {cpus} is kept free by nearmetal isolate" in ran.stdout + ran.stderr
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["kept_free"] == cpus


@pytest.mark.parametrize(
    ("count", "delay"),
    [
        *((1, 0.0), (ALL, 0.005), (ALL - 1, 0.015)),
        *(
            pytest.param(count, delay, marks=pytest.mark.long)
            for count, delay in (
                *((2, 0.0), (4, 0.0), (ALL, 0.0), (ALL, 0.02), (ALL, 0.05)),
                *((ALL - 1, 0.0), (ALL - 1, 0.01), (ALL - 1, 0.02), (ALL - 1, 0.03)),
            )
        ),
    ],
)
def test_killed_while_it_isolates(before: State, count: int, delay: float) -> None:
    """From the first line of the ledger to when everybody is being moved, and just after."""
    changes = json.loads(nearmetal("isolate", "plan", "--json").stdout)["changes"]
    there = sum(" stays " not in one["words"] for one in changes)
    count = min(count, there) if count > 0 else there + count
    assert killed_at(count, "change", delay, "on") or delay
    cleaned = nearmetal("clean", "--json")
    assert cleaned.returncode == 0
    assert len(json.loads(cleaned.stdout)["restored"]) >= count
    same(before, state())


@pytest.mark.parametrize(
    ("count", "delay"),
    [
        *((1, 0.0), (1, 0.015)),
        *(
            pytest.param(count, delay, marks=pytest.mark.long)
            for count, delay in ((2, 0.0), (3, 0.0), (1, 0.01), (1, 0.02))
        ),
    ],
)
def test_killed_while_it_gives_back(before: State, count: int, delay: float) -> None:
    """The first that is undone are all bystanders, the second programs."""
    nearmetal("isolate", "on")
    assert killed_at(count, "undone", delay, "off") or delay
    ended = nearmetal("isolate", "off")
    assert ended.returncode == 0
    same(before, state())


def test_what_somebody_else_set_meanwhile_is_theirs(before: State) -> None:
    knob = Path("/proc/sys/vm/stat_interval")
    was = knob.read_text()
    try:
        nearmetal("isolate", "on")
        knob.write_text("7\n")
        ended = nearmetal("isolate", "off")
        assert ended.returncode == 1
        assert ended.stdout.count("changed by somebody else meanwhile, and left") == 1
        assert "vm.stat_interval" in ended.stdout
        assert knob.read_text() == "7\n"
    finally:
        knob.write_text(was)


# Bound to a CPU before anybody was moved; and what starts children that bind themselves, and is bound elsewhere itself.
PINNED = ("taskset", "-c", "{other}", "sh", "-c", "read line; sleep 300 & echo $!; wait")
BINDING = ("taskset", "-c", "{other},{cpu}", "sh", "-c", "taskset -c {other} sleep 300 & echo $!; wait")


def started(process: "subprocess.Popen[str]") -> int:
    """The child that it tells of."""
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_who_was_bound_by_others_is_not_let_loose(before: State) -> None:
    """What one has started that was never moved, and what was bound by who started it, stay where they are."""
    cpu, other = (str(one) for one in (max(os.sched_getaffinity(0)), min(os.sched_getaffinity(0))))
    shells: list[subprocess.Popen[str]] = []
    children: list[int] = []

    def start(words: tuple[str, ...]) -> "subprocess.Popen[str]":
        argv = [word.format(cpu=cpu, other=other) for word in words]
        shells.append(subprocess.Popen(argv, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return shells[-1]

    try:
        pinned = start(PINNED)
        time.sleep(0.2)  # for taskset to become it
        nearmetal("isolate", "on", "--cpus", cpu)
        assert pinned.stdin is not None
        pinned.stdin.write("\n")
        pinned.stdin.flush()
        children.append(started(pinned))
        children.append(started(start(BINDING)))
        children.append(started(start(("sh", "-c", "sleep 300 & echo $!; wait"))))
        time.sleep(0.2)
        everywhere, bound = os.sched_getaffinity(0) | {int(cpu)}, {int(other)}
        assert [os.sched_getaffinity(one) for one in children] == [bound, bound, everywhere - {int(cpu)}]
        nearmetal("isolate", "off")
        assert [os.sched_getaffinity(one) for one in children] == [bound, bound, everywhere]
    finally:
        for pid in [*children, *(shell.pid for shell in shells)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for shell in shells:
            shell.communicate()
