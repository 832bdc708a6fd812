"""How long a container was paused, from what its engine remembers of it.

The engine keeps its last few hundred events. In a container that is measured hardly anything happens that is one, but
where others come and go by the dozen meanwhile, a pause may be forgotten.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nearmetal.errors import HostCannot
from nearmetal.lab.containers.api import Engine, Refused

_PAUSE, _UNPAUSE = "pause", "unpause"


@dataclass(frozen=True)
class Event:
    at: float
    """Unix time."""
    action: str


async def seconds(engine: Engine, container: str, since: float) -> float:
    """That it was paused since then (Unix time); 0 where the engine keeps no events."""
    until = time.time()
    try:
        told = await engine.call(_events, engine.client, container, since, until)
    except (Refused, HostCannot):
        return 0.0
    return between(told, since, until)


def _events(client: Any, container: str, since: float, until: float) -> list[Event]:
    filters = {"container": [container], "event": [_PAUSE, _UNPAUSE]}
    # As text, for of numbers the SDK takes whole seconds alone.
    told = client.events(since=f"{since:.6f}", until=f"{until:.6f}", filters=filters, decode=True)
    return [Event(one["timeNano"] / 1e9, one["Action"]) for one in told]


def between(events: Sequence[Event], since: float, until: float) -> float:
    """Seconds of a span that lie in pauses, by the events within it in their order. Pure."""
    paused, begin = 0.0, since if events and events[0].action == _UNPAUSE else None
    for event in events:
        if event.action == _PAUSE:
            begin = event.at
        elif begin is not None:
            paused, begin = paused + event.at - begin, None
    return paused if begin is None else paused + until - begin
