"""Whether a machine that was made is still there: it may end by itself, as by `poweroff`, while its keeper lives."""

import asyncio
import contextlib
import os
from pathlib import Path

from nearmetal.lab.cgroup import Group
from nearmetal.lab.machines.identity import FirstProcess
from nearmetal.lab.site import LocalSite
from nearmetal.model import Handle


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
    """What it lives by: its first process, or of a virtual machine what is in its control group. None: it has neither.

    Any other's control group is empty as soon as no program runs in the machine.
    """
    if handle.site != "local":
        return None
    if first := handle.data.get("first"):
        return [first["pid"]] if await FirstProcess(**first).is_alive(LocalSite()) else []
    if "accel" in handle.data and (group := handle.data.get("group")):
        found: list[int] = []
        for folder in Group(**group).folders:
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
