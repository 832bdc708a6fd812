"""Programs that serve while a workload runs: started where what is measured belongs, looked at, and stopped."""

import contextlib
from collections.abc import Sequence

from nearmetal.errors import MachineError, TimedOut
from nearmetal.model import Completed, Machine, Running, Stage
from nearmetal.workloads._stage import placed


class Serving:
    """In the order they were started."""

    def __init__(self) -> None:
        self._running: list[tuple[Machine, Running]] = []

    def __len__(self) -> int:
        return len(self._running)

    async def start(self, stage: Stage, server: Machine, argv: Sequence[str]) -> None:
        self._running.append((server, await server.spawn(placed(stage, server, argv))))

    async def ended(self, index: int, within: float) -> Completed | None:
        """How one ended by itself, waiting for that so many seconds; None while it goes on. MachineLost."""
        try:
            return await self._running[index][1].wait(within)
        except TimedOut:
            return None

    async def stop_one(self, index: int) -> Completed:
        return await self._running[index][1].stop()

    async def stop(self) -> None:
        while self._running:
            _, running = self._running.pop()
            with contextlib.suppress(MachineError):  # with its machine, the server is gone too
                await running.stop()

    def machine(self, index: int) -> Machine:
        return self._running[index][0]
