"""Whether a machine that was made is still there: it may end by itself, as by `poweroff`, while its keeper lives."""

import asyncio
import contextlib
from pathlib import Path
from typing import Protocol, runtime_checkable

from nearmetal.errors import MachineLost
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines.init_process import FirstProcess, wait_end_of
from nearmetal.model import ControlGroup, Handle, ProcessId


@runtime_checkable
class Losable(Protocol):
    """A machine that knows, without being asked anything, when it is lost."""

    async def wait_lost(self) -> MachineLost:
        """Return as soon as it counts as lost, though it may still answer; why it does. MachineLost does the same."""
        ...


async def is_alive(handle: Handle) -> bool:
    processes = await _processes(handle)
    return processes is None or bool(processes)


async def ended(handle: Handle) -> None:
    """Wait until it is gone, without looking again and again; for ever where that cannot be told."""
    while (processes := await _processes(handle)) != []:
        if processes is None:
            await asyncio.Event().wait()
        else:
            await wait_end_of(processes[0])


async def _processes(handle: Handle) -> list[int] | None:
    """What it lives by; None if that does not show."""
    if handle.site != "local":
        return None
    if isinstance(handle.life, ProcessId):
        return [handle.life.pid] if await FirstProcess.in_ledger(handle).is_alive(LocalSite()) else []
    if isinstance(handle.life, ControlGroup):
        found: list[int] = []
        for folder in handle.life.folders:
            with contextlib.suppress(FileNotFoundError):
                found += map(int, Path(folder, "cgroup.procs").read_text().split())
        return found
    return None
