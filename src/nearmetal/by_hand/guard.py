"""Ending a program in a container when whoever started it is gone, however that went.

The engine lets a program go on whose client has ended before it: by a signal, or because nobody takes what it says any
more. We end that by ourselves; and should we be killed, a process of our own, which outlives us, waits for the end of
a pipe that we hold: closed without a word, we are dead, and every process that carries our mark in its environment is
ended. The mark is inherited, and nothing of it is left in the container.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearmetal.lab.commands.orphans import marked

VARIABLE = "NEARMETAL_EXEC"
_WELL = b"."
_GRACE = 5.0
"""Seconds between asking a process to end and ending it."""
_STARTING = 1.0
"""Seconds in which one may still appear that the engine had been told to start."""


@contextmanager
def guarded(mark: str) -> Iterator[None]:
    """What is started within, with `mark` as its `VARIABLE`, ends with this process at the latest, and before if
    something goes wrong within."""
    waited, held = os.pipe2(os.O_CLOEXEC)
    guard = os.fork()
    if guard == 0:
        try:
            os.close(held)
            _wait(waited, mark)
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


def _wait(waited: int, mark: str) -> None:
    os.setsid()  # what a terminal sends to its programs is not for the guard
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    # Whoever reads to the end of our output would wait for the guard as well.
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    if os.read(waited, 1) != _WELL:
        end(mark)


def outlived(mark: str) -> bool:
    """Whether the program that the engine started goes on, not only what it left in the background when it ended."""
    return any(_comes_from_outside(process) for process in marked(VARIABLE, mark))


def _comes_from_outside(process: int) -> bool:
    """Whether its parent is none of the container's: who starts a program there is outside, who adopts one inside."""
    try:
        parent = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[1]
        return Path(f"/proc/{process}/ns/pid").readlink() != Path(f"/proc/{parent}/ns/pid").readlink()
    except OSError:
        return False  # it ended just now


def end(mark: str) -> None:
    """Ask all that carry the mark to end; after a grace those that did not are ended."""
    began = time.monotonic()
    while (still := list(marked(VARIABLE, mark))) or time.monotonic() < began + _STARTING:
        number = signal.SIGTERM if time.monotonic() < began + _GRACE else signal.SIGKILL
        for process in still:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
        time.sleep(0.1)
