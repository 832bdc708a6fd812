"""A block: every treatment x workload once. The unit of statistics, and of distribution."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nearmetal.lab.lab import Lab
from nearmetal.model import Assignment, BlockPlan, Study
from nearmetal.run.boot import heed_cancellation, run_boot
from nearmetal.run.booted import BootTask
from nearmetal.run.events import BlockStarted, Stream

MadeOf = Callable[[Assignment], str | None]
"""What a treatment's earlier boots were made of, where there were any that told."""


@dataclass(frozen=True)
class BlockTask:
    """All that is needed to run a block, here or elsewhere."""

    study: Study
    block: BlockPlan
    done: frozenset[str]
    """Trials of this attempt that have a record already: never run again."""
    artifacts: Path
    made_of: MadeOf


async def run_block(task: BlockTask, lab: Lab, stream: Stream) -> None:
    """Run what is left of a block's attempt. Everything that comes of it is an event."""
    left = sum(trial.id not in task.done for trial in task.block.trials)
    stream.emit(BlockStarted(block=task.block.index, attempt=task.block.attempt, trials=left))
    for boot in task.block.boots:
        heed_cancellation()
        trials = tuple(trial for trial in boot.trials if trial.id not in task.done)
        if trials:
            await run_boot(
                BootTask(
                    study=task.study,
                    block=task.block.index,
                    attempt=task.block.attempt,
                    boot=boot,
                    trials=trials,
                    artifacts=task.artifacts,
                    made_of=task.made_of(boot.treatment),
                    resumed=bool(task.done),
                ),
                lab,
                stream,
            )
