"""How long something stood still, from when it was stopped and let go on."""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StillnessChange:
    at: float
    """Unix time."""
    stands: bool
    """From then on; else it goes on."""


def between(events: Sequence[StillnessChange], since: float, until: float) -> float:
    """Seconds of a span in which it stood still, by the events until its end, or those within it, in their order.

    Where the first is that it goes on, it stood before. Of two stops in a row the first counts: that it went on for the
    blink of an eye between them, the kernel tells nobody.
    """
    still, begin = 0.0, since if events and not events[0].stands else None
    for event in events:
        at = max(event.at, since)
        if event.stands:
            begin = at if begin is None else begin
        elif begin is not None:
            still, begin = still + at - begin, None
    return still if begin is None else still + until - begin


def behind_stops(events: Sequence[StillnessChange]) -> list[StillnessChange]:
    """Of something that went on at first: of a stop that is soon over the kernel tells only that it goes on."""
    return [event for place, event in enumerate(events) if event.stands or (place > 0 and events[place - 1].stands)]


class Stops:
    """When a program of ours, a child of this process, is stopped by a signal from now on: the kernel tells its parent,
    and keeps no record for anybody else. A thread waits for that; it ends with the child.

    A guest whose monitor is stopped so has a clock that goes on, and jumps: nothing inside tells of it afterwards.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._events: list[StillnessChange] = []
        threading.Thread(target=self._hear, name=f"stops of {pid}", daemon=True).start()

    def seconds(self, since: float) -> float:
        """For which it was stopped since then (Unix time)."""
        return between(behind_stops(self._events), since, time.time())

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
