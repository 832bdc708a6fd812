"""Control groups, on a hierarchy that is laid out as files."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab import cgroup
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import ControlGroup, MachineSpec

SPEC = MachineSpec.model_validate({"memory": "64MiB"})


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    return tmp_path


def lay_out(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


async def test_version_2_delegates_and_limits(root: Path) -> None:
    lay_out(root, {"cgroup.controllers": "cpuset cpu memory\n", "nearmetal-m/memory.swap.max": "max\n"})
    group = await cgroup.create_group("m", SPEC, "0-1", LocalSite(), limit_memory=True)
    assert group == cgroup.name_group("m", 2)
    folder = root / "nearmetal-m"
    assert group.folders == (str(folder),)
    assert (root / "cgroup.subtree_control").read_text() == "+cpuset +cpu +memory\n"
    assert (folder / "cpuset.cpus").read_text() == "0-1\n"
    assert (folder / "memory.max").read_text() == f"{64 * 2**20}\n"
    assert (folder / "memory.swap.max").read_text() == "0\n"


async def test_version_1_copies_nodes_and_takes_all_cpus_when_none_are_named(root: Path) -> None:
    lay_out(root, {"cpuset/cpuset.cpus": "0-3\n", "cpuset/cpuset.mems": "0\n", "memory/x": "", "cpuacct/x": ""})
    group = await cgroup.create_group("m", SPEC, "", LocalSite(), limit_memory=False)
    assert group == cgroup.name_group("m", 1)
    assert (root / "cpuset/nearmetal-m/cpuset.cpus").read_text() == "0-3\n"
    assert (root / "cpuset/nearmetal-m/cpuset.mems").read_text() == "0\n"
    assert list((root / "memory/nearmetal-m").iterdir()) == []


LIMITED = SPEC.model_copy(update={"quota": 0.25, "vcpus": 2})


async def test_a_quota_is_of_all_its_cpus_and_is_read_back(root: Path) -> None:
    lay_out(root, {"cgroup.controllers": "cpuset cpu memory\n"})
    group = await cgroup.create_group("m", LIMITED, "0-1", LocalSite(), limit_memory=True)
    assert (root / "nearmetal-m/cpu.max").read_text() == "50000 100000\n"
    assert await cgroup.read_quota(group, LocalSite()) == 0.5
    (root / "nearmetal-m/cpu.max").write_text("max 100000\n")
    assert await cgroup.read_quota(group, LocalSite()) is None


async def test_version_1_has_a_group_for_the_quota_only_where_there_is_one(root: Path) -> None:
    lay_out(root, {"cpuset/cpuset.cpus": "0-3\n", "cpuset/cpuset.mems": "0\n", "memory/x": "", "cpuacct/x": ""})
    without = await cgroup.create_group("m", SPEC, "0-1", LocalSite(), limit_memory=True)
    assert without.cpu == "" and not (root / "cpu").exists()
    assert await cgroup.read_quota(without, LocalSite()) is None
    group = await cgroup.create_group("n", LIMITED, "0-1", LocalSite(), limit_memory=True)
    assert group == cgroup.name_group("n", 1, has_quota=True) and str(root / "cpu/nearmetal-n") in group.folders
    assert (root / "cpu/nearmetal-n/cpu.cfs_quota_us").read_text() == "50000\n"
    assert await cgroup.read_quota(group, LocalSite()) == 0.5
    (root / "cpu/nearmetal-n/cpu.cfs_quota_us").write_text("-1\n")
    assert await cgroup.read_quota(group, LocalSite()) is None


async def test_a_missing_controller_is_one_clear_error(root: Path) -> None:
    lay_out(root, {"cpuset/cpuset.cpus": "0\n", "cpuset/cpuset.mems": "0\n"})
    with pytest.raises(HostCannot, match="memory"):
        await cgroup.create_group("m", SPEC, "0", LocalSite(), limit_memory=True)


FIRST = {f"{one}/cgroup.procs": "" for one in ("cpuset", "cpuacct", "memory")}


@pytest.mark.parametrize(
    ("files", "lacks"),
    [
        (FIRST, ""),
        # systemd makes the folder of a controller also where the kernel has it in version 2, beside version 1.
        ({**FIRST, "memory/cgroup.procs": None, "memory/x": "", "unified/cgroup.controllers": "memory\n"}, "memory"),
        ({"cgroup.controllers": "cpuset cpu io memory\n"}, ""),
        ({"cgroup.controllers": "cpuset cpu io\n"}, "memory"),
    ],
)
async def test_a_controller_that_is_not_in_the_hierarchy_is_found_before_a_run(
    root: Path, files: dict[str, str | None], lacks: str
) -> None:
    lay_out(root, {name: text for name, text in files.items() if text is not None})
    found = await cgroup.check_groups(LocalSite())
    assert found.ok == (not lacks)
    assert not lacks or f"lacks {lacks} (version" in found.detail


async def test_memory_is_that_of_processes_and_of_the_kernel_for_them_without_page_cache(root: Path) -> None:
    lay_out(
        root,
        {
            "g/cpu.stat": "usage_usec 1500000\nuser_usec 1\n",
            "g/cgroup.procs": f"{os.getpid()}\n",
            "g/memory.current": "100000000000\n",
            "g/memory.stat": "anon 1\nfile 99999999999\nkernel 500\nslab_reclaimable 200\n",
            "cpuacct/g/cpuacct.usage": "2500000000\n",
            "memory/g/below/cgroup.procs": f"{os.getpid()}\n",
            "memory/g/memory.usage_in_bytes": "100000000000\n",
            "memory/g/memory.kmem.usage_in_bytes": "700\n",
        },
    )
    second = ControlGroup(str(root / "g"), str(root / "g"), str(root / "g"), 2)
    first = ControlGroup(str(root / "cpuset/g"), str(root / "cpuacct/g"), str(root / "memory/g"), 1)
    for group, seconds, of_kernel in ((second, 1.5, 300), (first, 2.5, 700)):
        cost = await cgroup.read_group_cost(group, LocalSite())
        rollup = Path("/proc/self/smaps_rollup").read_text()
        (own,) = (int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
        assert cost.cpu_seconds == seconds
        assert cost.memory_bytes is not None and (cost.memory_bytes - of_kernel) % 1024 == 0
        assert cost.memory_bytes == pytest.approx(own + of_kernel, rel=0.1)


@pytest.mark.parametrize(
    ("told", "memory"),
    [
        ("Pss: 3\nPss: 4\nkernel 10\nslab_reclaimable 2\nslab_unreclaimable 1\nkernel_stack 1\nsock 1\n", 7 * 1024 + 8),
        ("Pss: 3\nkernel_stack 5\npagetables 7\nsock 1\nslab_reclaimable 50\nslab_unreclaimable 2\n", 3 * 1024 + 15),
        ("kmem 9\n", 9),
        ("Pss: 3\nuntold\nkmem 9\n", None),
        ("Pss: 3\n", None),
    ],
)
def test_memory_that_cannot_be_told_whole_is_not_told(told: str, memory: int | None) -> None:
    assert cgroup.add_memory(told) == memory


def test_a_name_cannot_lead_elsewhere() -> None:
    with pytest.raises(ValueError, match="somebody else"):
        cgroup.name_group("x/../../y", 1)


async def test_removing_what_is_not_there_is_no_error(root: Path) -> None:
    await cgroup.remove_group("m", LocalSite())


def test_a_process_that_ends_while_it_is_listed_is_not_whoever_asked(root: Path) -> None:
    """The kernel lists it as 0 then, and `kill 0` kills the shell and all of its group."""
    lay_out(root, {"nearmetal-m/cgroup.procs": "0\n"})
    group = root / "nearmetal-m"
    asked = subprocess.Popen(["sh", "-c", cgroup.REMOVE, "remove", str(group)], start_new_session=True)
    time.sleep(0.3)
    shutil.rmtree(group)  # as the kernel does, a file cannot be taken out of a real one
    assert asked.wait(30) == 0
