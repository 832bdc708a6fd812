"""Blocks that run in the test's own process, so that a test can put something of its own in the place of a plugin's."""

from collections.abc import Iterable

from nearmetal.lab.leftovers import Leftover
from nearmetal.progress_messages import Say
from nearmetal.run.block import BlockTask
from nearmetal.run.block_events import ProgressMessage
from nearmetal.run.block_main import run_task
from nearmetal.run.events import BlockSink
from nearmetal.store.events import Event


class InProcess:
    """A `BlockRunner`."""

    def __init__(self, say: Say, *kept: int) -> None:
        self._say = say

    async def run(self, task: BlockTask, sink: BlockSink) -> None:
        # As it crosses to another process.
        await run_task(BlockTask.model_validate_json(task.model_dump_json()), _Sink(sink, self._say))

    async def close(self) -> Iterable[Leftover]:
        return ()


class _Sink:
    def __init__(self, sink: BlockSink, say: Say) -> None:
        self._sink = sink
        self._say = say

    def emit(self, event: Event) -> None:
        if isinstance(event, ProgressMessage):
            self._say(event.text)
        else:
            self._sink.emit(event)
