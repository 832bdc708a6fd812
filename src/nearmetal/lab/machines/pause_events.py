"""How long something stood still, from when it was stopped and let go on."""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PauseEvent:
    at: float
    """Unix time."""
    is_stop: bool
    """From then on; else it goes on."""


def sum_paused_seconds(events: Sequence[PauseEvent], since: float, until: float) -> float:
    """Seconds of a span in which it stood still, by the events until its end, or those within it, in their order.

    Where the first is that it goes on, it stood before. Of two stops in a row the first counts: that it went on for the
    blink of an eye between them, the kernel tells nobody.
    """
    still, begin = 0.0, since if events and not events[0].is_stop else None
    for event in events:
        at = max(event.at, since)
        if event.is_stop:
            begin = at if begin is None else begin
        elif begin is not None:
            still, begin = still + at - begin, None
    return still if begin is None else still + until - begin


def drop_unpaired_resumes(events: Sequence[PauseEvent]) -> list[PauseEvent]:
    """Of something that went on at first: of a stop that is soon over the kernel tells only that it goes on."""
    return [event for place, event in enumerate(events) if event.is_stop or (place > 0 and events[place - 1].is_stop)]


class PauseRecorder:
    """When a program of ours, a child of this process, is stopped by a signal from now on: the kernel tells its parent,
    and keeps no record for anybody else. A thread waits for that; it ends with the child.

    A guest whose monitor is stopped so has a clock that goes on, and jumps: nothing inside tells of it afterwards.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._events: list[PauseEvent] = []
        threading.Thread(target=self._record_changes, name=f"stops of {pid}", daemon=True).start()

    def sum_seconds(self, since: float) -> float:
        """For which it was stopped since then (Unix time)."""
        return sum_paused_seconds(drop_unpaired_resumes(self._events), since, time.time())

    @property
    def seconds_stopped(self) -> float:
        """Seconds for which it is stopped without a break until now; 0 if it runs."""
        return time.time() - self._events[-1].at if self._events and self._events[-1].is_stop else 0.0

    def _record_changes(self) -> None:
        while True:
            try:
                change = os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WCONTINUED)
            except ChildProcessError:  # it has ended
                return
            if change is not None:
                self._events.append(PauseEvent(time.time(), is_stop=change.si_code == os.CLD_STOPPED))
