"""A block's own process: a task comes in as one line of JSON, events go out as lines; its lab is cleared at its end.

It ends early, after clearing, when it is told to (SIGTERM) or when whoever gave it the task is gone: then its standard
input ends. `nearmetal block` runs one for whoever is on another host; a run on this one forks it (`fork_server.py`).
"""

import asyncio
import contextlib
import json
import os
import signal
import stat
import sys
import traceback
from contextlib import aclosing
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, ExitCode, NearmetalError
from nearmetal.lab import concurrent_runs
from nearmetal.lab.changes.ledger import held_anew
from nearmetal.lab.lab import Lab
from nearmetal.lab.networks import network
from nearmetal.lab.site_registry import Sites
from nearmetal.run import pause_detection
from nearmetal.run.block import BlockTask, run_block
from nearmetal.run.block_events import BlockFailed, BlockFinished, Heartbeat, ProgressMessage, write_event
from nearmetal.run.events import BlockSink, emit_left
from nearmetal.store import damage
from nearmetal.store.events import Event
from nearmetal.system import pipes

HEARTBEAT_SECONDS = 5.0
"""Seconds between two signs of life."""

LONGEST_ALONE = LIMITS.boot
"""Seconds that clearing may take once the controller is gone: so long it is waited for, too (`lab.process_locks`)."""


class PipeSink:
    """Writes each event to a pipe as soon as it happens; to a file so that durable ones outlast a power cut."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._is_file = stat.S_ISREG(os.fstat(pipe).st_mode)

    def emit(self, event: Event) -> None:
        """BrokenPipeError when nobody reads any more."""
        line = write_event(event)
        while line:
            line = line[os.write(self._pipe, line) :]
        if self._is_file and event.durable:
            os.fsync(self._pipe)


def run_block_process(tasks: IO[bytes], events: int) -> int:
    """Run the task in the first line of `tasks`, with its events going to the descriptor `events`. The exit code.

    BadInput when that is no task. A line without an end is none, and nobody is there any more who would hear so.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text("nm-block")
    line = tasks.readline()
    if not line.endswith(b"\n"):
        return ExitCode.INTERRUPTED
    task = read_task(line)
    sink = PipeSink(events)
    try:
        return asyncio.run(_run_until_told(task, sink, tasks))
    except BrokenPipeError:  # whoever wanted to know is gone, and all is cleared
        return ExitCode.INTERRUPTED


def read_task(line: bytes) -> BlockTask:
    """BadInput."""
    try:
        return BlockTask.model_validate_json(line)
    except ValidationError as error:
        what = _describe_fault(line, error)
    raise BadInput(f"this is no task: {what}", "standard input", "`nearmetal run` makes tasks, and runs studies")


def _describe_fault(line: bytes, error: ValidationError) -> str:
    try:
        return damage.not_as_declared(error, json.loads(line))
    except (ValueError, RecursionError) as unreadable:
        return damage.not_json(unreadable)


async def _run_until_told(task: BlockTask, sink: PipeSink, tasks: IO[bytes]) -> int:
    work = asyncio.create_task(run_task(task, sink))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, _cancel_once, work)
    loop.add_reader(tasks, _end_without_controller, tasks, work)
    beating = asyncio.ensure_future(_emit_heartbeats(sink))
    try:
        await work
    except asyncio.CancelledError:
        return ExitCode.INTERRUPTED
    except (NearmetalError, OSError) as error:
        sink.emit(BlockFailed.from_error(error))
        return ExitCode.OWN_FAILURE
    except Exception:
        traceback.print_exc()
        sink.emit(BlockFailed(kind="defect", what=traceback.format_exc(limit=-3)))
        return ExitCode.OWN_FAILURE
    finally:
        beating.cancel()
    sink.emit(BlockFinished(modules=sorted(sys.modules)))
    return ExitCode.DONE


def _end_without_controller(tasks: IO[bytes], work: "asyncio.Task[None]") -> None:
    """Nothing more is said on that pipe: when it can be read, it has ended. If clearing hangs, nobody is left to end
    this process: then it ends by itself, and its ledger has what remains."""
    loop = asyncio.get_running_loop()
    loop.remove_reader(tasks)
    loop.call_later(LONGEST_ALONE, os._exit, ExitCode.INTERRUPTED)
    for stream in filter(None, (sys.__stdout__, sys.__stderr__)):  # whoever reads what the run prints waits for its end
        pipes.fall_silent(stream)
    _cancel_once(work)


def _cancel_once(work: "asyncio.Task[None]") -> None:
    """Once: a second time it would be clearing that is cut off."""
    if not work.cancelling():
        work.cancel()


async def _emit_heartbeats(sink: PipeSink) -> None:
    while True:
        pause_detection.note_alive(HEARTBEAT_SECONDS)
        await asyncio.sleep(HEARTBEAT_SECONDS)
        with contextlib.suppress(BrokenPipeError):
            sink.emit(Heartbeat())


async def run_task(task: BlockTask, sink: BlockSink) -> None:
    """Run a block on a lab of its own, of which nothing remains but what is told."""
    async with aclosing(Sites(task.hosts, lambda text: sink.emit(ProgressMessage(text=text)))) as open_site:
        with held_anew() as (token, ledger):
            lab = Lab(token, ledger, open_site, task.mtu or network.MTU)
            try:
                await run_block(task, lab, sink)
            finally:
                emit_left(sink, (await lab.clear()).left, lab.left_told)


def main() -> int:
    """`nearmetal block`. What plugins print goes to standard error: the events have standard output to themselves.

    BadInput, OSError.
    """
    if stat.S_ISREG(os.fstat(0).st_mode):
        raise BadInput(
            "a task comes by a pipe, whose end ends the block: this is a file",
            "standard input",
            "`cat FILE - | nearmetal block`",
        )
    concurrent_runs.act_for(os.getppid())  # a worker that holds this host's lock for the block disturbs nothing
    events = os.dup(1)
    os.dup2(2, 1)
    return run_block_process(sys.stdin.buffer, events)
