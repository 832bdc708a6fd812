"""The observer `loadavg`: the load average of every server before and after a trial measures.

It is read outside the measurement, so it costs the measurement nothing. Switched on by `loadavg = true` in [observe].
"""

from typing import Any, ClassVar

from nearmetal.errors import ToolFailed
from nearmetal.model import Observation, Observer, Stage


class Loadavg:
    name: ClassVar[str] = "loadavg"
    around: ClassVar[bool] = False
    takes: ClassVar[float] = 0.1

    def __init__(self, setting: Any) -> None:
        if setting is not True:
            raise ValueError(f"{setting!r} is not a setting of it; write loadavg = true")

    async def start(self, stage: Stage) -> "LoadavgWatch":
        return LoadavgWatch(stage, await _averages(stage))


class LoadavgWatch:
    def __init__(self, stage: Stage, before: list[float]) -> None:
        self._stage = stage
        self._before = before

    async def stop(self) -> Observation:
        return Observation(counters={"before": self._before, "after": await _averages(self._stage)})


async def _averages(stage: Stage) -> list[float]:
    """Over the last minute, of each server."""
    found = []
    for server in stage.servers:
        ended = await server.exec(["cat", "/proc/loadavg"])
        if ended.status != 0:
            raise ToolFailed(f"the load average cannot be read: {ended.complaint}", server.name)
        found.append(float(ended.text.split()[0]))
    return found


plugin: type[Observer] = Loadavg
