"""What changes a host's values ends with the controller, also when that is killed."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from nearmetal.lab.local_site import BoundCommands, LocalSite

WRITER = """
import asyncio, sys
from nearmetal.lab.local_site import BoundCommands, LocalSite
asyncio.run(BoundCommands(LocalSite()).exec(["sh", "-c", 'echo $$ >"$0"; while :; do sleep 0.05; done', sys.argv[1]]))
"""
LIMIT = 20.0


async def test_it_passes_on_what_it_is_given_and_what_came_of_it() -> None:
    ended = await BoundCommands(LocalSite()).exec(
        ["sh", "-c", "cat; echo $X >&2; exit 3"], stdin=b"in", env={"X": "of the caller"}
    )
    assert (ended.status, ended.stdout, ended.stderr) == (3, b"in", b"of the caller\n")
    running = await BoundCommands(LocalSite()).spawn(["sleep", "60"])
    assert (await running.stop()).status == 128 + signal.SIGTERM


def test_it_ends_with_a_controller_that_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    controller = subprocess.Popen([sys.executable, "-c", WRITER, str(told)])
    deadline = time.monotonic() + LIMIT
    while not (told.exists() and told.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    controller.kill()
    controller.wait(LIMIT)
    writer = int(told.read_text())
    while is_running(writer):
        assert time.monotonic() < deadline, "it goes on without its controller"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
