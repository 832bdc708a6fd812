"""Sites are met all at once: of a thousand, the last waits no longer than the first."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from nearmetal.fleet.cluster import Fleet
from nearmetal.fleet.dask import SITE

NAMES = ("a", "b", "c")


class TogetherAlone:
    """A Dask client. No site answers before all are asked."""

    status = "running"

    def __init__(self) -> None:
        self.scheduler = self
        self._all = asyncio.Barrier(len(NAMES))

    async def identity(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {f"tcp://{name}:1": {"name": name, "resources": {SITE: 1}} for name in NAMES}}

    async def run(self, function: Callable[[], Any], workers: Sequence[str]) -> dict[str, Any]:
        async with asyncio.timeout(10):
            await self._all.wait()
        return {workers[0]: function()}


async def test_they_are_asked_at_once_what_they_are() -> None:
    fleet = Fleet(cast("Any", TogetherAlone()), "local:3")
    await fleet.find_sites()
    assert fleet.sites == NAMES and set(fleet.facts) == set(NAMES)
