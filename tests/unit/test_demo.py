"""`make demo`: what it started does not go on when it is killed."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

_STARTS = "import asyncio; from nearmetal import demo; asyncio.run(demo._run(['trace', '-'], {}))"
"""A command that waits for what another program pipes in."""


def test_a_killed_demo_leaves_no_command_behind() -> None:
    with subprocess.Popen([sys.executable, "-c", _STARTS], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as demo:
        command = _soon(lambda: _child(demo.pid))
        _soon(lambda: b"-m\0nearmetal\0" in Path(f"/proc/{command}/cmdline").read_bytes())
        # Until it is itself, and no longer on its way to be.
        _soon(lambda: Path(f"/proc/{command}/comm").read_text().startswith("python"))
        demo.send_signal(signal.SIGKILL)
        demo.wait()
        _soon(lambda: not _is_running(command))


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
