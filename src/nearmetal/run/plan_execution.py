"""Runs a plan, or what is left of it: block after block, repeated while others than the treatments are to blame."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nearmetal.model import Assignment, BlockPlan, HostSpec, Plan, TrialRecord
from nearmetal.run.block import BlockRunner, BlockTask
from nearmetal.run.events import EventStream, TrialEnded, emit_left
from nearmetal.run.progress import MOST_ATTEMPTS, Progress
from nearmetal.run.site_resources import choose_mtu
from nearmetal.store import events
from nearmetal.store.journal import Journal, read_events, read_records
from nearmetal.store.manifest import Manifest
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.blocks import plan_block
from nearmetal.study.levels import format_assignment


def take_look_after(
    blocks: int, manifest: Manifest, records: Sequence[TrialRecord], withdrawn: Sequence[Assignment]
) -> events.LookTaken | None:
    """The look that the plan has after so many blocks, if it has one there. It sees the first planned blocks alone."""
    number = next((number for number, look in enumerate(manifest.plan.looks, 1) if look.blocks == blocks), None)
    if number is None:
        return None
    decided, still_open = _count_decided(manifest, records, withdrawn, blocks)
    return events.LookTaken(look=number, blocks=blocks, decided=decided, undecided=still_open, stops=not still_open)


def take_last_look(
    ran: int, manifest: Manifest, records: Sequence[TrialRecord], withdrawn: Sequence[Assignment]
) -> events.LookTaken | None:
    """The look that comes next, taken at once: after so many blocks none is open but of treatments that are withdrawn.

    No block to come has anything for it to see, so that it finds what it would have found in its place. What is open is
    what the look before has left so: nothing that came since is looked at before that is known.
    """
    looks = manifest.plan.looks
    number = next((number for number, look in enumerate(looks, 1) if look.blocks > ran), None)
    if number is None or not withdrawn:
        return None
    before = looks[number - 2].blocks if number > 1 else 0
    _, still_open = _count_decided(manifest, records, withdrawn, before)
    if still_open:
        return None
    decided, _ = _count_decided(manifest, records, withdrawn, looks[number - 1].blocks)
    return events.LookTaken(look=number, blocks=ran, decided=decided, undecided=0, stops=True)


def _count_decided(
    manifest: Manifest, records: Sequence[TrialRecord], withdrawn: Sequence[Assignment], blocks: int
) -> tuple[int, int]:
    """By the look after so many blocks, how many primary contrasts are decided, and how many more blocks may decide."""
    # They load numpy, which no other run waits for.
    from nearmetal.analysis.contrasts import DECIDED, NEVER_DECIDED, primary_contrasts
    from nearmetal.analysis.responses import arms_of_study

    design = manifest.study.design
    arms = arms_of_study(records, design)
    primary = primary_contrasts(manifest.plan, arms, design.margin, blocks)
    gone = {format_assignment(treatment) for treatment in withdrawn}
    still_open = [
        contrast
        for contrast in primary
        if contrast.verdict not in DECIDED
        and contrast.reason not in NEVER_DECIDED
        and not contrast.is_futile
        and not gone & {format_assignment(contrast.treatment), format_assignment(contrast.reference)}
    ]
    return sum(contrast.verdict in DECIDED for contrast in primary), len(still_open)


async def run_plan(
    folder: RunFolder,
    blocks: BlockRunner,
    hosts: Mapping[str, HostSpec],
    listeners: tuple[Callable[[events.Event], None], ...] = (),
    changed: Mapping[str, tuple[str, str]] | None = None,
) -> Progress:
    """Run the plan in a folder's manifest from where its journal ends. What was made is removed at the end.

    `hosts` says how each host but this one is reached. `changed` is what the run is made with that is another version
    than when it began, as RunResumed tells it.
    """
    course = RunCourse(folder, listeners)
    manifest = course.manifest
    interrupted = True
    try:
        course.begin_run(changed or {})
        for index in range(manifest.plan.blocks):
            await _run_block_until_whole(folder, index, course.progress, blocks, hosts, course.stream, course.made_of)
            if course.look_after(index + 1):
                break
        interrupted = False
    finally:
        emit_left(course.stream, await blocks.close(), set())
        course.end_run(interrupted)
    return course.progress


class RunCourse:
    """A run from where its journal ends: how far it has come, and the stream that writes on."""

    def __init__(self, folder: RunFolder, listeners: tuple[Callable[[events.Event], None], ...]) -> None:
        self.manifest = folder.read_manifest()
        self.happened: Sequence[Mapping[str, Any]] = list(read_events(folder.journal))
        """Events of before."""
        self._name = folder.path.name
        self._before = list(read_records(folder.journal))
        self.records = list(self._before)
        """Of all trials that have one."""
        self._last_block = max((record.trial.block for record in self._before), default=0)
        """With a record."""
        # What a look found stands: treatments withdrawn after it were still open then.
        self._stops: dict[int, bool] = {
            event["blocks"]: event.get("stops", True)
            for event in self.happened
            if event["event"] in ("LookTaken", "NothingToCompare")
        }
        self.progress = Progress.from_lines(self._before)
        self.made_of: dict[int, str] = {}
        """What the servers of each treatment are made of, by its place in the plan, as its first boot told."""
        self._journal = Journal(folder.journal)
        # Last, so that all hear first of a trial, and then that it was its treatment's last.
        self.stream = EventStream(self._journal, (*listeners, self._follow_event))
        for one in self.manifest.with_facts(self.happened).fairness:
            known = events.FactsSeen(treatment=one.treatment, role=one.role, facts=one.facts)
            self._note_image(known)
            self.stream.note_event(known)

    def _follow_event(self, event: events.Event) -> None:
        if isinstance(event, events.FactsSeen):
            self._note_image(event)
        if isinstance(event, TrialEnded):
            self.records.append(event.record)
            self._last_block = max(self._last_block, event.record.trial.block)
            if (treatment := self.progress.add(event.record)) is not None:
                record = event.record
                reason = f"{record.trial.workload}: {record.reason or record.status}"
                self.stream.emit(events.Withdrawn(treatment=treatment, reason=reason))

    def _note_image(self, event: events.FactsSeen) -> None:
        image = event.facts.get("image")
        if event.role == "server" and image is not None:
            self.made_of.setdefault(self.manifest.plan.place_of(event.treatment), str(image))

    def begin_run(self, changed: Mapping[str, tuple[str, str]]) -> None:
        if self._before:
            self.stream.emit(events.RunResumed(finished=len(self._before), changed=changed))
        else:
            plan = self.manifest.plan
            self.stream.emit(events.RunStarted(run=self._name, blocks=plan.blocks, trials=plan.trials))

    def look_after(self, ran: int) -> bool:
        """Look if it is time, when the first so many blocks have ended; whether the run ends there."""
        if ran not in self._stops and (found := self._find_after(ran)):
            self._stops[ran] = found.stops if isinstance(found, events.LookTaken) else True
            self.stream.emit(found)
        return self._stops.get(ran, False)

    def _find_after(self, ran: int) -> events.LookTaken | events.NothingToCompare | None:
        """What there is to tell after so many blocks: what a look has found, or that there is nothing to go on for."""
        plan, seen, withdrawn = self.manifest.plan, self.records, self.progress.withdrawn
        look = take_look_after(ran, self.manifest, seen, withdrawn)
        # Of blocks that ran before an interruption, what was withdrawn since is known already.
        if look or ran <= self._last_block:
            return look
        if plan.looks:
            return take_last_look(ran, self.manifest, seen, withdrawn)
        is_last = ran == plan.blocks
        return (
            None
            if is_last or not self.progress.leaves_nothing_to_compare(plan)
            else events.NothingToCompare(blocks=ran)
        )

    def end_run(self, interrupted: bool) -> None:
        self.stream.emit(events.RunEnded(interrupted=interrupted))
        self._journal.close()


async def _run_block_until_whole(
    folder: RunFolder,
    index: int,
    progress: Progress,
    blocks: BlockRunner,
    hosts: Mapping[str, HostSpec],
    stream: EventStream,
    made_of: Mapping[int, str],
) -> None:
    manifest = folder.read_manifest()
    plan = manifest.plan
    for attempt in range(MOST_ATTEMPTS):
        block = _plan_attempt(attempt, plan, index, progress)
        if not progress.has_ended(block):
            task = plan_task(
                plan,
                index,
                attempt,
                progress=progress,
                made_of=made_of,
                images=manifest.images,
                hosts=hosts,
                artifacts=folder.artifacts.absolute(),
                files=folder.files.absolute(),
                request=str(folder.request.absolute()),
            )
            await blocks.run(task, stream)
            stream.emit(events.BlockEnded(block=index, attempt=attempt, whole=progress.is_whole(block)))
        if progress.is_settled(block):
            return


def plan_task(
    plan: Plan,
    index: int,
    attempt: int = 0,
    *,
    artifacts: Path,
    files: Path = Path(),
    progress: Progress | None = None,
    made_of: Mapping[int, str] = MappingProxyType({}),
    images: Mapping[str, str] = MappingProxyType({}),
    hosts: Mapping[str, HostSpec] = MappingProxyType({}),
    request: str = "",
) -> BlockTask:
    """What the process of a block's attempt is given: as far as it has come, without what is withdrawn."""
    so_far = progress or Progress()
    block = _plan_attempt(attempt, plan, index, so_far)
    places = list(dict.fromkeys(plan.place_of(boot.treatment) for boot in block.boots))
    return BlockTask(
        plan=plan.study,
        resolved=tuple(plan.resolved[place] for place in places),
        block=block,
        done=so_far.list_done(index, attempt),
        made_of={number: made_of[place] for number, place in enumerate(places) if place in made_of},
        images=images,
        kernel_table=plan.kernel_table,
        hosts=hosts,
        mtu=choose_mtu(plan.resolved),
        artifacts=str(artifacts),
        files=str(files),
        request=request,
    )


def is_measured(plan: Plan, index: int, progress: Progress) -> bool:
    """Whether there is nothing left of a block: no attempt of it, one after the other, is still to be run."""
    ended: list[BlockPlan] = []
    while progress.has_ended(block := _plan_attempt(len(ended), plan, index, progress)):
        ended.append(block)
        if progress.is_done_with(ended):
            return True
    return False


def _plan_attempt(attempt: int, plan: Plan, index: int, progress: Progress) -> BlockPlan:
    """A block as it is run then, without what is withdrawn."""
    return plan_block(plan, index, attempt, [t for t in plan.treatments if dict(t) not in progress.withdrawn])
