"""How a run goes, folded from its journal line by line: what is done, what goes on now, what went wrong. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from nearmetal.analysis.alike import Merging, wording
from nearmetal.blocks import plan_block
from nearmetal.model import Assignment, Identity, Plan, Study, TrialPlan, TrialRecord, TrialStatus, identify_assignment
from nearmetal.store.journal import blocks_to_run


class Row(NamedTuple):
    """A treatment under a workload: one trial, or as many as there are repeats, in each block."""

    treatment: Identity
    workload: str


class Ended(NamedTuple):
    """A trial that has its record."""

    attempt: int
    repeat: int
    status: TrialStatus
    reason: str
    seconds: float


class Fate(StrEnum):
    """What became of a row's place in a block, as far as the journal tells."""

    TO_COME = "to come"
    RUNNING = "running"
    OK = "ok"
    INVALID = "invalid"
    FAILED = "failed"
    LOST = "lost"
    WITHDRAWN = "withdrawn"
    NOT_NEEDED = "not needed"


class Place(NamedTuple):
    """A row's part of a block."""

    fate: Fate
    ended: Sequence[Ended]
    """Of all attempts, the oldest first."""
    attempt: int
    """The block's latest, from 0 on."""
    to_come: int
    """Trials that have no record of it yet."""


WARNING = "warning"
_WORST = (TrialStatus.LOST, TrialStatus.FAILED, TrialStatus.INVALID)


@dataclass
class Trouble:
    """Something that went wrong, once or more often in the same words."""

    kind: str
    """A trial's status, "withdrawn", "left behind", or a warning."""
    said: Merging
    """All that was said of it, as a report merges it."""
    rows: dict[Row, None] = field(default_factory=dict)
    """Whom it befell, in the order in which it did."""
    times: int = 0
    block: int | None = None
    """Where it happened last."""
    order: int = 0
    """Among all lines of the journal: the larger, the newer."""


@dataclass(frozen=True)
class Now:
    """The boot that goes on."""

    block: int
    attempt: int
    treatment: Assignment
    since_ns: int
    """When it began, or its trial before this one ended."""
    trials: tuple[TrialPlan, ...]
    """Those that had no record when it began, in their order."""
    phases_ns: Mapping[str, int] = field(default_factory=dict)
    """Of its trial before this one."""

    def after(self, record: TrialRecord) -> "Now":
        """When this trial of it has ended. A record has no time of its own, but how long each step took."""
        return replace(self, since_ns=self.since_ns + of_its_own(record, self.phases_ns), phases_ns=record.phases_ns)


@dataclass
class Course:
    """Takes in a journal's lines in their order. `study` and `plan` are those of the run's manifest.

    `records` are what an analysis of the primary contrasts takes, and no more of each; `events` are the journal's.
    """

    study: Study
    plan: Plan
    records: list[TrialRecord] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)
    counts: Counter[TrialStatus] = field(default_factory=Counter)
    now: Now | None = None
    phase: str = ""
    """The last of RunStarted, RunResumed and RunEnded; "" before."""
    interrupted: bool = False
    """By the last RunEnded."""
    troubles: dict[tuple[str, str], Trouble] = field(default_factory=dict)
    withdrawn: dict[Identity, str] = field(default_factory=dict)
    """Treatment to the reason."""
    looks: list[Mapping[str, Any]] = field(default_factory=list)
    lines: int = 0
    began_ns: int = 0
    """When it began, or went on after an interruption."""
    last_ns: int = 0
    """When the last event was written."""
    _ends: list[Mapping[str, Any]] = field(default_factory=list)
    """Events that may have ended it before all its blocks had run."""
    _before: int = 0
    _measured: int = 0
    _ended: dict[Row, dict[int, list[Ended]]] = field(default_factory=dict)
    _counted: tuple[int, int] = (-1, 0)
    """After how many lines, how many trials were to come."""
    _attempts: dict[int, int] = field(default_factory=dict)
    _ids: set[str] = field(default_factory=set)

    # ── Taking in ─────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, line: TrialRecord | Mapping[str, Any]) -> None:
        """A record or an event, as the journal has it. An event of a kind that is not known changes nothing.

        ValueError where a trial has a record already.
        """
        self.lines += 1
        if isinstance(line, TrialRecord):
            self._record(line)
            return
        self.events.append(line)
        self.last_ns = max(self.last_ns, int(line.get("at_ns", 0)))
        self._measured = len(self.records) - self._before
        match line["event"]:
            case "RunStarted" | "RunResumed" as phase:
                self.phase, self.interrupted, self.now = phase, False, None
                self.began_ns, self._before, self._measured = self.last_ns, len(self.records), 0
            case "RunEnded":
                self.phase, self.interrupted, self.now = "RunEnded", bool(line["interrupted"]), None
            case "BlockStarted":
                self._attempts[line["block"]] = line["attempt"]
                self.now = None
            case "BootStarted":
                self._attempts[line["block"]] = line["attempt"]
                self.now = self._boot(line["block"], line["attempt"], line["treatment"])
            case "BootEnded" | "BlockEnded":
                self.now = None
            case "LookTaken" | "NothingToCompare":
                self._ends.append(line)
                if line["event"] == "LookTaken":
                    self.looks.append(line)
            case "Withdrawn":
                self.withdrawn[identify_assignment(line["treatment"])] = line["reason"]
                self._note("withdrawn", Row(identify_assignment(line["treatment"]), ""), line["reason"], None)
            case "LeftBehind":
                self._note("left behind", None, line["what"], None)

    def _boot(self, block: int, attempt: int, treatment: Assignment) -> Now:
        """Boots of a treatment have one order, whatever other treatments are left of their block."""
        boots = plan_block(self.plan, block, attempt, [treatment]).boots
        left = (tuple(trial for trial in boot.trials if trial.id not in self._ids) for boot in boots)
        return Now(block, attempt, treatment, self.last_ns, next((trials for trials in left if trials), ()))

    def _record(self, record: TrialRecord) -> None:
        trial = record.trial
        row = Row(identify_assignment(trial.treatment), trial.workload)
        if trial.id in self._ids:
            raise ValueError("this trial has a record already")
        self._ids.add(trial.id)
        if self.now is not None and any(one.id == trial.id for one in self.now.trials):
            self.now = self.now.after(record)
        self.counts[record.status] += 1
        self._attempts[trial.block] = max(trial.attempt, self._attempts.get(trial.block, 0))
        seconds = sum(record.phases_ns.values()) / 1e9
        ended = Ended(trial.attempt, trial.repeat, record.status, record.reason or "", seconds)
        self._ended.setdefault(row, {}).setdefault(trial.block, []).append(ended)
        if record.status is not TrialStatus.OK:
            self._note(record.status.value, row, record.reason or "no reason was told", trial.block)
        for warning in record.warnings:
            self._note(WARNING, row, warning.text, trial.block)
        self.records.append(lean(record, self.plan.primaries))

    def _note(self, kind: str, row: Row | None, text: str, block: int | None) -> None:
        trouble = self.troubles.setdefault((kind, wording(text)), Trouble(kind, Merging(text)))
        if row is not None:
            trouble.rows[row] = None
        trouble.said.take(text)
        trouble.block, trouble.order = block, self.lines
        trouble.times += 1

    # ── What it says ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def blocks(self) -> int:
        """How many there are to run: those planned, or fewer where the run came to its end sooner."""
        return blocks_to_run(self.plan.blocks, self._ends)

    @property
    def is_over(self) -> bool:
        """It has come to its end."""
        return self.phase == "RunEnded" and not self.interrupted

    def rows(self) -> list[tuple[Assignment, str]]:
        """Treatment and workload of each row, by workload, in the order of the study."""
        workloads = [workload.name for workload in self.study.workloads]
        return [(treatment, workload) for workload in workloads for treatment in self.plan.treatments]

    def has_begun(self, block: int) -> bool:
        return block in self._attempts

    def places(self, row: Row) -> list[Place]:
        """What became of a row in each of the blocks that are planned."""
        ended, running, blocks = self._ended.get(row, {}), self.running(), self.blocks
        is_withdrawn = row.treatment in self.withdrawn
        places = []
        for block in range(self.plan.blocks):
            attempt, here = self._attempts.get(block, 0), ended.get(block, ())
            latest = {one.repeat: one.status for one in here if one.attempt == attempt}
            is_expected = not is_withdrawn and block < blocks
            if is_expected:
                pending = Fate.RUNNING if running == (row, block) else Fate.TO_COME
            else:
                pending = Fate.WITHDRAWN if is_withdrawn else Fate.NOT_NEEDED
            to_come = self.study.design.repeats - len(latest) if is_expected else 0
            places.append(Place(self._ended_as(latest) or pending, here, attempt, to_come))
        return places

    def _ended_as(self, latest: Mapping[int, TrialStatus]) -> Fate | None:
        """By its latest attempt: bad as soon as one of its repeats is, and good when all of them are."""
        if not latest:
            return None
        if bad := next((status for status in _WORST if status in latest.values()), None):
            return Fate(bad.value)
        return Fate.OK if len(latest) == self.study.design.repeats else None

    @property
    def has_blocks_going(self) -> bool:
        """Whether blocks are run; before, and when it goes on, images and environments are got ready first."""
        return self.phase in ("RunStarted", "RunResumed")

    def to_come(self) -> int:
        """Trials without a record, those of repeated blocks included as far as they were begun."""
        if self._counted[0] != self.lines:
            rows = (Row(identify_assignment(treatment), workload) for treatment, workload in self.rows())
            self._counted = (self.lines, sum(place.to_come for row in rows for place in self.places(row)))
        return self._counted[1]

    def running(self) -> tuple[Row, int] | None:
        """Row and block of the trial that is to end next in the boot that goes on; None where none does."""
        if self.now is None:
            return None
        trial = next((trial for trial in self.now.trials if trial.id not in self._ids), None)
        return None if trial is None else (Row(identify_assignment(self.now.treatment), trial.workload), self.now.block)

    def pace(self) -> tuple[float, int]:
        """Seconds from when this session began to its last event, and the trials that ended in them."""
        return (self.last_ns - self.began_ns) / 1e9, self._measured

    def newest_troubles(self) -> Iterator[Trouble]:
        """The newest first, and warnings after all that is worse."""
        return iter(sorted(self.troubles.values(), key=lambda trouble: (trouble.kind == WARNING, -trouble.order)))


def of_its_own(record: TrialRecord, before: Mapping[str, int]) -> int:
    """Nanoseconds of a trial that are not also of the one before it in its boot, by the steps which that tells: the
    boot's steps are told to the nanosecond alike by all trials that share it."""
    return sum(ns for step, ns in record.phases_ns.items() if before.get(step) != ns)


def seconds_each(records: Iterable[TrialRecord]) -> list[float]:
    """Of each trial that came to its end, with its boot's steps where it is the first of those that share it."""
    seconds, steps = [], dict[tuple[int, int, Identity], Mapping[str, int]]()
    for record in records:
        if record.status is TrialStatus.OK:
            boot = (record.trial.block, record.trial.attempt, identify_assignment(record.trial.treatment))
            seconds.append(of_its_own(record, steps.get(boot, {})) / 1e9)
            steps[boot] = record.phases_ns
    return seconds


def lean(record: TrialRecord, primaries: Mapping[str, str]) -> TrialRecord:
    """A record with no more than primary contrasts and their warnings are made of: thousands of them stay in memory."""
    primary = primaries.get(record.trial.workload)
    accel = record.readback.get("resources", {}).get("accel")
    return record.model_copy(
        update={
            "responses": {name: response for name, response in record.responses.items() if name == primary},
            "readback": {} if accel is None else {"resources": {"accel": accel}},
            "observers": {},
            "phases_ns": {},
            "artifacts": (),
        }
    )
