"""How a fleet asks its scheduler and its sites: at once, never too many, and never for longer than they may take."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from nearmetal.errors import HostCannot
from nearmetal.fleet import cluster
from nearmetal.fleet.cluster import Fleet, SiteLost
from nearmetal.fleet.dask import SITE

NAMES = ("a", "b", "c")


class FakeClient:
    """A Dask client. Its sites answer at once."""

    status = "running"

    def __init__(self) -> None:
        self.scheduler = self
        self.asked: list[str] = []

    async def identity(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {f"tcp://{name}:1": {"name": name, "resources": {SITE: 1}} for name in NAMES}}

    async def run(self, function: Callable[[], Any], workers: Sequence[str]) -> dict[str, Any]:
        self.asked.append(workers[0])
        await self.answer(workers[0])
        return {workers[0]: function()}

    async def answer(self, address: str) -> None:
        return


def make_fleet(client: FakeClient) -> Fleet:
    return Fleet(cast("Any", client), "local:3")


async def test_sites_are_asked_at_once_what_they_are() -> None:
    """Of a thousand, the last waits no longer than the first."""

    class TogetherAlone(FakeClient):
        """No site answers before all are asked."""

        async def answer(self, address: str) -> None:
            async with asyncio.timeout(10):
                await together.wait()

    together = asyncio.Barrier(len(NAMES))
    fleet = make_fleet(TogetherAlone())
    await fleet.find_sites()
    assert fleet.sites == NAMES and set(fleet.facts) == set(NAMES)


async def test_few_enough_are_asked_for_the_scheduler_to_be_asked_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeClient):
        answering = most = 0

        async def answer(self, address: str) -> None:
            self.answering += 1
            self.most = max(self.most, self.answering)
            await asyncio.sleep(0.01)
            self.answering -= 1

    monkeypatch.setattr(cluster, "ASKED_AT_ONCE", 2)
    client = Slow()
    fleet = make_fleet(client)
    await fleet.find_sites()
    assert fleet.sites == NAMES and client.most == 2


async def test_a_site_is_asked_once_more_if_a_connection_broke() -> None:
    class BreakingOnce(FakeClient):
        breaks = False

        async def answer(self, address: str) -> None:
            if self.breaks:
                self.breaks = False
                raise OSError("Timed out trying to connect")

    client = BreakingOnce()
    fleet = make_fleet(client)
    await fleet.find_sites()
    client.breaks = True
    client.asked.clear()
    assert await fleet.ask_site("a", lambda: 1) == 1
    assert client.asked == ["tcp://a:1"] * 2


async def test_a_site_whose_connections_break_is_lost() -> None:
    class Breaking(FakeClient):
        breaks = False

        async def answer(self, address: str) -> None:
            if self.breaks:
                raise OSError("Timed out trying to connect")

    client = Breaking()
    fleet = make_fleet(client)
    await fleet.find_sites()
    client.breaks = True
    with pytest.raises(SiteLost, match="the site a does not answer: Timed out"):
        await fleet.ask_site("a", lambda: 1)


class Mute(FakeClient):
    """Neither the scheduler nor a site answers once it is mute."""

    is_mute = False

    async def identity(self, n_workers: int) -> dict[str, Any]:
        await self.answer("")
        return await super().identity(n_workers)

    async def answer(self, address: str) -> None:
        if self.is_mute:
            await asyncio.Event().wait()


async def make_mute_fleet() -> tuple[Mute, Fleet]:
    client = Mute()
    fleet = make_fleet(client)
    await fleet.find_sites()
    client.is_mute = True
    return client, fleet


async def test_a_scheduler_whose_connection_is_closed_is_gone_though_it_might_still_answer() -> None:
    client, fleet = await make_mute_fleet()
    asyncio.get_running_loop().call_later(0.1, setattr, client, "status", "connecting")
    began = time.monotonic()
    asked = await asyncio.gather(fleet.find_sites(), fleet.ask_site("a", lambda: 1), return_exceptions=True)
    assert isinstance(asked[0], HostCannot) and "the scheduler is gone: its connection is closed" in str(asked[0])
    assert isinstance(asked[1], SiteLost)
    assert time.monotonic() < began + 10 < began + cluster.STALL


async def test_a_scheduler_that_hangs_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "STALL", 0.1)
    client, fleet = await make_mute_fleet()
    client.asked.clear()
    with pytest.raises(HostCannot, match="the scheduler is gone: it has not answered for 0 s"):
        await fleet.find_sites()
    with pytest.raises(SiteLost):
        await fleet.ask_site("a", lambda: 1)
    assert not client.asked
