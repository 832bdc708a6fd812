"""`nearmetal isolate` by cpusets, on this very host: who is pinned meanwhile keeps that, and nobody else is changed."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nearmetal.cpu_lists import show
from tests.waiting import wait_until

from .isolating import CPU, CPUS, OTHER, State, cpus, given_back, nearmetal, way
from .test_isolate_forking import FORKING

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif(len(CPUS) < 2, reason="of one CPU none can be kept free"),
]

ROOT = Path("/sys/fs/cgroup/cpuset")


@pytest.fixture
def before() -> Iterator[State]:
    """Skips, loudly, where programs are moved by their affinities."""
    if way() != "cpuset":
        pytest.skip(f"cpusets are NOT tried: {nearmetal('isolate', 'plan').stdout}")
    with given_back() as found:
        yield found


class Started:
    """Programs that do nothing, on CPUs of their own choice."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def on(self, chosen: str | None = None) -> int:
        """Of a new one, pinned by `taskset` to a list of CPUs or as its parent is: its process id."""
        pinned = [] if chosen is None else ["taskset", "-c", chosen]
        one = subprocess.Popen([*pinned, "sleep", "300"])
        self._running.append(one)
        wait_until(lambda: Path(f"/proc/{one.pid}/comm").read_text() == "sleep\n")
        return one.pid

    def end(self) -> None:
        for one in self._running:
            one.kill()
            one.wait()


@pytest.fixture
def started() -> Iterator[Started]:
    made = Started()
    try:
        yield made
    finally:
        made.end()


def test_who_pins_meanwhile_keeps_that_and_nobody_else_does(before: State, started: Started) -> None:
    all_cpus, rest = set(CPUS), set(CPUS) - {CPU}
    free, put_elsewhere, put_there = started.on(), started.on(str(OTHER)), started.on(str(CPU))
    nearmetal("isolate", "on", "--cpus", str(CPU))
    # From this process, which was moved.
    inherits, pinned, both = started.on(), started.on(str(OTHER)), started.on(f"{OTHER},{CPU}")
    assert [cpus(one) for one in (free, inherits)] == [rest, rest]
    assert [cpus(one) for one in (put_elsewhere, put_there, pinned, both)] == [{OTHER}, {CPU}, {OTHER}, {OTHER}]
    assert subprocess.run(["taskset", "-c", str(CPU), "true"], capture_output=True).returncode == 1
    assert nearmetal("isolate", "off").returncode == 0
    assert [cpus(one) for one in (free, inherits)] == [all_cpus, all_cpus]
    assert [cpus(one) for one in (put_elsewhere, put_there)] == [{OTHER}, {CPU}]
    assert [cpus(one) for one in (pinned, both)] == [{OTHER}, {OTHER, CPU}]


def test_a_program_runs_on_the_isolated_cpu_and_nowhere_else(before: State) -> None:
    assert nearmetal("isolate", "exec", "--", "true").returncode == 125
    nearmetal("isolate", "on", "--cpus", str(CPU))
    ended = nearmetal("isolate", "exec", "--", "sh", "-c", "grep Cpus_allowed_list /proc/self/status; exit 7")
    assert (ended.returncode, ended.stdout.split()) == (7, ["Cpus_allowed_list:", str(CPU)])
    assert nearmetal("isolate", "exec", "--", "/nowhere/at-all").returncode == 127
    status = json.loads(nearmetal("isolate", "status", "--json").stdout)
    assert {one["kind"]: (one["state"], one["now"]) for one in status["changes"]}["cpuset"] == ("holds", "'apart'")


def test_it_is_listened_to_from_inside(before: State) -> None:
    nearmetal("isolate", "on", "--cpus", str(CPU))
    ended = nearmetal("isolate", "prove", "--rounds", "2", "--seconds", "0.1", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["what"].startswith(f"CPU {CPU}, which is isolated, against CPU ")


def test_of_programs_that_start_others_all_the_time_nobody_escapes(before: State) -> None:
    """A chain of programs, each the child of the one before, and one that has many; their namespace ends them."""
    argv = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", FORKING]
    with subprocess.Popen(argv, start_new_session=True) as first:
        try:
            time.sleep(0.3)
            assert nearmetal("isolate", "on", "--cpus", str(CPU)).returncode in (0, 1)
            assert {where for _ in range(30) for where in family(first.pid)} == {show(set(CPUS) - {CPU})}
            assert nearmetal("isolate", "off").returncode == 0
            assert {where for _ in range(30) for where in family(first.pid)} == {show(set(CPUS))}
        finally:
            first.kill()


def family(session: int) -> Iterator[str]:
    """Where the processes of a session may run."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if os.getsid(int(folder.name)) == session:
                lines = (folder / "status").read_text().splitlines()
                yield next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list"))


# ── Control groups of others ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def theirs(before: State) -> Iterator[Path]:
    """A control group of version 1 that is somebody else's, with all CPUs, and one below it."""
    if not (ROOT / "cpuset.cpus").exists():
        pytest.skip("this host's cpusets are of version 2, where no group is changed but ours")
    group = ROOT / "nm-theirs"
    made = [group, group / "inner", group / "born"]
    for folder in made[:2]:
        make(folder, has(ROOT))
    try:
        yield group
    finally:
        for folder in reversed(made):
            with suppress(FileNotFoundError):
                folder.rmdir()


def make(group: Path, chosen: str) -> None:
    group.mkdir()
    (group / "cpuset.mems").write_text((ROOT / "cpuset.mems").read_text())
    (group / "cpuset.cpus").write_text(chosen)


def has(group: Path) -> str:
    return (group / "cpuset.cpus").read_text().strip()


def test_other_groups_are_narrowed_and_what_was_put_into_them_stays(theirs: Path, started: Started) -> None:
    """A group keeps the CPU while it has a program that was put there, and so do those above it."""
    wide, inner = has(theirs), theirs / "inner"
    there = started.on(str(CPU))
    (inner / "cgroup.procs").write_text(str(there))
    nearmetal("isolate", "on", "--cpus", str(CPU))
    assert (has(theirs), has(inner), cpus(there)) == (wide, wide, {CPU})
    nearmetal("isolate", "off")
    (ROOT / "cgroup.procs").write_text(str(there))
    nearmetal("isolate", "on", "--cpus", str(CPU))
    assert (has(theirs), has(inner)) == (show(set(CPUS) - {CPU}),) * 2
    assert nearmetal("isolate", "off").returncode == 0
    assert (has(theirs), has(inner)) == (wide, wide)


def test_a_group_that_somebody_changed_meanwhile_is_theirs(theirs: Path) -> None:
    """Its CPUs; and of a group that was made meanwhile nobody knows whether it was to have no more."""
    wide, inner, born = has(theirs), theirs / "inner", theirs / "born"
    nearmetal("isolate", "on", "--cpus", str(CPU))
    make(born, has(theirs))
    (theirs / "cpuset.cpus").write_text(wide)
    status = nearmetal("isolate", "status")
    assert status.returncode == 1
    assert f"in part        programs: not apart: control group {theirs}\n" in status.stdout
    (inner / "cpuset.cpus").write_text(str(CPU))
    rest = show(set(CPUS) - {CPU})
    ended = nearmetal("isolate", "off")
    assert ended.returncode == 1
    assert f"{inner}: it has CPUs {CPU} now" in ended.stdout
    made = f"{born}: it was made meanwhile with CPUs {rest}; if it is to have all: echo {wide} >{born}/cpuset.cpus"
    assert made in ended.stdout
    assert (has(theirs), has(inner), has(born)) == (wide, str(CPU), rest)
