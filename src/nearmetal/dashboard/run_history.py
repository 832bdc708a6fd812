"""How a run goes: what became of each trial, what goes on now, what went wrong. Pure."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from nearmetal.analysis.warning_groups import TextMerger, find_wording
from nearmetal.model import Assignment, Plan, Study, TrialPlan, TrialRecord, TrialStatus, identify_assignment
from nearmetal.store.progress import EndedTrial, RunProgress, TreatmentRow, time_of_its_own
from nearmetal.study.blocks import plan_block


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
    ended: Sequence[EndedTrial]
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
    said: TextMerger
    """All that was said of it, as a report merges it."""
    rows: dict[TreatmentRow, None] = field(default_factory=dict)
    """Whom it befell, in the order in which it did."""
    times: int = 0
    block: int | None = None
    """Where it happened last."""
    order: int = 0
    """Among all lines of the journal: the larger, the newer."""


@dataclass(frozen=True)
class Now:
    block: int
    attempt: int
    treatment: Assignment
    since_ns: int
    """When it began, or its trial before this one ended."""
    trials: tuple[TrialPlan, ...]
    """Those that had no record when it began, in their order."""
    phases_ns: Mapping[str, int] = field(default_factory=dict)
    """Of its trial before this one."""

    def after_trial(self, record: TrialRecord) -> "Now":
        """When this trial of it has ended. A record has no time of its own, but how long each step took."""
        return replace(
            self, since_ns=self.since_ns + time_of_its_own(record, self.phases_ns), phases_ns=record.phases_ns
        )


class RunHistory(RunProgress):
    """How far a run has come, with what goes on now and what went wrong. `study` and `plan` are its manifest's.

    `records` are what an analysis of the primary contrasts takes, and no more of each; `events` are the journal's.
    """

    def __init__(self, study: Study, plan: Plan) -> None:
        super().__init__()
        self.study = study
        self.plan = plan
        self.records: list[TrialRecord] = []
        self.events: list[Mapping[str, Any]] = []
        self.now: Now | None = None
        self.troubles: dict[tuple[str, str], Trouble] = {}
        self._counted = (-1, 0)
        """After how many lines, how many trials were to come."""
        self._placed: tuple[int, dict[TreatmentRow, list[Place]]] = (-1, {})
        """After how many lines, what became of each row: the grid and the time left both ask."""

    def _take_event(self, event: Mapping[str, Any]) -> None:
        super()._take_event(event)
        self.events.append(event)
        match event["event"]:
            case "RunStarted" | "RunResumed" | "RunEnded" | "BlockStarted" | "BootEnded" | "BlockEnded":
                self.now = None
            case "BootStarted":
                self.now = self._start_boot(event["block"], event["attempt"], event["treatment"])
            case "Withdrawn":
                self._note_trouble(
                    "withdrawn", TreatmentRow(identify_assignment(event["treatment"]), ""), event["reason"], None
                )
            case "LeftBehind":
                self._note_trouble("left behind", None, event["what"], None)

    def _start_boot(self, block: int, attempt: int, treatment: Assignment) -> Now:
        """Boots of a treatment have one order, whatever other treatments are left of their block."""
        boots = plan_block(self.plan, block, attempt, [treatment]).boots
        left = (tuple(trial for trial in boot.trials if trial.id not in self.statuses) for boot in boots)
        return Now(block, attempt, treatment, self.last_ns, next((trials for trials in left if trials), ()))

    def _take_record(self, record: TrialRecord) -> None:
        super()._take_record(record)
        trial = record.trial
        if self.now is not None and any(one.id == trial.id for one in self.now.trials):
            self.now = self.now.after_trial(record)
        row = TreatmentRow(identify_assignment(trial.treatment), trial.workload)
        if record.status is not TrialStatus.OK:
            self._note_trouble(record.status.value, row, record.reason or "no reason was told", trial.block)
        for warning in record.warnings:
            self._note_trouble(WARNING, row, warning.text, trial.block)
        self.records.append(strip_record(record, self.plan.judged))

    def _note_trouble(self, kind: str, row: TreatmentRow | None, text: str, block: int | None) -> None:
        trouble = self.troubles.setdefault((kind, find_wording(text)), Trouble(kind, TextMerger(text)))
        if row is not None:
            trouble.rows[row] = None
        trouble.said.take(text)
        trouble.block, trouble.order = block, self.lines
        trouble.times += 1

    @property
    def blocks(self) -> int:
        """How many there are to run: those planned, or fewer where the run came to its end sooner."""
        return self.blocks_to_run(self.plan.blocks)

    def list_rows(self) -> list[tuple[Assignment, str]]:
        """Treatment and workload of each row, by workload, in the order of the study."""
        workloads = [workload.name for workload in self.study.workloads]
        return [(treatment, workload) for workload in workloads for treatment in self.plan.treatments]

    def list_places(self, row: TreatmentRow) -> list[Place]:
        """What became of a row in each of the blocks that are planned."""
        if self._placed[0] != self.lines:
            self._placed = (self.lines, {})
        placed = self._placed[1]
        if row not in placed:
            placed[row] = self._make_places(row)
        return placed[row]

    def _make_places(self, row: TreatmentRow) -> list[Place]:
        ended, running, blocks = self.list_ended(row), self.find_running(), self.blocks
        is_withdrawn = row.treatment in self.reasons
        places = []
        for block in range(self.plan.blocks):
            attempt, here = self.attempts.get(block, 0), ended.get(block, ())
            latest = {one.repeat: one.status for one in here if one.attempt == attempt}
            is_expected = not is_withdrawn and block < blocks
            pending = Fate.WITHDRAWN if is_withdrawn else Fate.NOT_NEEDED
            if is_expected:
                pending = Fate.RUNNING if running == (row, block) else Fate.TO_COME
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

    def to_come(self) -> int:
        """Trials without a record, those of repeated blocks included as far as they were begun."""
        if self._counted[0] != self.lines:
            rows = (TreatmentRow(identify_assignment(treatment), workload) for treatment, workload in self.list_rows())
            self._counted = (self.lines, sum(place.to_come for row in rows for place in self.list_places(row)))
        return self._counted[1]

    def find_running(self) -> tuple[TreatmentRow, int] | None:
        """Row and block of the trial that is to end next in the boot that goes on; None where none does."""
        if self.now is None:
            return None
        trial = next((trial for trial in self.now.trials if trial.id not in self.statuses), None)
        if trial is None:
            return None
        return TreatmentRow(identify_assignment(self.now.treatment), trial.workload), self.now.block

    def newest_troubles(self) -> Iterator[Trouble]:
        """The newest first, and warnings after all that is worse."""
        return iter(sorted(self.troubles.values(), key=lambda trouble: (trouble.kind == WARNING, -trouble.order)))


def strip_record(record: TrialRecord, judged: Set[tuple[str, str]]) -> TrialRecord:
    """A record with no more than primary contrasts and their warnings are made of: thousands of them stay in memory."""
    workload = record.trial.workload
    accel = record.readback.get("resources", {}).get("accel")
    return record.model_copy(
        update={
            "responses": {name: one for name, one in record.responses.items() if (workload, name) in judged},
            "readback": {} if accel is None else {"resources": {"accel": accel}},
            "observers": {},
            "phases_ns": {},
            "artifacts": (),
        }
    )
