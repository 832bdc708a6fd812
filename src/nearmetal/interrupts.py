"""Ctrl-C, and whatever else tells a program to end: what was begun is tidied up first, unless told so once more."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Coroutine
from typing import Any

from nearmetal.errors import LeftAtOnce
from nearmetal.say import Say, silent

_STOPPING = "stopping: what was made or changed is put right first; Ctrl-C once more leaves at once"


def ending() -> tuple[signal.Signals, ...]:
    """Signals that tell us to end: not SIGHUP where whoever started us has it ignored, as nohup does."""
    is_kept_from_us = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *(() if is_kept_from_us else (signal.SIGHUP,)))


def until_interrupted(work: Coroutine[Any, Any, object], say: Say = silent) -> bool:
    """Run to the end, or until we are told to end: then tidy up first, which is said. Whether it came to the end.

    LeftAtOnce when Ctrl-C comes after that. Of the other signals the first counts alone: a terminal that is closed
    sends its own, and so does its shell.
    """

    async def guarded() -> bool:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        is_told = False

        def end(number: signal.Signals) -> None:
            nonlocal is_told
            if is_told:
                if number == signal.SIGINT:
                    raise LeftAtOnce
                return
            is_told = True
            # It warns of children whose start is cut off, that nothing is known of them.
            logging.getLogger("asyncio").setLevel(logging.ERROR)
            task.cancel()
            with contextlib.suppress(OSError):  # the terminal may be gone
                say(_STOPPING)

        for number in ending():
            loop.add_signal_handler(number, end, number)
        try:
            await task
        except asyncio.CancelledError:
            return False
        return True

    runner = asyncio.Runner()
    is_left = False
    try:
        return runner.run(guarded())
    except LeftAtOnce:
        is_left = True
        raise
    finally:
        if not is_left:  # closing waits for all that is still under way
            runner.close()
