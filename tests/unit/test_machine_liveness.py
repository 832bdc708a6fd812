"""Whether a machine is still there is judged by what its environment says it lives by, and by nothing else."""

import asyncio
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines import liveness
from nearmetal.lab.machines.init_process import FirstProcess
from nearmetal.model import ControlGroup, Handle, ProcessId


def handle(life: ProcessId | ControlGroup | None = None, **data: Any) -> Handle:
    return Handle(kind="theirs", name="one", site="local", life=life, data=data)


@pytest.fixture
def idle(tmp_path: Path) -> ControlGroup:
    """The control group of a machine in which nothing runs."""
    (tmp_path / "cgroup.procs").touch()
    return ControlGroup(cpuset=str(tmp_path), cpuacct=str(tmp_path), memory=str(tmp_path), version=2)


async def test_one_whose_programs_come_and_go_is_there_without_any(idle: ControlGroup) -> None:
    machine = handle(group=asdict(idle))
    assert await liveness.is_alive(machine)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(liveness.ended(machine), 0.1)


async def test_a_virtual_machine_is_gone_when_its_monitor_is(idle: ControlGroup) -> None:
    machine = handle(idle)
    assert not await liveness.is_alive(machine)
    await asyncio.wait_for(liveness.ended(machine), 1)
    Path(idle.cpuset, "cgroup.procs").write_text(f"{os.getpid()}\n")
    assert await liveness.is_alive(machine)


async def test_one_with_a_first_process_lives_by_that(idle: ControlGroup) -> None:
    first = await FirstProcess.of(os.getpid(), LocalSite())
    assert first is not None
    assert await liveness.is_alive(handle(first.life, group=asdict(idle)))
    assert not await liveness.is_alive(handle(ProcessId(first.pid, first.started + 1)))


async def test_the_end_of_a_first_process_is_heard() -> None:
    sleeping = await asyncio.create_subprocess_exec("sleep", "600")
    first = await FirstProcess.of(sleeping.pid, LocalSite())
    assert first is not None
    waiting = asyncio.ensure_future(first.wait_end(LocalSite()))
    assert not (await asyncio.wait({waiting}, timeout=0.05))[0]
    sleeping.kill()
    await asyncio.wait_for(waiting, 10)
    await sleeping.wait()
