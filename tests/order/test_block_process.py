"""A block is a process: what comes of one that dies, hangs, prints rubbish, or whose controller is gone."""

import asyncio
import contextlib
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nearmetal.config import LIMITS
from nearmetal.errors import BadInput
from nearmetal.lab.changes.ledger import ledgers_folder
from nearmetal.model import TrialStatus
from nearmetal.progress_messages import ignore_text
from nearmetal.run import block_processes
from nearmetal.run.block import BlockTask
from nearmetal.run.block_events import BlockFailed, Heartbeat, read_event, write_event
from nearmetal.run.block_main import read_task
from nearmetal.run.events import Step, TrialEnded, TrialStarted
from nearmetal.run.plan_execution import plan_task
from nearmetal.store.events import BlockEnded, Event
from nearmetal.store.run_folder import RunFolder
from tests import fork_server
from tests.order import mock_run

pytestmark = pytest.mark.processes


def processes(name: str) -> list[int]:
    """Those that are called so, and are ours; not what they start, which is called so until it is another program."""
    own = f"NEARMETAL_HOME={os.environ['NEARMETAL_HOME']}".encode()
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_called_so = (path / "comm").read_text().strip() == name
            if is_called_so and own in (path / "environ").read_bytes().split(b"\0"):
                found[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    return [process for process, parent in found.items() if parent not in found]


class Gathered:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


def at_first(kind: type[Event], act: Callable[[], None]) -> Callable[[Event], None]:
    is_done = False

    def listener(event: Event) -> None:
        nonlocal is_done
        if isinstance(event, kind) and not is_done:
            is_done = True
            act()

    return listener


async def test_a_run_has_a_process_for_each_block_and_none_remains(tmp_path: Path) -> None:
    seen: set[int] = set()
    _, records = await mock_run.run(tmp_path / "run", listener=lambda _: seen.update(processes("nm-block")))
    assert len(seen) == 2 and not processes("nm-block") and not processes("nm-forks")
    assert [record.status for record in records] == [TrialStatus.OK] * 4
    assert await mock_run.left_over() == []


async def test_one_that_is_killed_loses_its_trials_and_is_run_again(tmp_path: Path) -> None:
    def kill() -> None:
        os.kill(processes("nm-block")[0], signal.SIGKILL)

    events, records = await mock_run.run(tmp_path / "run", listener=at_first(TrialStarted, kill))
    lost = [record for record in records if record.status is TrialStatus.LOST]
    assert {record.reason for record in lost} == {"the process that ran its block is gone: it was killed by signal 9"}
    assert {(record.trial.block, record.trial.attempt) for record in lost} == {(0, 0)}
    assert [event.whole for event in events if isinstance(event, BlockEnded)] == [False, True, True]
    assert await mock_run.left_over() == []


async def test_one_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_processes, "SILENT", 1.0)

    def stop() -> None:
        os.kill(processes("nm-block")[0], signal.SIGSTOP)

    _, records = await mock_run.run(tmp_path / "run", listener=at_first(TrialStarted, stop))
    (reason,) = {record.reason for record in records if record.status is TrialStatus.LOST}
    assert "no sign of life for 1 s" in str(reason)
    assert await mock_run.left_over() == []


async def test_when_the_process_that_forks_is_killed_another_takes_its_place(tmp_path: Path) -> None:
    def kill() -> None:
        os.kill(processes("nm-forks")[0], signal.SIGKILL)

    _, records = await mock_run.run(tmp_path / "run", listener=at_first(TrialStarted, kill))
    assert [record.status for record in records] == [TrialStatus.OK] * 4
    assert not processes("nm-block") and not processes("nm-forks")


async def test_when_the_process_that_forks_is_stopped_another_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        block_processes, "LIMITS", replace(LIMITS, command=8.0, stop=1.0)
    )  # a busy host takes 5 s to start one

    def stop() -> None:
        os.kill(processes("nm-forks")[0], signal.SIGSTOP)

    _, records = await mock_run.run(tmp_path / "run", listener=at_first(TrialStarted, stop))
    assert [record.status for record in records] == [TrialStatus.OK] * 4
    assert not processes("nm-block") and not processes("nm-forks")


def test_the_process_that_forks_ends_with_its_controller_also_if_an_answer_was_not_read() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    (tasks, to_tasks), (from_events, events) = os.pipe(), os.pipe()
    command = [sys.executable, "-m", "nearmetal.run.fork_server"]
    with theirs, subprocess.Popen(command, stdin=theirs.fileno(), stderr=subprocess.PIPE) as forks:
        socket.send_fds(ours, [b'{"controller": 1, "preload": []}'], [tasks, events])
        assert select.select([ours], [], [], 60)[0]
        ours.close()
        for one in (tasks, to_tasks, from_events, events):
            os.close(one)
        _, said = forks.communicate(timeout=60)
    assert (forks.returncode, said) == (0, b"")


async def test_a_journal_that_takes_no_more_leaves_nothing_behind(tmp_path: Path) -> None:
    def fill() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        await mock_run.run(tmp_path / "run", listener=at_first(TrialStarted, fill))
    assert not processes("nm-block")
    assert await mock_run.left_over() == []


async def test_one_is_told_to_end_also_while_it_says_something(tmp_path: Path) -> None:
    await mock_run.run(tmp_path / "run")
    task = plan_task(RunFolder(tmp_path / "run").read_manifest().plan, 0, artifacts=tmp_path)
    for steps in range(8):  # of the loop, between what it says and when it is told
        heard = block_processes._BlockListener(task, Gathered(), ignore_text)
        (tasks, to_tasks), (from_events, events) = os.pipe(), os.pipe()
        await heard.open(to_tasks, from_events)
        listening = asyncio.ensure_future(heard.read_lines())
        await asyncio.sleep(0.01)
        os.write(events, write_event(Heartbeat()))
        for _ in range(steps):
            await asyncio.sleep(0)
        listening.cancel()
        await asyncio.wait({listening}, timeout=2)
        assert listening.cancelled(), steps
        heard.close()
        os.close(tasks)
        os.close(events)


async def test_what_is_no_event_ends_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def garbled(line: bytes) -> Event:
        nonlocal count
        count += 1
        return read_event(b"rubbish" + line if count == 3 else line)

    monkeypatch.setattr(block_processes, "read_event", garbled)
    _, records = await mock_run.run(tmp_path / "run")
    (reason,) = {record.reason for record in records if record.status is TrialStatus.LOST}
    assert "it printed rubbish: this is no event" in str(reason)
    assert await mock_run.left_over() == []


def test_one_whose_controller_is_killed_puts_right_what_it_made(tmp_path: Path) -> None:
    script = f"""
import asyncio, os, signal
from pathlib import Path
from nearmetal.run.events import TrialStarted
from tests.order import mock_run

def kill(event):
    if isinstance(event, TrialStarted):
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(mock_run.run(Path({str(tmp_path / "run")!r}), listener=kill))
"""
    ended = subprocess.run([sys.executable, "-c", script], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    _, records = asyncio.run(mock_run.resume(tmp_path / "run"))  # it waits until that is done
    assert not processes("nm-block")
    assert len({record.trial.id for record in records}) == len(records) == 4
    assert asyncio.run(mock_run.left_over()) == []


ALONE = """
import asyncio, sys
from pathlib import Path
from nearmetal.run import block_main

async def run_task(task, sink):
    print("begins", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("clears", flush=True)
        await asyncio.sleep(float(sys.argv[1]))
        Path(sys.argv[2]).touch()

block_main.run_task = run_task
block_main.LONGEST_ALONE = 3.0
sys.stdout = sys.stderr  # as in a process that was forked
sys.exit(block_main.run_block_process(sys.stdin.buffer, 1))
"""
TASK = b'{"plan": "", "resolved": [], "mtu": 1500, "artifacts": "", "block": {"index": 0, "attempt": 0, "boots": []}}'


@pytest.mark.parametrize(("takes", "is_cleared"), [("1", True), ("600", False)])
def test_what_is_told_to_end_and_then_left_alone_clears_once_and_not_for_ever(
    takes: str, is_cleared: bool, tmp_path: Path
) -> None:
    """Ctrl-C, and once more. Whoever reads what the run prints does not wait for that."""
    cleared = tmp_path / "cleared"
    command = [sys.executable, "-c", ALONE, takes, str(cleared)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(TASK + b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"begins\n"
        child.send_signal(signal.SIGTERM)
        assert child.stdout.readline() == b"clears\n"
        child.stdin.close()
        assert child.stdout.read() == b"" and not cleared.exists() and child.poll() is None
        assert child.wait(timeout=30) == 4
    assert cleared.exists() is is_cleared


async def test_the_command_runs_a_task_from_its_standard_input(tmp_path: Path) -> None:
    """As a worker on another host does."""
    await mock_run.run(tmp_path / "run")
    plan = RunFolder(tmp_path / "run").read_manifest().plan
    task = plan_task(plan, 1, artifacts=tmp_path / "there")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "nearmetal", "block"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(task.model_dump_json().encode() + b"\n")
    said = [read_event(line) async for line in process.stdout]
    assert await process.wait() == 0
    ended = [event.record.status for event in said if isinstance(event, TrialEnded)]
    assert ended == [TrialStatus.OK] * 2
    assert any(isinstance(event, Step) for event in said)
    assert not list(ledgers_folder().glob("*.jsonl"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (b"", "it is not JSON"),
        (b"rubbish", "it is not JSON (line 1, column 1)"),
        (b"[" * 10**5, "it is not JSON"),
        (b"[]", "it is no JSON object"),
        (b"{}", "`plan` is missing"),
        (b'{"schema": "block-task.v9"}', "`schema` cannot be 'block-task.v9'"),
        (
            b'{"plan": "", "resolved": [], "mtu": 1500, "artifacts": "", "block": {"index": 0, "attempt": 0, '
            b'"boots": [{"treatment": {"environment": "a"}, "trials": []}]}}',
            "`block` has a treatment that is not among `resolved`",
        ),
    ],
)
def test_what_is_no_task(given: bytes, told: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_task(given + b"\n")
    assert f"this is no task: {told}" in str(refused.value)


def test_the_command_refuses_what_is_no_task() -> None:
    ended = fork_server.run("block", given=b"{}\n", patience=60)
    assert ended.returncode == 2
    assert b"this is no task: `plan` is missing" in ended.stderr and b"Traceback" not in ended.stderr


def test_the_command_ends_when_nobody_gives_it_a_task() -> None:
    """Its controller was killed between two lines of its own."""
    ended = fork_server.run("block", given=b"", patience=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (4, b"", b"")


def test_the_command_refuses_a_file(tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text("{}\n")
    with (tmp_path / "task.json").open() as file:
        ended = run_command(stdin=file)
    assert ended.returncode == 2 and b"a task comes by a pipe" in ended.stderr


def run_command(**given: Any) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "nearmetal", "block"]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, **given)


async def test_a_task_is_json_and_nothing_else(tmp_path: Path) -> None:
    await mock_run.run(tmp_path / "run")
    task = plan_task(RunFolder(tmp_path / "run").read_manifest().plan, 0, artifacts=tmp_path)
    again = BlockTask.from_json(json.loads(task.model_dump_json()))
    assert again == task


@pytest.mark.parametrize(
    "line",
    [b"", b"{}", b"[]", b'["NoSuchEvent",{}]', b'["BlockEnded",{}]', b'["BlockEnded",[1]]', b"\xff", b"[" * 10**5],
)
def test_lines_that_are_none(line: bytes) -> None:
    with pytest.raises(ValueError):
        read_event(line + b"\n")


def test_an_error_comes_back_as_it_was_raised() -> None:
    failed = BlockFailed.from_error(OSError(28, "No space left on device", "/var/x"))
    error = read_event(write_event(failed))
    assert isinstance(error, BlockFailed)
    raised = error.make_error()
    assert isinstance(raised, OSError) and (raised.errno, raised.filename) == (28, "/var/x")
