"""How long something stood still, from when it was stopped and let go on. Pure."""

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
