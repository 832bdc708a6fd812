"""Whether machines are on the CPUs that they were given: judged by what a host's kernel tells of their tasks."""

import asyncio
import os

import pytest

from nearmetal.lab.local_site import LocalSite
from nearmetal.model import CpuModel, Handle, Hardware, ProcessId, Role, VirtualDisk
from nearmetal.run.inspection import name_roles
from nearmetal.run.resource_readback import Task, judge_tasks
from tests.live.task_placement import read_placement


def test_a_machine_on_just_its_cpus_is_where_it_was_put() -> None:
    readback = judge_tasks([Task("hold", "2-3")], "2-3", {})
    assert readback.ok
    assert readback.values == {"asked": "2-3", "cpus": "2-3"}


def test_a_task_beyond_them_is_not_believed() -> None:
    readback = judge_tasks([Task("qemu", "2-3"), Task("worker", "0-3")], "2-3", {})
    assert not readback.ok
    assert "worker may run on 0-3" in readback.reason
    assert readback.values["cpus"] == "0-3"


def test_neither_is_a_machine_that_got_fewer() -> None:
    readback = judge_tasks([Task("hold", "2")], "2-3", {})
    assert not readback.ok
    assert "nothing of it may run on 3" in readback.reason


VCPUS = [Task("qemu-system-x86", "2-3"), Task("CPU 0/TCG", "2"), Task("CPU 1/TCG", "3")]


def test_each_vcpu_is_on_its_own() -> None:
    """Also as it comes back from a ledger, where JSON has texts for numbers."""
    made = Hardware(
        accel="tcg",
        cpu_model=CpuModel(name="max"),
        disk=VirtualDisk(format="qcow2", cache="none"),
        pinned={0: 2, 1: 3},
    )
    again = Hardware.from_json(made.model_dump(mode="json"))
    assert again == made
    readback = judge_tasks(VCPUS, "2-3", again.pinned)
    assert readback.ok
    assert readback.values["vcpus"] == {"0": "2", "1": "3"}


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        ([VCPUS[0], VCPUS[1], Task("CPU 1/KVM", "2-3")], "vCPU 1 may run on 2-3 instead of 3"),
        (VCPUS[:2], "vCPU 1 may run on nothing instead of 3"),
        ([VCPUS[0], Task("CPU 0/TCG", "3"), Task("CPU 1/TCG", "2")], "vCPU 0 may run on 3 instead of 2"),
    ],
)
def test_a_vcpu_elsewhere_is_not_believed(tasks: list[Task], told: str) -> None:
    readback = judge_tasks(tasks, "2-3", {0: 2, 1: 3})
    assert not readback.ok
    assert told in readback.reason


async def test_it_is_read_of_real_processes() -> None:
    """A process of ours on one CPU of this host."""
    one = min(os.sched_getaffinity(0))
    process = await asyncio.create_subprocess_exec("sleep", "60")
    os.sched_setaffinity(process.pid, {one})
    try:
        handle = Handle(kind="host", name="x", site="local", life=ProcessId(process.pid, 0))
        found = await read_placement(handle, LocalSite(), str(one))
        elsewhere = await read_placement(handle, LocalSite(), str(one + 1))
    finally:
        process.kill()
        await process.wait()
    assert found is not None and found.ok
    assert found.values == {"asked": str(one), "cpus": str(one)}
    assert elsewhere is not None and not elsewhere.ok
    assert f"may run on {one}" in elsewhere.reason


def test_a_cpu_from_which_all_was_moved_is_not_missed() -> None:
    assert judge_tasks([Task("hold", "2")], "2-3", {}, {3}).ok
    assert not judge_tasks([Task("hold", "2")], "2-4", {}, {3}).ok
    assert not judge_tasks([Task("hold", "1-2")], "2-3", {}, {3}).ok


async def test_nothing_is_said_of_a_machine_that_is_not_placed() -> None:
    borrowed = Handle(kind="ssh", name="x", site="local")
    assert await read_placement(borrowed, LocalSite(), "0") is None
    placed = Handle(kind="host", name="x", site="local", life=ProcessId(os.getpid(), 0))
    assert await read_placement(placed, LocalSite(), "") is None


def test_machines_are_called_by_their_roles_as_observers_do() -> None:
    of: tuple[tuple[str, Role], ...] = (("nm-7", "client"), ("nm-8", "server"), ("nm-9", "client"))
    handles = [Handle(kind="mock", site="local", name=name, data={}, role=role) for name, role in of]
    assert name_roles(handles) == {"nm-7": "client-0", "nm-8": "server-0", "nm-9": "client-1"}
