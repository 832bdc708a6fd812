"""How long something stood still, from when it was stopped and let go on. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    at: float
    """Unix time."""
    stands: bool
    """From then on; else it goes on."""


def between(events: Sequence[Event], since: float, until: float) -> float:
    """Seconds of a span in which it stood still, by the events within it in their order."""
    still, begin = 0.0, since if events and not events[0].stands else None
    for event in events:
        if event.stands:
            begin = event.at
        elif begin is not None:
            still, begin = still + event.at - begin, None
    return still if begin is None else still + until - begin
