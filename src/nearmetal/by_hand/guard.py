"""Ending a program in a container when whoever started it is gone, however that went.

The engine lets a program go on whose client has ended before it: by a signal, or because nobody takes what it says any
more. We end that by ourselves; and should we be killed, a process of our own, which outlives us, waits for the end of
a pipe that we hold: closed without a word, we are dead, and every process that carries our mark in its environment is
ended. The mark is inherited, and nothing of it is left in the container.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from nearmetal.by_hand.marked_processes import MarkedProcesses

_WELL = b"."


@contextmanager
def guard_processes(marked: MarkedProcesses) -> Iterator[None]:
    """What is started within, with the mark, ends with this process at the latest, and before if something goes wrong
    within."""
    waited, held = os.pipe2(os.O_CLOEXEC)
    guard = os.fork()
    if guard == 0:
        try:
            os.close(held)
            _wait(waited, marked)
        finally:
            os._exit(0)
    os.close(waited)
    try:
        yield
        with contextlib.suppress(BrokenPipeError):
            os.write(held, _WELL)
    finally:
        os.close(held)
        os.waitpid(guard, 0)


def _wait(waited: int, marked: MarkedProcesses) -> None:
    os.setsid()  # what a terminal sends to its programs is not for the guard
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    # Whoever reads to the end of our output would wait for the guard as well.
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    if os.read(waited, 1) != _WELL:
        marked.end_all()
