"""A block: every treatment x workload once. The unit of statistics, and of distribution."""

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, Protocol

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from nearmetal.errors import NearmetalError
from nearmetal.lab import host_lock
from nearmetal.lab.image.pinned_images import pinned
from nearmetal.lab.lab import Lab
from nearmetal.lab.leftovers import Leftover
from nearmetal.lab.networks import network
from nearmetal.model import BlockPlan, Document, HostSpec, KernelTable, Resolved, TrialPlan, identify_assignment
from nearmetal.run import site_resources
from nearmetal.run.boot import raise_if_cancelled, run_boot
from nearmetal.run.boot_state import BootTask
from nearmetal.run.dashboard_link import wait_while_paused
from nearmetal.run.events import BlockSink
from nearmetal.store import damage
from nearmetal.store.events import BlockStarted


class BlockTask(Document):
    """All that is needed to run a block, here or elsewhere: data, as JSON."""

    schema_: Annotated[Literal["block-task.v1"], Field(alias="schema")] = "block-task.v1"
    plan: str
    """The digest of the plan's study: trial seeds come from it."""
    resolved: tuple[Resolved, ...]
    """What the treatments of this block ask for."""
    block: BlockPlan
    done: frozenset[str] = frozenset()
    """Trials of this attempt that have a record already: never run again."""
    made_of: Mapping[int, str] = {}
    """What a treatment's earlier boots were made of, by its place in `resolved`, where one told."""
    images: Mapping[str, str] = {}
    """The digests of the images of ours that the run began with, by name."""
    kernel_table: KernelTable | None = None
    """What kernels are aligned to; None if the study does not align them."""
    hosts: Mapping[str, HostSpec] = {}
    """How each host but this one is reached."""
    mtu: int | None
    """Of all machines; None if the interfaces of their hosts decide."""
    artifacts: str
    """The folder for the files of its trials."""
    files: str = ""
    """The folder of the files that the study carries into machines, each called by its SHA-256."""
    request: str = ""
    """The file by which the run is asked to pause; "" if nobody can ask."""

    @field_validator("block")
    @classmethod
    def _check_treatments(cls, block: BlockPlan, info: ValidationInfo) -> BlockPlan:
        resolved = {identify_assignment(one.assignment) for one in info.data.get("resolved", ())}
        if any(identify_assignment(boot.treatment) not in resolved for boot in block.boots):
            raise PydanticCustomError(damage.UNLIKE, "has a treatment that is not among `resolved`")
        return block


class BlockRunner(Protocol):
    async def run(self, task: BlockTask, sink: BlockSink) -> None:
        """Run what is left of a block's attempt. Everything that comes of it is an event."""
        ...

    async def close(self) -> Iterable[Leftover]:
        """Remove what blocks have in common; what could not be."""
        ...


async def run_block(task: BlockTask, lab: Lab, sink: BlockSink) -> None:
    """Run what is left of a block's attempt on this lab. Everything that comes of it is an event."""
    places = {identify_assignment(one.assignment): place for place, one in enumerate(task.resolved)}
    is_broken = bool(task.done)
    left = sum(trial.id not in task.done for trial in task.block.trials)
    sink.emit(BlockStarted(block=task.block.index, attempt=task.block.attempt, trials=left))
    with pinned(task.images):
        await host_lock.hold_all(site_resources.list_hosts(task.resolved) & task.hosts.keys(), lab.site)
        if task.mtu is None:
            lab.mtu = await _find_mtu(task, lab)
        for boot in task.block.boots:
            raise_if_cancelled()
            is_broken |= await wait_while_paused(task.request, sink)
            trials: tuple[TrialPlan, ...] = tuple(trial for trial in boot.trials if trial.id not in task.done)
            place = places[identify_assignment(boot.treatment)]
            if trials:
                boot_task = BootTask(
                    plan=task.plan,
                    resolved=task.resolved[place],
                    block=task.block.index,
                    attempt=task.block.attempt,
                    boot=boot,
                    trials=trials,
                    artifacts=Path(task.artifacts),
                    kernel_table=task.kernel_table,
                    files=Path(task.files),
                    made_of=task.made_of.get(place),
                    resumed=is_broken,
                    request=task.request,
                )
                is_broken |= await run_boot(boot_task, lab, sink)


async def _find_mtu(task: BlockTask, lab: Lab) -> int:
    """What the hosts' own interfaces carry. What cannot be asked is told by the boot that needs it."""
    found = []
    for center, hosts in site_resources.list_direct(task.resolved):
        with contextlib.suppress(NearmetalError):
            found.append(await lab.find_mtu(await lab.site(center), [await lab.site(name) for name in hosts]))
    return min(found, default=network.MTU)
