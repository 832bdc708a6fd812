"""The first process of a machine that has no kernel of its own: which one is meant, and whether it lives."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from nearmetal.errors import MachineLost
from nearmetal.model import Completed

_EXITING = 0x4
"""PF_EXITING in the flags of /proc/PID/stat: on its way out, whatever its state says."""
_KILLED = 128 + 9
_LAUNCH_FAILED = 125


@dataclass(frozen=True)
class FirstProcess:
    """A process of this host: its number, and when it started in clock ticks since the kernel did.

    No two processes share both while a kernel runs.
    """

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "FirstProcess | None":
        """None when it is no more."""
        started = _start_time(pid)
        return cls(pid, started) if started is not None else None

    @property
    def boot_id(self) -> str:
        """The kernel's boot_id, "+", and this process: fresh with each machine, and telling whose kernel it uses."""
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{kernel}+{self.pid}.{self.started}"

    @property
    def is_alive(self) -> bool:
        return _start_time(self.pid) == self.started

    def require(self, machine: str) -> None:
        """MachineLost when it is no more; also keeps a command out of a stranger that was given the same number."""
        if not self.is_alive:
            raise MachineLost("its first process is gone", machine)

    async def judged(self, ended: Completed, machine: str) -> Completed:
        """How a program ended, unless it ended because its machine did: MachineLost."""
        if ended.status != 0:
            self.require(machine)
        if ended.status in (_KILLED, _LAUNCH_FAILED):
            # What ends a machine may reach the program shortly before the machine's first process.
            for _ in range(5):
                self.require(machine)
                await asyncio.sleep(0.01)
        return ended


def _start_time(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # Its name, in brackets, may hold anything; see proc(5) for the fields, the state being the third.
    fields = text.rpartition(")")[2].split()
    state, flags, started = fields[0], int(fields[6]), int(fields[19])
    return None if state in "ZX" or flags & _EXITING else started
