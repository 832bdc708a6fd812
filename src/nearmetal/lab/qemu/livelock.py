"""A guest that livelocks: its CPUs are busy, and what could answer in it gets no turn."""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from nearmetal.config import LIMITS
from nearmetal.errors import MachineLost

_ENOUGH = LIMITS.mute / 3
"""Seconds of each vCPU meanwhile: some fifty times what an emulated guest takes to answer, however busy its host is."""
_TICKS = os.sysconf("SC_CLK_TCK")


class Spinning:
    def __init__(self, pid: int) -> None:
        """Of its QEMU, whose threads have names."""
        self._pid = pid
        self._since: float | None = None
        self._spent: Sequence[float] = ()

    def look(self, asked: float | None, name: str) -> MachineLost | None:
        """Why a machine counts as lost that was asked at a monotonic time and has not answered; None if it may yet.

        To be called again and again.
        """
        spent = read_vcpus(self._pid)
        if asked is None or asked != self._since or len(spent) != len(self._spent):
            self._since, self._spent = asked, spent
            return None
        seconds = time.monotonic() - asked
        is_busy = bool(spent) and min(now - was for now, was in zip(spent, self._spent, strict=True)) >= _ENOUGH
        if seconds < LIMITS.mute or not is_busy:
            return None
        what = f"its agent has not answered for {seconds:.0f} s, in which all its vCPUs were busy"
        return MachineLost(f"the guest is livelocked: {what}", name)


def read_vcpus(pid: int) -> list[float]:
    """CPU seconds that each vCPU of a QEMU has had; [] if it is gone."""
    found = []
    for thread in sorted(Path(f"/proc/{pid}/task").glob("*")):
        with contextlib.suppress(OSError):
            name, _, rest = (thread / "stat").read_text().partition("(")[2].rpartition(")")
            if name.startswith("CPU "):
                user, system = rest.split()[11:13]
                found.append((int(user) + int(system)) / _TICKS)
    return found
