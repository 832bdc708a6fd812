"""What several browsers look at, looked up once for all of them: only while somebody looks, and never too often."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

Parts = Mapping[str, str]
"""Parts of a page: the element's id to what stands in it, as HTML."""

_OFTEN = 0.5
"""Seconds between two looks."""
_SHARE = 600
"""A look that took a second of CPU time rests for this many: what is measured has the CPU, and all looks together take
less than 1 % of one, with what it takes to send them. Quicker ones go on."""
_LONGEST_REST = 100.0
"""Seconds."""
_STILL_HERE = 5.0
"""Seconds of silence after which a browser is told that there is nothing to tell: a third of what a page waits for."""


@dataclass
class Live:
    """Parts of a page, kept up to date. `looks` give parts that have changed, each by itself, the quickest first.

    They run in `worker`, one at a time. OSError and errors of ours are theirs to turn into parts; what else they raise
    ends the telling.
    """

    looks: Sequence[Callable[[], Parts]]
    worker: Executor
    closing: asyncio.Event
    """Set when the server ends: nobody is told anything more."""
    may_disturb: Callable[[], bool] = lambda: True
    """Whether looks rest, for there is something that they could disturb."""
    version: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    """Begins where no earlier one of the same page has come to: what a browser saw of that is all old."""
    _parts: dict[str, tuple[int, str]] = field(default_factory=dict)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _task: "asyncio.Task[None] | None" = None
    _watchers: int = 0
    _rests: dict[Callable[[], Parts], float] = field(default_factory=dict)
    """Until when each look rests, by the monotonic clock."""

    @property
    def is_watched(self) -> bool:
        return self._watchers > 0

    async def read_current(self) -> tuple[int, Parts]:
        await self._run_looks()
        return self.version, self.list_since(-1)

    def list_since(self, version: int) -> Parts:
        return {name: text for name, (of, text) in self._parts.items() if of > version}

    async def watch_changes(self, seen: int) -> AsyncGenerator[tuple[int, Parts] | None]:
        """Versions after the one seen, with what is new in them; None after a while without any. Ends when closing.

        Who has seen nothing begins with how it is now.
        """
        if seen > self.version:  # the clock was set back since
            seen = -1
        self._watchers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._keep_looking())
        try:
            if seen < 0:
                await self._run_looks()
            while not self.closing.is_set():
                if self._task is not None and self._task.done():
                    self._task.result()
                if new := self.list_since(seen):
                    seen = self.version
                    yield seen, new
                elif not await self._changes_within(_STILL_HERE, seen):
                    yield None
        finally:
            self._watchers -= 1
            if not self._watchers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def close(self) -> None:
        """Wake up whoever waits; `closing` is set."""
        async with self._changed:
            self._changed.notify_all()

    async def _changes_within(self, seconds: float, seen: int) -> bool:
        async with self._changed:
            waiting = self._changed.wait_for(lambda: self.version > seen or self.closing.is_set())
            try:
                await asyncio.wait_for(waiting, seconds)
            except TimeoutError:
                return False
        return True

    async def _keep_looking(self) -> None:
        while True:
            await self._run_looks(of_all=False)
            await asyncio.sleep(_OFTEN)

    def end_rests(self) -> None:
        """Look again at once: somebody has just asked for something."""
        self._rests = dict.fromkeys(self._rests, 0.0)

    async def _run_looks(self, *, of_all: bool = True) -> None:
        """Those that have rested; or all of them, for a page that is asked for."""
        async with self._looking:
            of_all = of_all or not self.may_disturb()
            for look in self.looks:
                if of_all or time.monotonic() >= self._rests.get(look, 0.0):
                    parts, spent = await asyncio.get_running_loop().run_in_executor(self.worker, _time_look, look)
                    # The first time it loads what it needs, which says nothing of the next.
                    rest = min(_SHARE * spent, _LONGEST_REST) if look in self._rests else 0.0
                    self._rests[look] = time.monotonic() + rest
                    await self._publish_parts(parts)

    async def _publish_parts(self, parts: Parts) -> None:
        new = {name: text for name, text in parts.items() if self._parts.get(name, (0, None))[1] != text}
        if new:
            self.version += 1
            self._parts |= {name: (self.version, text) for name, text in new.items()}
            async with self._changed:
                self._changed.notify_all()


def _time_look(look: Callable[[], Parts]) -> tuple[Parts, float]:
    """With what it took of the CPU's time, that of libraries' own threads included."""
    began = time.process_time()
    return look(), time.process_time() - began
