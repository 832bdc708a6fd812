"""The load of one workload, kept up while another one is measured: delay under load, to begin with."""

import asyncio
from math import ceil

from nearmetal.errors import NearmetalError
from nearmetal.lab.stage import SLOW_LEAD
from nearmetal.model import ResolvedWorkload, Stage, Workload
from nearmetal.study.resolve import build_workload, lengthen_load

SETTLED = SLOW_LEAD + 1.0
"""Seconds of load before anything else begins: several clients begin together within the first part of it."""
_SPARE = 120.0
"""Seconds that the load would go on for if it were let, beyond what the other workload takes: to prepare it takes time
that nobody knows, and a load that ends is begun again, with a pause between."""


class BackgroundLoad:
    """Runs from `start_load` until `stop_load`, again and again if it has to."""

    def __init__(self, load: ResolvedWorkload, measured: Workload) -> None:
        self.name = load.name
        self.begun = 0
        """How often it was begun: once, unless what is measured took very long."""
        longest = ceil(SETTLED + measured.preparing + measured.duration + _SPARE)
        self._workload = build_workload(load.model_copy(update={"parameters": lengthen_load(load, longest)}))
        self._running: asyncio.Task[None] | None = None

    async def start_load(self, stage: Stage) -> None:
        """Return when it is under way. What makes the load fail is raised here, or by `check`."""
        await self._workload.prepare(stage)
        self._running = asyncio.create_task(self._repeat_load(stage))
        await asyncio.wait({self._running}, timeout=SETTLED)
        self.check()

    def check(self) -> None:
        """Raise what ended it, if something has."""
        if self._running is not None and self._running.done():
            self._running.result()
            raise NearmetalError(f"the load of {self.name!r} ended")

    async def stop_load(self, stage: Stage) -> None:
        """Stop it and what serves it, also if it never began."""
        try:
            if self._running is not None:
                self._running.cancel()
                await asyncio.gather(self._running, return_exceptions=True)
        finally:
            await self._workload.finish(stage)

    async def _repeat_load(self, stage: Stage) -> None:
        while True:
            self.begun += 1
            await self._workload.run(stage)
            await asyncio.sleep(0)
