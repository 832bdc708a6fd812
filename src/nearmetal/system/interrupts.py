"""Ctrl-C, and whatever else tells a program to end: what was begun is tidied up first, unless told so once more.

A program is told while it waits, and then its task is cancelled. If it computes instead, and so does not hear of it for
`DEAF` seconds, what it computes is broken off. No thread keeps it from ending.
"""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, TypeVar

from nearmetal.errors import LeftAtOnce
from nearmetal.progress_messages import Say, ignore_text

DEAF = 1.0
"""Seconds after which what keeps a program from hearing a signal is broken off."""
TWICE = 1.0
"""Seconds: two SIGTERM closer than that are one, sent to a process and to its group, as `timeout` does."""
_STOPPING = "stopping: what was made or changed is put right first; Ctrl-C once more leaves at once"

Result = TypeVar("Result")


def list_ending_signals() -> tuple[signal.Signals, ...]:
    """Signals that tell us to end: not SIGHUP where whoever started us has it ignored, as nohup does."""
    is_kept_from_us = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *(() if is_kept_from_us else (signal.SIGHUP,)))


def until_interrupted(work: Coroutine[Any, Any, object], say: Say = ignore_text) -> bool:
    """Run to the end, or until we are told to end: then tidy up first, which is said. Whether it came to the end.

    LeftAtOnce when Ctrl-C or SIGTERM comes after that. SIGHUP counts once: a terminal that is closed sends its own, and
    so does its shell.
    """
    try:
        _Work(say).run(work, list_ending_signals())
    except asyncio.CancelledError:
        return False
    return True


def run_until_done(work: Coroutine[Any, Any, Result]) -> Result:
    """As asyncio.run, for what has little to tidy up. KeyboardInterrupt after Ctrl-C, LeftAtOnce after another one."""
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # and not ignored, as in the background
    try:
        return _Work(ignore_text).run(work, (signal.SIGINT,) if is_heard else ())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


class _Threads(ThreadPoolExecutor):
    """The loop's. Once we are told to end, nobody waits for what goes on in them."""

    is_told = False

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait and not self.is_told, cancel_futures=cancel_futures or self.is_told)


class _Work:
    """What runs until it is told to end."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._threads = _Threads()
        self._told: float | None = None
        """When, of CLOCK_MONOTONIC."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    def run(self, work: Coroutine[Any, Any, Result], numbers: Sequence[signal.Signals]) -> Result:
        runner = asyncio.Runner()
        self._loop = runner.get_loop()
        self._loop.set_default_executor(self._threads)
        is_left = False
        with self._handle_signals(numbers):
            try:
                return runner.run(self._begin_work(work))
            except LeftAtOnce:
                is_left = True
                raise
            finally:
                if not is_left:  # closing waits for all that is still under way
                    runner.close()

    async def _begin_work(self, work: Coroutine[Any, Any, Result]) -> Result:
        self._task = asyncio.current_task()
        if self._told is not None:
            self._end_process()
        return await work

    @contextlib.contextmanager
    def _handle_signals(self, numbers: Sequence[signal.Signals]) -> Iterator[None]:
        before = {number: signal.getsignal(number) for number in (*numbers, signal.SIGALRM)}
        assert self._loop is not None
        for number in numbers:
            self._loop.add_signal_handler(number, lambda: None)  # it wakes the loop, whichever thread the signal hits
            signal.signal(number, self._tell_signal)  # and this is called also while the loop does not come round
        signal.signal(signal.SIGALRM, self._break_off)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _tell_signal(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._told is not None:
            if number == signal.SIGINT or (number == signal.SIGTERM and now - self._told > TWICE):
                raise LeftAtOnce
            return
        self._told = now
        self._threads.is_told = True
        # It warns of children whose start is cut off, that nothing is known of them.
        logging.getLogger("asyncio").setLevel(logging.ERROR)
        if self._task is not None and self._loop is not None and not self._loop.is_closed():
            signal.setitimer(signal.ITIMER_REAL, DEAF, DEAF)
            self._loop.call_soon_threadsafe(self._end_process)

    def _end_process(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._task is not None:
            self._task.cancel()
        with contextlib.suppress(OSError):  # the terminal may be gone
            self._say(_STOPPING)

    def _break_off(self, _number: int, _frame: FrameType | None) -> None:
        """The loop has not come round: whichever of its tasks is at work is cancelled here and now."""
        if self._loop is not None and asyncio._get_running_loop() is self._loop:
            raise asyncio.CancelledError
