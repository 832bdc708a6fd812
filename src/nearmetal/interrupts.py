"""Ctrl-C, and whatever else tells a program to end: what was begun is tidied up first."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def until_interrupted(work: Coroutine[Any, Any, object]) -> bool:
    """Run to the end, or until SIGINT, SIGTERM or SIGHUP: then tidy up first. Whether it came to the end."""

    async def guarded() -> bool:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            # All that is left is to say so: who pressed Ctrl-C again, out of impatience, is still to read it.
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            return False
        return True

    return asyncio.run(guarded())
