"""When a program of ours was stopped by a signal: the kernel tells its parent, and keeps no record for anybody else.

A guest whose monitor is stopped so has a clock that goes on, and jumps: nothing inside tells of it afterwards.
"""

import os
import threading
import time

from nearmetal.lab.machines import stillness
from nearmetal.lab.machines.stillness import StillnessChange


class Stops:
    """Of a child of this process, from now on. A thread waits for the kernel to tell; it ends with the child."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._events: list[StillnessChange] = []
        threading.Thread(target=self._hear, name=f"stops of {pid}", daemon=True).start()

    def seconds(self, since: float) -> float:
        """For which it was stopped since then (Unix time)."""
        return stillness.between(stillness.behind_stops(self._events), since, time.time())

    @property
    def standing(self) -> float:
        """Seconds for which it is stopped without a break until now; 0 if it runs."""
        return time.time() - self._events[-1].at if self._events and self._events[-1].stands else 0.0

    def _hear(self) -> None:
        while True:
            try:
                change = os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WCONTINUED)
            except ChildProcessError:  # it has ended
                return
            if change is not None:
                self._events.append(StillnessChange(time.time(), stands=change.si_code == os.CLD_STOPPED))
