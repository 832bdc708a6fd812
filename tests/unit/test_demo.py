"""`nearmetal demo`: what it started is told of signals, and does not go on when it is killed."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from nearmetal import cli
from nearmetal.commands import demo as demo_command
from nearmetal.errors import BadInput
from tests.command_line import call
from tests.waiting import wait_until

_STARTS = """
import asyncio, sys
from nearmetal.commands import demo
sys.executable = sys.argv[1]
print(asyncio.run(demo._run(["trace", "-"], {})))
"""
"""A command that waits for what another program pipes in; and its status."""


@contextmanager
def _started(
    python: str = sys.executable, called: bytes = b"-m\0nearmetal\0"
) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """A demo, and its command's process id."""
    words = [sys.executable, "-c", _STARTS, python]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as demo:
        try:
            command = wait_until(lambda: _child(demo.pid))
            wait_until(lambda: called in Path(f"/proc/{command}/cmdline").read_bytes())
            # Until it is itself, and no longer on its way to be.
            wait_until(lambda: Path(f"/proc/{command}/comm").read_text() != "setpriv\n")
            yield demo, command
        finally:
            demo.kill()


def test_a_run_that_is_not_there_is_refused_before_an_engine_is_started(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no such folder"):
        call(demo_command.demo, run=tmp_path / "nowhere")


@pytest.mark.parametrize("words", [("--engine", "own"), ("--engine=own",)])
@pytest.mark.parametrize("command", ["run", "resume"])
def test_a_run_on_an_engine_of_its_own_is_the_same_command_with_that_engine(
    command: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out: list[tuple[list[str], str]] = []

    @asynccontextmanager
    async def run_private_engine(folder: Path) -> AsyncIterator[str]:
        yield "unix:///own.sock"

    async def carry_out(command: list[str], environment: dict[str, str]) -> int:
        carried_out.append((command, environment["DOCKER_HOST"]))
        assert environment["NEARMETAL_RESUME_HINT"] == "nearmetal resume --engine own "
        return 5

    monkeypatch.setattr("nearmetal.lab.containers.private_engine.run_private_engine", run_private_engine)
    monkeypatch.setattr(demo_command, "_run", carry_out)
    monkeypatch.setattr(sys, "argv", ["nearmetal", command, *words, "a", "--json"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 5
    assert carried_out == [([command, "a", "--json"], "unix:///own.sock")]


def test_a_killed_demo_leaves_no_command_behind() -> None:
    with _started() as (demo, command):
        demo.send_signal(signal.SIGKILL)
        demo.wait()
        wait_until(lambda: not _is_running(command))


@pytest.mark.parametrize(
    ("told", "passed_on"),
    [
        (signal.SIGHUP, signal.SIGTERM),
        (signal.SIGTERM, signal.SIGTERM),
        (signal.SIGINT, signal.SIGINT),
    ],
)
def test_ctrl_c_alone_is_passed_on_as_ctrl_c(told: signal.Signals, passed_on: signal.Signals, tmp_path: Path) -> None:
    """The kernel and the shell tell of a closed terminal; more than one Ctrl-C is not to wait until all is put right.

    To a program that ends by any signal at any time: Python that starts does not.
    """
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    with _started(str(program), b"sleep\0") as (demo, _):
        demo.send_signal(told)
        status, _ = demo.communicate(timeout=30)
    assert int(status) == 128 + passed_on, "as a shell tells it"


def _child(parent: int) -> int:
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return int(found[0]) if found else 0


def _is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
