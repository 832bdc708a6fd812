"""What control groups of both versions allow and have counted, by the files that kernels have for them."""

from pathlib import Path

import pytest

from nearmetal.lab import cgroup
from nearmetal.lab.cgroup_limits import GroupLimits, find_folders, read_limits
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.read_lines import build_grep, parse_grep, read_lines
from tests.unit.test_cgroup import lay_out

FIRST = ("5:pids:/m", "4:memory:/m/inner", "3:cpu,cpuacct:/m", "2:freezer:/m", "1:name=systemd:/init", "0::/init")
SECOND = ("0::/m/inner",)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    return tmp_path


def test_folders_of_either_version(root: Path) -> None:
    assert find_folders(SECOND) == {("", f"{root}/m/inner")}
    assert find_folders(FIRST) == {
        ("pids", f"{root}/pids/m"),
        ("memory", f"{root}/memory/m/inner"),
        ("cpu", f"{root}/cpu/m"),
        ("freezer", f"{root}/freezer/m"),
    }, "beside version 1 the second controls nothing"
    assert find_folders(()) == set()


async def test_the_first_version(root: Path) -> None:
    lay_out(
        root,
        {
            "pids/m/pids.events": "max 3\n",
            "memory/m/inner/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
            "memory/m/inner/memory.limit_in_bytes": "9223372036854771712\n",
            "memory/m/memory.limit_in_bytes": "1048576\n",
            "memory/memory.limit_in_bytes": "7\n",
            "cpu/m/cpu.cfs_quota_us": "150000\n",
            "cpu/m/cpu.cfs_period_us": "100000\n",
            "cpu/m/cpu.stat": "nr_periods 9\nnr_throttled 4\nthrottled_time 1\n",
            "freezer/m/freezer.state": "FROZEN\n",
        },
    )
    (found,) = await read_limits([FIRST], LocalSite())
    assert found == GroupLimits(
        quota=1.5,
        memory=2**20,
        periods={f"{root}/cpu/m": 9},
        kills={f"{root}/memory/m/inner": 2},
        refused={f"{root}/pids/m": 3},
        frozen={f"{root}/freezer/m": 1},
    )


async def test_the_second_version(root: Path) -> None:
    lay_out(
        root,
        {
            "m/inner/memory.events": "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n",
            "m/inner/pids.events": "max 0\n",
            "m/inner/cgroup.events": "populated 1\nfrozen 0\n",
            "m/inner/cgroup.stat.local": "frozen_usec 1500000\n",
            "m/inner/memory.pressure": "some avg10=0.00 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=8\n",
            "m/inner/memory.max": "max\n",
            "m/inner/cpu.max": "max 100000\n",
            "m/cpu.max": "5000 100000\n",
            "m/cpu.stat": "usage_usec 5\nnr_periods 0\nnr_throttled 0\n",
            "m/memory.max": "1000\n",
        },
    )
    (found,) = await read_limits([SECOND], LocalSite())
    group = f"{root}/m/inner"
    assert found == GroupLimits(
        quota=0.05,
        memory=1000,
        periods={f"{root}/m": 0},
        kills={group: 1},
        refused={group: 0},
        frozen={group: 0},
        frozen_us={group: 1_500_000},
        stalled_us={group: 8},
    )


async def test_machines_are_told_apart_by_one_reading(root: Path) -> None:
    lay_out(root, {"one/memory.max": "1000\n", "other/memory.max": "2000\n"})
    found = await read_limits([("0::/one",), ("0::/other",), ()], LocalSite())
    assert [one.memory for one in found] == [1000, 2000, None]


async def test_a_command_finds_what_a_reading_of_this_host_finds(tmp_path: Path) -> None:
    lay_out(tmp_path, {"a/x": "max 1\nmin 2\n", "a b:c/x": "max 3\n", "d/y": "min 4\n"})
    for paths in ([f"{tmp_path}/*/x"], [f"{tmp_path}/{name}" for name in ("a/x", "a b:c/x", "d/y", "none")]):
        ended = await LocalSite().exec(build_grep("^max", paths))
        here = await read_lines(LocalSite(), "^max", paths)
        assert here == {f"{tmp_path}/a/x": ("max 1",), f"{tmp_path}/a b:c/x": ("max 3",)}
        if "*" not in paths[0]:  # of files that a shell finds none has a colon: they are processes
            assert parse_grep(ended.status, ended.text, paths) == here
    assert parse_grep(127, "", []) is None, "there is no grep"
    assert parse_grep(2, "/x:max\n", ["/x", "/none"]) == {"/x": ("max",)}
