"""The first process of a machine that has no kernel of its own: which one is meant, and whether it lives."""

import asyncio
import os
import socket
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from nearmetal.errors import MachineLost, NotProvisioned, ToolFailed
from nearmetal.model import Handle, ProcessId, Site
from nearmetal.system.files import closing_descriptor

_EXITING = 0x4
"""PF_EXITING in the flags of /proc/PID/stat: on its way out, whatever its state says."""
_KILLED = 128 + 9
_LAUNCH_FAILED = 125
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class FirstProcess:
    """A process of a site: its number, and when it started in clock ticks since the kernel did.

    No two processes share both while a kernel runs.
    """

    pid: int
    started: int

    @classmethod
    def in_ledger(cls, handle: Handle) -> "FirstProcess":
        """That of a machine that was made whole. NotProvisioned of any other."""
        if not isinstance(handle.life, ProcessId):
            raise NotProvisioned("its creation was interrupted", handle.name)
        return cls(handle.life.pid, handle.life.started)

    @property
    def life(self) -> ProcessId:
        """What a handle says of the machine's life."""
        return ProcessId(self.pid, self.started)

    @classmethod
    async def of(cls, pid: int, site: Site) -> "FirstProcess | None":
        """None when it is no more."""
        started = await _start_time(pid, site)
        return cls(pid, started) if started is not None else None

    def boot_id(self, site: Site) -> str:
        """The kernel's boot_id, "+", and this process: fresh with each machine, and telling whose kernel it uses."""
        return f"{site.boot_id}+{self.pid}.{self.started}"

    async def is_alive(self, site: Site) -> bool:
        return await _start_time(self.pid, site) == self.started

    async def require(self, site: Site, machine: str) -> None:
        """MachineLost when it is no more; also keeps a command out of a stranger that was given the same number."""
        if not await self.is_alive(site):
            raise MachineLost("its first process is gone", machine)

    async def wait_end(self, site: Site) -> None:
        """Return when it is no more, without looking again and again; never of one on another host."""
        if site.spec is not None:
            await asyncio.Event().wait()
        while await self.is_alive(site):
            await wait_end_of(self.pid)

    async def read_cpu_time(self, site: Site) -> float:
        """CPU seconds that all its threads have had. ToolFailed."""
        stat = (await site.get(f"/proc/{self.pid}/stat")).decode("utf-8", "replace")
        fields = stat.rpartition(")")[2].split()  # from the third on, see proc(5)
        return (int(fields[11]) + int(fields[12])) / _TICKS

    async def outlived(self, status: int, site: Site, machine: str) -> None:
        """MachineLost where a program ended with this status because its machine did."""
        if status != 0:
            await self.require(site, machine)
        if status in (_KILLED, _LAUNCH_FAILED):
            # What ends a machine may reach the program shortly before the machine's first process.
            for _ in range(5):
                await self.require(site, machine)
                await asyncio.sleep(0.01)


@runtime_checkable
class ContainedMachine(Protocol):
    """A machine whose first process its site sees, and with it the machine's namespaces and control groups."""

    first: FirstProcess


async def wait_end_of(pid: int) -> None:
    """Return when that process of this host has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with closing_descriptor(descriptor):
        await wait_readable(descriptor)


async def wait_readable(file: int | socket.socket) -> None:
    """Return when something can be read there; of the descriptor of a process (pidfd_open(2)), when that has ended."""
    loop, can_read = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(file, can_read.set)
    try:
        await can_read.wait()
    finally:
        loop.remove_reader(file)


async def _start_time(pid: int, site: Site) -> int | None:
    try:
        text = (await site.get(f"/proc/{pid}/stat")).decode("utf-8", "replace")
    except ToolFailed:
        return None
    # Its name, in brackets, may hold anything; see proc(5) for the fields, the state being the third.
    fields = text.rpartition(")")[2].split()
    state, flags, started = fields[0], int(fields[6]), int(fields[19])
    return None if state in "ZX" or flags & _EXITING else started
