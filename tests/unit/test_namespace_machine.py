"""Machines that a holder made: how what runs in them is stopped."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines import namespace_machine
from nearmetal.lab.machines.namespace_machine import HeldMachine
from nearmetal.model import Completed, ControlGroup, Handle, ProcessId, SiteRunning


class Deaf:
    """A program that a freezer keeps from hearing SIGTERM."""

    def __init__(self) -> None:
        self._killed = asyncio.Event()

    async def stop(self) -> Completed:
        await self._killed.wait()
        return Completed(status=137, stdout=b"", stderr=b"")

    async def kill(self) -> Completed:
        self._killed.set()
        return await self.stop()


@pytest.mark.parametrize(
    ("version", "events", "is_killed"),
    [(2, "populated 1\nfrozen 1\n", True), (2, "populated 1\nfrozen 0\n", False), (1, None, False)],
)
async def test_a_program_in_a_frozen_group_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, events: str | None, is_killed: bool
) -> None:
    monkeypatch.setattr(namespace_machine, "_MOMENT", 0.01)
    if events is not None:
        (tmp_path / "cgroup.events").write_text(events)
    group = ControlGroup(version=version, cpuset=str(tmp_path), cpuacct=str(tmp_path), memory=str(tmp_path))
    machine = HeldMachine(Handle(site="local", kind="host", name="m", life=ProcessId(1, 1)), group, LocalSite())
    deaf = Deaf()
    stopping = asyncio.ensure_future(namespace_machine._HeldRunning(machine, cast(SiteRunning, deaf)).stop())
    if not is_killed:
        await asyncio.sleep(0.1)
        assert not stopping.done()
        await deaf.kill()  # what runs on is ended by the grace of its own
    assert (await stopping).status == 137
