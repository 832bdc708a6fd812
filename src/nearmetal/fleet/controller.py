"""Runs a plan, or what is left of it, on a fleet. The journal is written in the order of the plan, as of a run here.

What a site measured is brought home when its block has ended, and waits in the run's folder until all blocks before it
stand in the journal. So looks, withdrawals and the analysis are those of a run on one host, whoever was faster.
"""

import asyncio
import contextlib
import secrets
import time
from bisect import insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, HostCannot, NearmetalError
from nearmetal.fleet import site as on_site
from nearmetal.fleet.assignment import assign_site
from nearmetal.fleet.block_pieces import Piece, fetch_piece, list_pieces, write_piece
from nearmetal.fleet.cluster import Fleet, SiteLost
from nearmetal.fleet.messages import BlockOrder, Spool
from nearmetal.model import BlockPlan, Cause, HostSpec, Level, Plan, Resolved, TrialRecord, TrialStatus
from nearmetal.progress_messages import Say
from nearmetal.run.blame import Fault, describe_fault
from nearmetal.run.block_events import BlockFailed, BlockFinished, ProgressMessage
from nearmetal.run.boot import address_trial
from nearmetal.run.events import TrialEnded
from nearmetal.run.plan_execution import RunCourse, is_measured, plan_task
from nearmetal.run.progress import Progress
from nearmetal.run.site_resources import is_pretended
from nearmetal.store.events import BlockDispatched, BlockEnded, Event, SitesJoined
from nearmetal.store.run_folder import AHEAD, RunFolder
from nearmetal.study.blocks import plan_block

LOOK = 1.0
"""Seconds between two looks at which sites are there."""
COMMITS = 10
"""Blocks that are written down before sites that are free get others: many wait for one that is late."""


class _Block:
    """One block's attempts, as far as they are at home."""

    def __init__(self, plan: Plan, index: int, withdrawn: Sequence[Mapping[str, Level]]) -> None:
        self.index = index
        self.progress = Progress()
        self.pieces: deque[Piece] = deque()
        """That are not in the journal yet."""
        self.site: str | None = None
        """Of its attempt, if that has begun: no attempt spans sites."""
        self.dispatch: int | None = None
        """That was begun in this session, and is not at home."""
        self.is_over = False
        self._plan = partial(plan_block, plan, index)
        self._treatments = [one for one in plan.treatments if dict(one) not in withdrawn]
        self.attempts: list[BlockPlan] = []
        self.advance_attempt()

    @property
    def attempt(self) -> int:
        return len(self.attempts) - 1

    @property
    def missing(self) -> list[TrialRecord]:
        """Of the attempt, as if all that it lacks were lost now."""
        lacking = []
        for boot in self.attempts[-1].boots:
            for trial in boot.trials:
                if trial.id not in self.progress.statuses:
                    address = address_trial(self.index, self.attempt, boot.treatment, trial)
                    lacking.append(TrialRecord(trial=address, site=self.site or "", boot=None, status=TrialStatus.LOST))
        return lacking

    def take_records(self, records: Iterable[TrialRecord]) -> None:
        for record in records:
            if record.trial.id not in self.progress.statuses:
                self.progress.take_line(record)

    def advance_attempt(self) -> None:
        """Go to its next attempt, as long as one has ended and another is due."""
        while not self.attempts or self.progress.has_ended(self.attempts[-1]):
            if self.attempts and self.progress.is_done_with(self.attempts):
                self.is_over = True
                return
            self.site = None
            self.attempts.append(self._plan(len(self.attempts), self._treatments))


class Controller:
    """One session of a run."""

    def __init__(
        self,
        folder: RunFolder,
        fleet: Fleet,
        hosts: Mapping[str, HostSpec],
        listeners: tuple[Callable[[Event], None], ...],
        say: Say,
    ) -> None:
        self._folder = folder
        self._fleet = fleet
        self._hosts = hosts
        self._say = say
        self._course = RunCourse(folder, listeners)
        self._plan = self._course.manifest.plan
        self._is_pretended = is_pretended(self._plan.resolved)
        told = self._course.happened
        joined = [event for event in told if event["event"] == "SitesJoined"]
        self._token: str = joined[0]["token"] if joined else secrets.token_hex(8)
        self._sites: tuple[str, ...] = ()
        """The list of blocks is drawn over these."""
        self._dispatched = [event for event in told if event["event"] == "BlockDispatched"]
        self._pieces = list_pieces(folder)
        numbers = [*(event["dispatch"] for event in self._dispatched), *(piece.dispatch for piece in self._pieces)]
        self._dispatches = max(numbers, default=0)
        self._told_ends = {(event["block"], event["attempt"]) for event in told if event["event"] == "BlockEnded"}
        self._set_aside: dict[str, BlockFailed] = {}
        self._blocks: dict[int, _Block] = {}
        """That were begun, and are not in the journal as a whole."""
        self._next = 0
        """All blocks before this one are in the journal."""
        self._drawn = 0
        """All blocks before this one are in a queue, or begun."""
        self._queues: dict[str, list[int]] = {}
        self._running: dict[asyncio.Task[None], str] = {}
        self._has_files: set[tuple[str, str]] = set()

    async def run(self, changed: Mapping[str, tuple[str, str]]) -> Progress:
        """To the end. HostCannot if no site is left; the error of a site's block where nothing else can go on."""
        interrupted = True
        try:
            self._course.begin_run(changed)
            await self._gather_sites()
            self._course.stream.emit(
                SitesJoined(
                    token=self._token,
                    scheduler=self._fleet.scheduler,
                    sites={name: self._fleet.facts[name] for name in self._sites},
                )
            )
            try:
                if not await self._go_on():
                    await self._run_blocks()
            finally:
                await self._end_dispatches()
            await self._forget_run()
            interrupted = False
        finally:
            self._course.end_run(interrupted)
        return self._course.progress

    async def _gather_sites(self) -> None:
        """Those that are there, and those that may have measured for a controller that is gone.

        A worker that is started again needs a moment.
        """
        holding = {one["site"] for one in self._dispatched if (one["block"], one["attempt"]) not in self._told_ends}
        end = time.monotonic() + LIMITS.stop
        while not holding <= set(self._fleet.sites) and time.monotonic() < end:
            await asyncio.sleep(LOOK)
            await self._fleet.find_sites()
        self._sites = self._fleet.sites
        self._queues = {site: [] for site in self._sites}
        self._fleet.kept_to = frozenset(self._sites)

    async def _go_on(self) -> bool:
        """Find what is there of blocks already; whether the run has come to its end."""
        at_home = {piece.block for piece in self._pieces}
        # A controller that is killed while it writes a piece down leaves that: what the journal lacks is in there.
        while (
            self._next < self._plan.blocks
            and self._next not in at_home
            and is_measured(self._plan, self._next, self._course.progress)
        ):
            self._next += 1
            if self._course.look_after(self._next):
                return True
        last = {event["block"]: event for event in self._dispatched}
        fetched = {piece.dispatch for piece in self._pieces}
        records = defaultdict[int, list[TrialRecord]](list)
        for record in self._course.records:
            records[record.trial.block].append(record)
        for index in sorted({*last, *records}):
            if index >= self._next:
                block = self._find_block(index)
                block.take_records(records[index])
                block.pieces.extend(piece for piece in self._pieces if piece.block == index)
                for piece in block.pieces:
                    block.take_records(piece.read_records())
                block.advance_attempt()
                if (event := last.get(index)) and event["attempt"] == block.attempt and not block.is_over:
                    block.site = event["site"]
                    if event["dispatch"] not in fetched:
                        try:
                            await self._bring_home(block, event["dispatch"])
                        except SiteLost as lost:
                            self._lose_attempt(block, str(lost))
        is_over = self._commit_blocks(self._plan.blocks)
        self._drawn = self._next
        return is_over

    def _find_block(self, index: int) -> _Block:
        if index not in self._blocks:
            self._blocks[index] = _Block(self._plan, index, self._course.progress.withdrawn)
        return self._blocks[index]

    async def _run_blocks(self) -> None:
        looked = began = time.monotonic()
        while True:
            if time.monotonic() > looked + LOOK:
                await self._fleet.find_sites()
                looked = time.monotonic()
            self._give_blocks()
            if self._commit_blocks(COMMITS):
                return
            block = self._blocks.get(self._next)
            may_commit = block is not None and block.is_over
            if self._running:
                began = time.monotonic()
                timeout = 0 if may_commit else LOOK
                ended, _ = await asyncio.wait(self._running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    del self._running[task]
                    task.result()
            elif not may_commit:
                self._refuse_none_left(time.monotonic() - began)
                await asyncio.sleep(LOOK)

    def _refuse_none_left(self, waited: float) -> None:
        if self._set_aside and all(site in self._set_aside for site in self._sites):
            raise next(iter(self._set_aside.values())).make_error()
        if waited > self._fleet.patience:
            remedy = f"start workers again: nearmetal worker {self._fleet.scheduler}, then go on with the run"
            raise HostCannot(f"for {waited:.0f} s no site was there", self._fleet.scheduler, remedy)

    @property
    def _gone(self) -> set[str]:
        there = set(self._fleet.sites) - set(self._set_aside)
        return {site for site in self._sites if site not in there}

    def _give_blocks(self) -> None:
        gone = self._gone
        for site in gone:
            waiting, self._queues[site] = self._queues[site], []
            for index in waiting:
                self._queue_block(index, gone)
        busy = set(self._running.values())
        for site in self._sites:
            if site not in gone and site not in busy and (given := self._next_for(site, gone)) is not None:
                task = asyncio.ensure_future(self._measure_block(self._find_block(given), site))
                self._running[task] = site

    def _next_for(self, site: str, gone: set[str]) -> int | None:
        """The next block on a site's list. The list goes on as long as blocks may be begun."""
        queue = self._queues[site]
        while not queue and self._drawn < self._limit:
            index, self._drawn = self._drawn, self._drawn + 1
            if index not in self._blocks or not self._blocks[index].is_over:
                self._queue_block(index, gone)
        return queue.pop(0) if queue else None

    @property
    def _limit(self) -> int:
        """Blocks may be begun up to here: to the look after the one that comes next."""
        ahead = [look.blocks for look in self._plan.looks if look.blocks > self._next][1:2]
        return min([self._plan.blocks, *ahead])

    def _queue_block(self, index: int, gone: set[str]) -> None:
        block = self._blocks.get(index)
        if block is not None and block.site in gone:
            self._lose_attempt(block, f"the site {block.site} is gone")
        if block is not None and block.is_over:
            return
        assign = partial(assign_site, self._plan.study, self._plan.seed, self._sites, index)
        attempt = block.attempt if block else 0
        # If all are gone it waits for its own to come back.
        site = (block and block.site) or assign(attempt, gone) or assign(attempt)
        assert site is not None
        insort(self._queues[site], index)

    async def _measure_block(self, block: _Block, site: str) -> None:
        """Have a site run what is left of a block's attempt, and bring it home."""
        block.site = site
        dispatch = block.dispatch = self._number_dispatch()
        event = BlockDispatched(block=block.index, attempt=block.attempt, dispatch=dispatch, site=site)
        self._course.stream.emit(event)
        task = plan_task(
            self._plan,
            block.index,
            block.attempt,
            made_of=self._course.made_of,
            images=self._course.manifest.images,
            hosts=self._hosts,
            artifacts=self._folder.artifacts.absolute(),
        ).model_copy(update={"block": block.attempts[-1], "done": block.progress.list_done(block.index, block.attempt)})
        order = BlockOrder(run=self._token, dispatch=dispatch, task=task, is_pretended=self._is_pretended)
        try:
            await self._give_files(site)
            key = f"nearmetal-{self._token}-{block.index}-{block.attempt}-{dispatch}"
            outcome = await self._fleet.run_order(site, key, order)
            if outcome.refused is not None:
                self._put_aside(site, outcome.refused)
                block.site = None if not order.task.done else site
            else:
                await self._bring_home(block, dispatch, has_ended=True)
        except SiteLost as lost:
            self._lose_attempt(block, str(lost))
        block.dispatch = None
        if not block.is_over:
            self._queue_block(block.index, self._gone)

    def _number_dispatch(self) -> int:
        self._dispatches += 1
        return self._dispatches

    async def _give_files(self, site: str) -> None:
        for file in self._folder.files.glob("*"):
            if (site, file.name) not in self._has_files:
                await self._fleet.ask_site(site, on_site.keep_file, self._token, file.name, file.read_bytes())
                self._has_files.add((site, file.name))

    async def _bring_home(self, block: _Block, dispatch: int, *, has_ended: bool = False) -> None:
        """Take what a site has of a dispatch, once its process has ended. `has_ended`: by itself, so that what it does
        not have is lost. SiteLost."""
        site = block.site or ""
        piece = Piece.name_piece(self._folder, block.index, block.attempt, dispatch, site)
        try:
            spool = await self._wait_closed(site, dispatch)
            if spool.files:
                await fetch_piece(self._fleet, self._token, piece, spool)
                await self._fleet.ask_site(site, on_site.forget_dispatch, self._token, dispatch)
        except SiteLost:
            if not piece.folder.exists():
                raise
        if not piece.folder.exists():
            if has_ended:
                self._lose_attempt(block, f"the site {site} has nothing of it")
            return
        # Once: with many sites what they print is most of the controller's work.
        told = list(piece.read_events())
        self._take_piece(block, piece, [event.record for event in told if isinstance(event, TrialEnded)])
        failed = next((event for event in told if isinstance(event, BlockFailed)), None)
        if failed is not None and failed.kind in ("input", "defect"):
            raise failed.make_error()
        if failed is not None:
            self._put_aside(site, failed)
            self._lose_attempt(block, f"the site {site} could not go on: {failed.what}")
        elif has_ended and not block.is_over and block.site == site:
            is_finished = any(isinstance(event, BlockFinished) for event in told)
            if not is_finished:
                self._lose_attempt(block, "the process that ran its block is gone: it ended early", Cause.BLOCK_DIED)

    async def _wait_closed(self, site: str, dispatch: int) -> Spool:
        began = time.monotonic()
        while True:
            spool = Spool.model_validate_json(
                await self._fleet.ask_site(site, on_site.close_dispatch, self._token, dispatch)
            )
            if not spool.is_running:
                return spool
            if time.monotonic() > began + 2 * LIMITS.boot:
                raise SiteLost(f"the site {site} does not end a block")
            await asyncio.sleep(LOOK / 4)

    def _lose_attempt(self, block: _Block, why: str, cause: Cause = Cause.WORKER_LOST) -> None:
        """What an attempt lacks is lost: it goes on nowhere else."""
        if block.is_over or block.site is None:
            return
        fault = describe_fault(Fault(cause, why))
        records = [record.model_copy(update=fault) for record in block.missing]
        # Beside what its dispatch brought home, if it did.
        piece = Piece.name_piece(self._folder, block.index, block.attempt, self._number_dispatch(), block.site)
        write_piece(piece, [TrialEnded(record=record) for record in records])
        self._say(f"block {block.index + 1}: {why}")
        self._take_piece(block, piece, records)

    def _take_piece(self, block: _Block, piece: Piece, records: Iterable[TrialRecord]) -> None:
        block.pieces.append(piece)
        block.take_records(records)
        block.advance_attempt()

    def _put_aside(self, site: str, failed: BlockFailed) -> None:
        if failed.kind in ("input", "defect"):
            raise failed.make_error()
        self._say(f"the site {site} gets no more blocks: {failed.make_error()}")
        self._set_aside[site] = failed

    def _commit_blocks(self, most: int) -> bool:
        """Write down what is at home, in the order of the plan; whether the run has come to its end."""
        for _ in range(most):
            if (block := self._blocks.get(self._next)) is None:
                break
            with self._course.stream.syncing_once():  # until then the pieces have it
                for piece in block.pieces:
                    self._write_down(piece)
                for attempt, plan in enumerate(block.attempts):
                    told = (block.index, attempt)
                    if self._course.progress.has_ended(plan) and told not in self._told_ends:
                        self._told_ends.add(told)
                        whole = self._course.progress.is_whole(plan)
                        self._course.stream.emit(BlockEnded(block=block.index, attempt=attempt, whole=whole))
            while block.pieces:
                block.pieces.popleft().remove_file()
            if not block.is_over:
                return False
            del self._blocks[self._next]
            self._next += 1
            if self._course.look_after(self._next):
                return True
        return self._next >= self._plan.blocks

    def _write_down(self, piece: Piece) -> None:
        piece.place_artifacts(self._folder)
        for event in piece.read_events():
            if isinstance(event, ProgressMessage):
                self._say(f"{piece.site}: {event.text}")
            elif event.durable and not self._is_known(event):
                self._course.stream.emit(event)

    def _is_known(self, event: Event) -> bool:
        """From before the controller was killed while it wrote this down."""
        return isinstance(event, TrialEnded) and event.record.trial.id in self._course.progress.statuses

    async def _end_dispatches(self) -> None:
        """Tell sites to end what still runs, wait until they have put right what they made, and take what they have."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
            for task in self._running:
                _ = task.cancelled() or task.exception()
        open_blocks = [block for block in self._blocks.values() if block.dispatch is not None]
        if open_blocks:
            # A scheduler that hangs is waited for once, and not for each block.
            with contextlib.suppress(HostCannot):
                await self._fleet.find_sites()
        for block in open_blocks:
            assert block.dispatch is not None
            # What cannot be had now is looked for when the run goes on.
            with contextlib.suppress(SiteLost, NearmetalError, RuntimeError):
                await self._bring_home(block, block.dispatch)

    async def _forget_run(self) -> None:
        await asyncio.gather(*map(self._forget_at, self._fleet.sites))
        with contextlib.suppress(OSError):
            (self._folder.path / AHEAD).rmdir()

    async def _forget_at(self, site: str) -> None:
        with contextlib.suppress(SiteLost):
            await self._fleet.ask_site(site, on_site.forget_run, self._token)


def refuse_shared_hosts(fleet: Fleet, resolved: Iterable[Resolved]) -> None:
    """BadInput if two sites are one host and the plan would measure there."""
    if is_pretended(resolved):
        return
    first: dict[str, str] = {}
    for name in fleet.sites:
        other = first.setdefault(fleet.facts[name]["boot"], name)
        if other != name:
            remedy = "one worker on each host, or --scheduler local:1; only studies of kind mock share one"
            raise BadInput(f"the sites {other} and {name} are one host", "--scheduler", remedy)
