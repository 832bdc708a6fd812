"""`make demo`: what it started is told of signals, and does not go on when it is killed."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_STARTS = "import asyncio; from nearmetal import demo; print(asyncio.run(demo._run(['trace', '-'], {})))"
"""A command that waits for what another program pipes in; and its status."""


@contextmanager
def _started() -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """A demo, and its command's process id."""
    with subprocess.Popen([sys.executable, "-c", _STARTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as demo:
        command = _soon(lambda: _child(demo.pid))
        _soon(lambda: b"-m\0nearmetal\0" in Path(f"/proc/{command}/cmdline").read_bytes())
        # Until it is itself, and no longer on its way to be.
        _soon(lambda: Path(f"/proc/{command}/comm").read_text().startswith("python"))
        yield demo, command


def test_a_killed_demo_leaves_no_command_behind() -> None:
    with _started() as (demo, command):
        demo.send_signal(signal.SIGKILL)
        demo.wait()
        _soon(lambda: not _is_running(command))


def test_a_terminal_that_is_closed_is_not_taken_for_ctrl_c() -> None:
    """The kernel and the shell tell of it, and more than one Ctrl-C is not to wait until all is put right."""
    with _started() as (demo, _):
        demo.send_signal(signal.SIGHUP)
        told, _ = demo.communicate(timeout=30)
    assert int(told) == -signal.SIGTERM


def _child(parent: int) -> int:
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return int(found[0]) if found else 0


def _is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _soon(look: Callable[[], int]) -> int:
    until = time.monotonic() + 30
    while not (found := look()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found
