"""Runs a plan, or what is left of it: block after block, each repeated while it is not whole."""

from collections.abc import Callable, Mapping

from nearmetal import plan as planning
from nearmetal.lab.lab import Lab
from nearmetal.model import Assignment, BlockPlan, Plan, Role, TrialRecord
from nearmetal.run.block import BlockTask, MadeOf, run_block
from nearmetal.run.events import (
    BlockEnded,
    Event,
    FactsSeen,
    LookTaken,
    NothingToCompare,
    RunEnded,
    RunResumed,
    RunStarted,
    Stream,
    TrialEnded,
    Withdrawn,
)
from nearmetal.run.looks import last_look, look_after
from nearmetal.run.progress import MOST_ATTEMPTS, Progress
from nearmetal.store.folder import MachineFacts, Manifest, RunFolder
from nearmetal.store.journal import Journal, events, records


async def run(
    folder: RunFolder,
    lab: Lab,
    listeners: tuple[Callable[[Event], None], ...] = (),
    changed: Mapping[str, tuple[str, str]] | None = None,
) -> Progress:
    """Run the plan in a folder's manifest from where its journal ends. What the lab made is removed at the end.

    `changed` is what it is made with that is another version than when it began, as RunResumed tells it.
    """
    manifest = folder.manifest()
    before = list(records(folder.journal))
    seen = list(before)
    # What a look found stands: treatments withdrawn after it were still open then.
    stops = {
        event["blocks"]: event.get("stops", True)
        for event in events(folder.journal)
        if event["event"] in ("LookTaken", "NothingToCompare")
    }
    progress = Progress.of(before)
    journal = Journal(folder.journal)
    keeper = _FactsKeeper(folder)

    def follow(event: Event) -> None:
        if isinstance(event, TrialEnded):
            seen.append(event.record)
            if (treatment := progress.add(event.record)) is not None:
                record = event.record
                reason = f"{record.trial.workload}: {record.reason or record.status}"
                stream.emit(Withdrawn(treatment=treatment, reason=reason))

    # Last, so that all hear first of a trial, and then that it was its treatment's last.
    stream = Stream(journal, (keeper.see, *listeners, follow))
    interrupted = True
    try:
        stream.emit(_beginning(folder, manifest.plan, before, changed or {}))
        for planned in manifest.plan.blocks:
            await _run_block_until_whole(folder, planned, progress, lab, stream, keeper.made_of)
            ran = planned.index + 1
            if ran not in stops and (found := _found_after(ran, manifest, seen, progress)):
                stops[ran] = found.stops if isinstance(found, LookTaken) else True
                stream.emit(found)
            if stops.get(ran):
                break
        interrupted = False
    finally:
        stream.left_behind((await lab.clear()).left)
        stream.emit(RunEnded(interrupted=interrupted))
        journal.close()
    return progress


def _found_after(
    ran: int, manifest: Manifest, seen: list[TrialRecord], progress: Progress
) -> LookTaken | NothingToCompare | None:
    """What there is to tell after so many blocks: what a look has found, or that there is nothing to go on for."""
    look = look_after(ran, manifest, seen, progress.withdrawn)
    # Of blocks that ran before an interruption, what was withdrawn since is known already.
    if look or ran <= max((record.trial.block for record in seen), default=0):
        return look
    if manifest.plan.looks:
        return last_look(ran, manifest, seen, progress.withdrawn)
    is_last = ran == len(manifest.plan.blocks)
    return None if is_last or not progress.leaves_nothing_to_compare(manifest.plan) else NothingToCompare(blocks=ran)


def _beginning(
    folder: RunFolder, plan: Plan, before: list[TrialRecord], changed: Mapping[str, tuple[str, str]]
) -> Event:
    if before:
        return RunResumed(finished=len(before), changed=changed)
    return RunStarted(run=folder.path.name, blocks=len(plan.blocks), trials=plan.trials)


async def _run_block_until_whole(
    folder: RunFolder, planned: BlockPlan, progress: Progress, lab: Lab, stream: Stream, made_of: MadeOf
) -> None:
    manifest = folder.manifest()
    for attempt in range(MOST_ATTEMPTS):
        block = _attempt(attempt, manifest, planned, progress)
        if not progress.has_ended(block):
            done = progress.done(block.index, attempt)
            await run_block(BlockTask(manifest.study, block, done, folder.artifacts, made_of), lab, stream)
            stream.emit(BlockEnded(block=block.index, attempt=attempt, whole=progress.is_whole(block)))
        if progress.is_whole(block):
            return


def is_measured(manifest: Manifest, planned: BlockPlan, progress: Progress) -> bool:
    """Whether there is nothing left of a block: no attempt of it, one after the other, is still to be run."""
    for attempt in range(MOST_ATTEMPTS):
        block = _attempt(attempt, manifest, planned, progress)
        if not progress.has_ended(block):
            return False
        if progress.is_whole(block):
            break
    return True


def _attempt(attempt: int, manifest: Manifest, planned: BlockPlan, progress: Progress) -> BlockPlan:
    """A block as it is run then, without what is withdrawn."""
    treatments = [t for t in manifest.plan.treatments if dict(t) not in progress.withdrawn]
    if not attempt and len(treatments) == len(manifest.plan.treatments):
        return planned
    return planning.block(manifest.study, treatments, manifest.plan.study, planned.index, attempt)


class _FactsKeeper:
    """Adds to the manifest what each treatment's machines turned out to be, in their first boot."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._kept = list(folder.manifest().fairness)

    def see(self, event: Event) -> None:
        if not isinstance(event, FactsSeen) or self._of(event.treatment, event.role) is not None:
            return
        self._kept.append(MachineFacts(treatment=event.treatment, role=event.role, facts=event.facts))
        manifest = self._folder.manifest()
        self._folder.write_manifest(manifest.model_copy(update={"fairness": tuple(self._kept)}))

    def made_of(self, treatment: Assignment) -> str | None:
        """What its servers are made of, as its first boot told."""
        kept = self._of(treatment, "server")
        return kept.facts.get("image") if kept else None

    def _of(self, treatment: Assignment, role: Role) -> MachineFacts | None:
        return next((one for one in self._kept if (one.treatment, one.role) == (treatment, role)), None)
