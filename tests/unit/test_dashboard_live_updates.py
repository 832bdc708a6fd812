"""Looked up once for all who look, only while somebody does, and with a rest after what took long."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from nearmetal.dashboard import live_updates
from nearmetal.dashboard.live_updates import Live

PATIENCE = 30.0


@pytest.fixture
def worker() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as found:
        yield found


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "_OFTEN", 0.01)


class Counter:
    """A look that gives another number each time."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> Mapping[str, str]:
        self.looks += 1
        return {"count": str(self.looks), "same": "the same"}


def alive(worker: ThreadPoolExecutor, *looks: Callable[[], Mapping[str, str]]) -> Live:
    return Live(looks, worker, asyncio.Event())


async def test_only_what_has_changed_is_told(worker: ThreadPoolExecutor) -> None:
    found = alive(worker, Counter())
    version, parts = await found.read_current()
    assert dict(parts) == {"count": "1", "same": "the same"}
    changes = found.watch_changes(version)
    told = await asyncio.wait_for(anext(changes), PATIENCE)
    assert told is not None
    assert list(told[1]) == ["count"]
    await changes.aclose()
    for of_another in (version - 1, 0, 10**15):
        changes = found.watch_changes(of_another)
        told = await asyncio.wait_for(anext(changes), PATIENCE)
        assert told is not None and sorted(told[1]) == ["count", "same"], of_another
        await changes.aclose()


async def test_nothing_is_looked_up_while_nobody_looks(worker: ThreadPoolExecutor) -> None:
    look = Counter()
    found = alive(worker, look)
    one, other = found.watch_changes(-1), found.watch_changes(-1)
    await asyncio.wait_for(asyncio.gather(anext(one), anext(other)), PATIENCE)
    assert found.is_watched
    await one.aclose()
    before = look.looks
    for _ in range(3):
        await asyncio.wait_for(anext(other), PATIENCE)
    assert look.looks > before, "one still looks"
    await other.aclose()
    assert not found.is_watched
    await asyncio.sleep(0.1)  # what had begun may end
    before = look.looks
    await asyncio.sleep(0.2)
    assert look.looks == before


async def test_after_what_took_long_there_is_a_rest(
    worker: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_updates, "_SHARE", 1_000_000)
    busy = Counter()

    def take_long() -> Mapping[str, str]:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        return {"long": str(busy())}

    found = alive(worker, take_long)
    changes = found.watch_changes(-1)
    for _ in range(2):
        await asyncio.wait_for(anext(changes), PATIENCE)
    await asyncio.sleep(0.5)
    assert busy.looks == 2, "the first look loads what it needs, and does not count"
    await found.read_current()
    assert busy.looks == 3, "a page that is asked for is the newest"
    found.may_disturb = lambda: False
    for _ in range(3):
        await asyncio.wait_for(anext(changes), PATIENCE)
    assert busy.looks > 4, "nothing is disturbed any more"
    await changes.aclose()


async def test_a_closing_server_tells_nobody_more(worker: ThreadPoolExecutor) -> None:
    found = alive(worker, lambda: {"part": "text"})
    changes = found.watch_changes(-1)
    await anext(changes)
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    found.closing.set()
    await found.close()
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(waiting, PATIENCE)
    assert not found.is_watched


async def test_who_waits_long_is_told_that_there_is_nothing_new(
    worker: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_updates, "_STILL_HERE", 0.05)
    found = alive(worker, lambda: {"part": "text"})
    changes = found.watch_changes(-1)
    assert await anext(changes) is not None
    assert await asyncio.wait_for(anext(changes), PATIENCE) is None
    await changes.aclose()


async def test_a_look_that_fails_is_no_silence(worker: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "_STILL_HERE", 0.05)

    def fails() -> Mapping[str, str]:
        raise ZeroDivisionError

    changes = alive(worker, fails).watch_changes(-1)
    with pytest.raises(ZeroDivisionError):
        while True:
            await asyncio.wait_for(anext(changes), PATIENCE)
