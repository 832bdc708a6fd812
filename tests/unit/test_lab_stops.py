"""For how long something stood still, and that of a program of ours the kernel tells."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable

import pytest

from nearmetal.lab.commands import process
from nearmetal.lab.machines import stillness
from nearmetal.lab.machines.stillness import Event
from nearmetal.lab.machines.stops import Stops


@pytest.mark.parametrize(
    ("events", "seconds"),
    [
        ([], 0),
        ([(12, True), (13.5, False), (15, True), (16, False)], 2.5),
        ([(12, False)], 2),  # it stood before
        ([(18, True)], 2),  # it still does
        ([(12, False), (18, True)], 4),
    ],
)
def test_events_tell_for_how_long_something_stood_still(events: list[tuple[float, bool]], seconds: float) -> None:
    assert stillness.between([Event(at, stands) for at, stands in events], 10, 20) == seconds


async def test_a_program_that_is_stopped_by_a_signal_is_heard_of_until_it_ends() -> None:
    running = process.Background(await process.start(["sleep", "600"]))
    stops = Stops(running.pid)
    since = time.time()
    assert stops.seconds(since) == 0
    await running.signal(signal.SIGSTOP)
    await until(lambda: stops.seconds(since) > 0)
    stopped = stops.seconds(since)
    await until(lambda: stops.seconds(since) > stopped)
    await running.signal(signal.SIGCONT)
    await until(lambda: stops.seconds(since) == stops.seconds(since))
    assert stops.seconds(since) > stopped
    assert stops.seconds(time.time()) == 0
    assert (await running.stop()).status == 128 + signal.SIGTERM
    await until(lambda: not [one for one in threading.enumerate() if one.name == f"stops of {running.pid}"])


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - of what a thread hears
            await asyncio.sleep(0.01)
