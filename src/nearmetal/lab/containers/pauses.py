"""How long a container was paused, from what its engine remembers of it.

The engine keeps its last few hundred events. In a container that is measured hardly anything happens that is one, but
where others come and go by the dozen meanwhile, a pause may be forgotten.
"""

import json
import time

from nearmetal.errors import HostCannot
from nearmetal.lab.containers.api import PODMAN, ContainerEngine, EngineRefusal
from nearmetal.lab.machines import stillness
from nearmetal.lab.machines.stillness import StillnessChange

_PAUSE, _UNPAUSE = "pause", "unpause"


async def seconds(engine: ContainerEngine, container: str, since: float) -> float:
    """That it was paused since then (Unix time); 0 where the engine keeps no events."""
    until = time.time()
    try:
        events = await engine.call(_events, engine, container, since, until)
    except (EngineRefusal, HostCannot):
        return 0.0
    return stillness.between(events, since, until)


def _events(engine: ContainerEngine, container: str, since: float, until: float) -> list[StillnessChange]:
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
    lines = map(json.loads, answer.text.splitlines())
    return [StillnessChange(one["timeNano"] / 1e9, stands=one["Action"] == _PAUSE) for one in lines]
