"""Runs each block in a process of its own, and hears what happens there."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

from nearmetal.config import LIMITS
from nearmetal.errors import ToolFailed
from nearmetal.lab import clean
from nearmetal.lab.leftovers import Leftover
from nearmetal.model import Cause, TrialRecord, TrialStatus, identify_assignment
from nearmetal.progress_messages import Say
from nearmetal.run.blame import Fault, describe_fault
from nearmetal.run.block import BlockTask
from nearmetal.run.block_events import BlockFailed, BlockFinished, Heartbeat, ProgressMessage, read_event
from nearmetal.run.block_main import HEARTBEAT_SECONDS
from nearmetal.run.boot import address_trial
from nearmetal.run.events import BlockSink, TrialEnded
from nearmetal.store.run_control import read_wish
from nearmetal.system.held_secrets import pass_secrets

SILENT = 12 * HEARTBEAT_SECONDS
"""Seconds without a sign of life after which a block's process hangs: its loop is held up by something."""
_LONGEST_LINE = 64 * 2**20


class BlockProcesses:
    """A `BlockRunner`: a process for each block, forked from one that has imported all that they need."""

    def __init__(self, say: Say, *kept: int) -> None:
        """`kept` are descriptors that stay open as long as any of these processes lives, such as that of a lock."""
        self._say = say
        self._kept = kept
        self._fork_server: asyncio.subprocess.Process | None = None
        self._order: socket.socket | None = None
        self._preload: list[str] = []

    async def run(self, task: BlockTask, sink: BlockSink) -> None:
        """Run what is left of a block's attempt. Trials of a process that dies, hangs or prints rubbish are lost.

        The error that ended the block there, as of a disk that is full, is raised here.
        """
        heard = _BlockListener(task, sink, self._say)
        process = await self._fork_block(task, heard)
        why = None
        try:
            why = await heard.read_lines()
        except BaseException as error:
            # Told to end, or the disk of the journal is full: first it is to put right what it made.
            _send_signal(process.pid, signal.SIGTERM)
            heard.is_ending = True
            if not isinstance(error, asyncio.CancelledError):
                heard.is_muted = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(heard.read_lines(), LIMITS.boot)
            raise
        finally:
            if heard.is_open:  # it hangs, or says what nobody understands
                _send_signal(process.pid, signal.SIGKILL)
            status = await process.wait(self._order)
            if status is None:
                await self._forget_fork_server()
            heard.close()
        self._preload = heard.modules or self._preload
        if heard.failed is not None:
            raise heard.failed.make_error()
        if why is None and not heard.is_finished:
            why = f"it was killed by signal {-status}" if status is not None and status < 0 else "it ended early"
        if why is not None:
            await clean.clean(self._say)  # what it had made, and not removed
            heard.record_lost(f"the process that ran its block is gone: {why}")

    async def close(self) -> Iterable[Leftover]:
        """Nothing remains of a block but what was told."""
        await self._forget_fork_server()
        return ()

    async def _fork_block(self, task: BlockTask, heard: "_BlockListener") -> "_ForkedBlock":
        for _ in range(2):
            order = await self._ensure_started()
            tasks, to_tasks = os.pipe2(os.O_CLOEXEC)
            from_events, events = os.pipe2(os.O_CLOEXEC)
            request = json.dumps({"controller": os.getpid(), "preload": self._preload}).encode()
            try:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    socket.send_fds(order, [request], [tasks, events])
            finally:
                os.close(tasks)
                os.close(events)
            await heard.open(to_tasks, from_events)
            answer = await _ForkedBlock.receive_answer(order, "forked")
            if answer is not None:
                await heard.give_task(task)
                return _ForkedBlock(int(answer["forked"]))
            # It was killed, between two blocks or just now. A process that it forked meanwhile is given no task.
            heard.close()
            await self._forget_fork_server()
        raise ToolFailed("the process that forks blocks ended by itself, and so did the next one")

    async def _forget_fork_server(self) -> None:
        """It is gone: the next block starts another."""
        if self._order is not None:
            self._order.close()
        if self._fork_server is not None:
            try:
                async with asyncio.timeout(LIMITS.stop):
                    await self._fork_server.wait()
            except TimeoutError:  # stopped by somebody: it has nothing of its own to put right
                self._fork_server.kill()
                await self._fork_server.wait()
        self._fork_server = self._order = None

    async def _ensure_started(self) -> socket.socket:
        if self._order is None:
            self._order, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._order.setblocking(False)
            with theirs:
                self._fork_server = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "nearmetal.run.fork_server",
                    stdin=theirs.fileno(),
                    pass_fds=self._kept,
                    env=pass_secrets(),
                    start_new_session=True,
                )
        return self._order


class _ForkedBlock:
    def __init__(self, pid: int) -> None:
        self.pid = pid

    async def wait(self, order: socket.socket | None) -> int | None:
        """Its exit status, negative for a signal; None where whoever forked it is gone, or stopped, and cannot tell."""
        while order is not None and (answer := await self.receive_answer(order, "ended")) is not None:
            if answer["ended"] == self.pid:  # another is a block's that was given up
                return int(answer["status"])
        return None

    @staticmethod
    async def receive_answer(order: socket.socket, what: str) -> dict[str, int] | None:
        """The next such answer; None when there comes none, or none in time."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):  # a TimeoutError is one
            async with asyncio.timeout(LIMITS.command):
                while content := await loop.sock_recv(order, 4096):
                    answer: dict[str, int] = json.loads(content)
                    if what in answer:
                        return answer
        return None


def _send_signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class _BlockListener:
    """What a block's process says, passed on to the sink; and the trials that it has not told of."""

    def __init__(self, task: BlockTask, sink: BlockSink, say: Say) -> None:
        self._task = task
        self._sink = sink
        self._say = say
        self._ended: set[str] = set()
        self._reader: asyncio.StreamReader | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self._writer: asyncio.WriteTransport | None = None
        self._reading: asyncio.Future[bytes] | None = None
        self.is_muted = False
        """Whether nothing is passed on any more."""
        self.is_ending = False
        """Whether the process was told to end."""
        self.is_open = False
        self.is_finished = False
        self.failed: BlockFailed | None = None
        self.modules: list[str] = []

    async def open(self, to_tasks: int, from_events: int) -> None:
        loop = asyncio.get_running_loop()
        self._reader = asyncio.StreamReader(limit=_LONGEST_LINE)
        protocol = asyncio.StreamReaderProtocol(self._reader)
        reading, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(from_events, "rb", buffering=0))
        writing, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(to_tasks, "wb", buffering=0))
        self._transports = [reading, writing]
        self._writer = writing
        self.is_open = True

    async def give_task(self, task: BlockTask) -> None:
        assert self._writer is not None
        self._writer.write(task.model_dump_json().encode() + b"\n")

    async def read_lines(self) -> str | None:
        """Until it has nothing more to say; why it cannot be listened to any more, if that is so."""
        assert self._reader is not None
        while True:
            # Not `wait_for`: before Python 3.12 it forgets that it was cancelled if a line comes at that moment, and
            # since then it drops a line that came while this process was stopped for longer than the limit.
            self._reading = self._reading or asyncio.ensure_future(self._reader.readline())
            ended, _ = await asyncio.wait({self._reading}, timeout=SILENT)
            if not ended:
                return f"it gave no sign of life for {SILENT:g} s"
            try:
                line, self._reading = self._reading.result(), None
            except ValueError:
                return "it printed a line without an end"
            if not line:
                self.is_open = False
                return None
            if not line.endswith(b"\n"):
                continue  # it died while it wrote that
            try:
                event = read_event(line)
            except ValueError as error:
                return f"it printed rubbish: {error}"
            if self.is_muted:
                continue
            if isinstance(event, ProgressMessage):
                self._say(event.text)
            elif isinstance(event, BlockFinished):
                self.is_finished, self.modules = True, event.modules
            elif isinstance(event, BlockFailed):
                self.failed = event
            elif isinstance(event, Heartbeat):
                self._heed_stop()
            else:
                if isinstance(event, TrialEnded):
                    self._ended.add(event.record.trial.id)
                self._sink.emit(event)

    def _heed_stop(self) -> None:
        """CancelledError if the run was asked to stop: what Ctrl-C does."""
        if not self.is_ending and self._task.request and read_wish(Path(self._task.request)) == "stop":
            self._say("asked by the dashboard to stop: what was made or changed is put right first")
            raise asyncio.CancelledError

    def record_lost(self, why: str) -> None:
        """A record for each trial that the process has not told of."""
        places = {identify_assignment(one.assignment): one for one in self._task.resolved}
        for boot in self._task.block.boots:
            resolved = places[identify_assignment(boot.treatment)]
            for trial in boot.trials:
                if trial.id not in self._task.done and trial.id not in self._ended:
                    record = TrialRecord(
                        trial=address_trial(self._task.block.index, self._task.block.attempt, boot.treatment, trial),
                        site=resolved.server.host,
                        boot=None,
                        status=TrialStatus.LOST,
                        **describe_fault(Fault(Cause.BLOCK_DIED, why)),
                    )
                    self._sink.emit(TrialEnded(record=record))

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        for transport in self._transports:
            transport.close()
