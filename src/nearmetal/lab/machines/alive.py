"""Whether a machine that was made is still there: it may end by itself, as by `poweroff`, while its keeper lives."""

import asyncio
import contextlib
import os
from pathlib import Path

from nearmetal.lab.machines.identity import FirstProcess
from nearmetal.lab.site import LocalSite
from nearmetal.model import ControlGroup, Handle, ProcessId


async def is_alive(handle: Handle) -> bool:
    processes = await _processes(handle)
    return processes is None or bool(processes)


async def ended(handle: Handle) -> None:
    """Wait until it is gone, without looking again and again; for ever where that cannot be told."""
    while (processes := await _processes(handle)) != []:
        if processes is None:
            await asyncio.Event().wait()
        else:
            await _end_of(processes[0])


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


async def _end_of(process: int) -> None:
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
