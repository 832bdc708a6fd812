"""How long a container was paused, from what its engine remembers of it.

The engine keeps its last few hundred events. In a container that is measured hardly anything happens that is one, but
where others come and go by the dozen meanwhile, a pause may be forgotten.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from nearmetal.errors import HostCannot
from nearmetal.lab.containers.api import PODMAN, Engine, Refused

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
        told = await engine.call(_events, engine, container, since, until)
    except (Refused, HostCannot):
        return 0.0
    return between(told, since, until)


def _events(engine: Engine, container: str, since: float, until: float) -> list[Event]:
    """By a request of our own: of a span that is over Podman tells nothing, and the SDK asks for no other."""
    filters = json.dumps({"container": [container], "event": [_PAUSE, _UNPAUSE]})
    until_now = {"stream": "false"} if engine.brand == PODMAN else {"until": f"{until:.6f}"}
    client = engine.client
    answer = client.get(
        f"{client.base_url}/v{client.api_version}/events",
        params={"since": f"{since:.6f}", "filters": filters, **until_now},
        timeout=client.timeout,
    )
    answer.raise_for_status()
    told = map(json.loads, answer.text.splitlines())
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
