"""Ctrl-C, and whatever else tells a program to end: what was begun is tidied up first."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def ending() -> tuple[signal.Signals, ...]:
    """Signals that tell us to end: not SIGHUP where whoever started us has it ignored, as nohup does."""
    is_kept_from_us = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *(() if is_kept_from_us else (signal.SIGHUP,)))


def until_interrupted(work: Coroutine[Any, Any, object]) -> bool:
    """Run to the end, or until we are told to end: then tidy up first. Whether it came to the end."""

    async def guarded() -> bool:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in ending():
            loop.add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            # Who presses it again while all comes to its end is still to be told what became of it.
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            return False
        return True

    finished = asyncio.run(guarded())
    if not finished:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return finished
