"""The processes of a container that carry a mark in their environment: whether they go on, and their end.

The host sees them, unless the container has a kernel of its own: then they are looked for inside, by its shell.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nearmetal.config import LIMITS
from nearmetal.lab.commands import orphans

VARIABLE = "NEARMETAL_EXEC"
_GRACE = 5.0
"""Seconds between asking a process to end and ending it."""
_STARTING = 1.0
"""Seconds in which one may still appear that the engine had been told to start."""
_AGAIN = 0.1

BuildCommand = Callable[[Sequence[str]], list[str]]
"""The command by which a program runs in a container, from the program's argument vector."""


class HostProcesses:
    """Marked processes as this host sees them."""

    def __init__(self) -> None:
        self.mark = _make_mark()

    def is_running(self, status: int) -> bool:
        """Whether the program does that the engine started, not only what it left in the background when it ended.
        `status`: how the engine's client ended."""
        return any(_comes_from_outside(process) for process in orphans.find_marked(VARIABLE, self.mark))

    def end_all(self) -> None:
        """Ask all of them to end; after a grace those that did not are ended."""
        began = time.monotonic()
        while (still := list(orphans.find_marked(VARIABLE, self.mark))) or time.monotonic() < began + _STARTING:
            number = signal.SIGTERM if time.monotonic() < began + _GRACE else signal.SIGKILL
            for process in still:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, number)
            time.sleep(_AGAIN)


def _comes_from_outside(process: int) -> bool:
    """Whether its parent is none of the container's: who starts a program there is outside, who adopts one inside."""
    try:
        parent = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[1]
        return Path(f"/proc/{process}/ns/pid").readlink() != Path(f"/proc/{parent}/ns/pid").readlink()
    except OSError:
        return False  # it ended just now


# $0 is what their environment has; what lies between its words, a zero byte, is no matter to the search.
_FIND = """
find() {
    for folder in /proc/[0-9]*; do
        case $(cat "$folder/environ") in *"$0"*) echo "${folder#/proc/}" ;; esac
    done
}
"""
# The second word behind the name, which is in brackets: its parent's number, 0 for one outside.
_FROM_OUTSIDE = f"""{_FIND}
for process in $(find); do
    read -r stat <"/proc/$process/stat" && set -- ${{stat##*) }} && [ "$2" = 0 ] && exit 0
done
exit 1
"""
# By rounds: what they take is beyond what they wait.
_END = f"""{_FIND}
round=0
while still=$(find); [ -n "$still" ] || [ $round -lt {_STARTING / _AGAIN:.0f} ]; do
    [ $round -lt {_GRACE / _AGAIN:.0f} ] && name=TERM || name=KILL
    [ -z "$still" ] || kill -s $name $still
    round=$((round + 1))
    sleep {_AGAIN}
done
"""


class ContainerProcesses:
    """Marked processes as the container sees them, with the methods of `HostProcesses`. One that is gone has none."""

    def __init__(self, build_command: BuildCommand) -> None:
        self.mark = _make_mark()
        self._build_command = build_command

    def is_running(self, status: int) -> bool:
        # To look takes as long as the program may have, and a client that tells of success has seen its end.
        return status != 0 and self._run(_FROM_OUTSIDE) == 0

    def end_all(self) -> None:
        self._run(_END)

    def _run(self, script: str) -> int | None:
        command = self._build_command(["sh", "-c", script, f"{VARIABLE}={self.mark}"])
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            return subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # what a terminal sends to its programs is not for it
                timeout=LIMITS.command,
                check=False,
            ).returncode
        return None


MarkedProcesses = HostProcesses | ContainerProcesses


def _make_mark() -> str:
    return secrets.token_hex(8)


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
            _wait_for_end(waited, marked)
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


def _wait_for_end(waited: int, marked: MarkedProcesses) -> None:
    os.setsid()  # what a terminal sends to its programs is not for the guard
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    # Whoever reads to the end of our output would wait for the guard as well.
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    if os.read(waited, 1) != _WELL:
        marked.end_all()
