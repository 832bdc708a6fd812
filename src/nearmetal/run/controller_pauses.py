"""Was this process itself stopped, as by a signal? Then what its limits ended says nothing of what is measured.

The sign of life that a block's process gives every few seconds anyway is noted here: nothing else has to wake up.
"""

import time

_KEPT = 1000
"""Beats, of more than an hour."""

_beats: list[tuple[float, float]] = []
"""When each was noted, and how long after it was due."""
_due: list[float] = []
"""When the next one is."""


def note_alive(every: float) -> None:
    """This process runs now, and notes it again in so many seconds."""
    now = time.monotonic()
    if _due:
        _beats.append((now, now - _due[0]))
        del _beats[:-_KEPT]
    _due[:] = [now + every]


def longest_pause(since: float) -> float:
    """Seconds that this process did not run, at least; 0 of a process that does not note it.

    `since`: by the monotonic clock.
    """
    now = time.monotonic()
    overdue = [now - due for due in _due]
    return max([0.0, *overdue, *(late for at, late in _beats if at >= since)])
