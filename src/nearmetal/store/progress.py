"""How far a run has come, folded from its journal line by line. Pure.

Whoever shows or continues a run reads this: the terminal, the dashboard, `ls`, and the runner itself.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from nearmetal.model import Identity, TrialRecord, TrialStatus, identify_assignment
from nearmetal.store.journal import blocks_planned, blocks_to_run


class TreatmentRow(NamedTuple):
    """A treatment under a workload: one trial, or as many as there are repeats, in each block."""

    treatment: Identity
    workload: str


class EndedTrial(NamedTuple):
    attempt: int
    repeat: int
    status: TrialStatus
    reason: str
    seconds: float


class RunProgress:
    """Takes in a journal's lines in their order."""

    def __init__(self) -> None:
        self.statuses: dict[str, TrialStatus] = {}
        """Of each trial that has its record, by its id."""
        self.counts: Counter[TrialStatus] = Counter()
        self.repeated = 0
        """Records of blocks that are repeated."""
        self.attempts: dict[int, int] = {}
        """Block to its latest attempt, of those that were begun."""
        self.phase = ""
        """The last of RunStarted, RunResumed and RunEnded; "" before."""
        self.is_interrupted = False
        """By the last RunEnded."""
        self.reasons: dict[Identity, str] = {}
        """Of each treatment that was withdrawn, why."""
        self.looks: list[Mapping[str, Any]] = []
        self.lines = 0
        self.began_ns = 0
        """When it began, or went on after an interruption."""
        self.last_ns = 0
        """When the last event was written."""
        self._ids: dict[tuple[int, int], set[str]] = defaultdict(set)
        self._ended: dict[TreatmentRow, dict[int, list[EndedTrial]]] = {}
        self._ends: list[Mapping[str, Any]] = []
        self._begun_again = 0
        self._before = 0
        self._measured = 0

    @classmethod
    def from_lines(cls, lines: Iterable[TrialRecord | Mapping[str, Any]]) -> Self:
        progress = cls()
        for line in lines:
            progress.take_line(line)
        return progress

    def take_line(self, line: TrialRecord | Mapping[str, Any]) -> None:
        """The journal's next line. An event of an unknown kind changes nothing. ValueError if a trial has a record
        already."""
        self.lines += 1
        if isinstance(line, TrialRecord):
            self._take_record(line)
        else:
            self._take_event(line)

    def _take_record(self, record: TrialRecord) -> None:
        trial = record.trial
        if trial.id in self.statuses:
            raise ValueError("this trial has a record already")
        self.statuses[trial.id] = record.status
        self.counts[record.status] += 1
        self.repeated += trial.attempt > 0
        self._ids[trial.block, trial.attempt].add(trial.id)
        self.attempts[trial.block] = max(trial.attempt, self.attempts.get(trial.block, 0))
        seconds = sum(record.phases_ns.values()) / 1e9
        row = TreatmentRow(identify_assignment(trial.treatment), trial.workload)
        ended = EndedTrial(trial.attempt, trial.repeat, record.status, record.reason or "", seconds)
        self._ended.setdefault(row, {}).setdefault(trial.block, []).append(ended)

    def _take_event(self, event: Mapping[str, Any]) -> None:
        self.last_ns = max(self.last_ns, int(event.get("at_ns", 0)))
        self._measured = len(self.statuses) - self._before
        match event["event"]:
            case "RunStarted" | "RunResumed" as phase:
                self.phase, self.is_interrupted = phase, False
                self.began_ns, self._before, self._measured = self.last_ns, len(self.statuses), 0
                self._begun_again = self.repeated
            case "RunEnded":
                self.phase, self.is_interrupted = "RunEnded", bool(event["interrupted"])
            case "BlockStarted":
                self.attempts[event["block"]] = event["attempt"]
                self._begun_again += event["trials"] if event["attempt"] else 0
            case "BootStarted":
                self.attempts[event["block"]] = event["attempt"]
            case "LookTaken" | "NothingToCompare":
                self._ends.append(event)
                if event["event"] == "LookTaken":
                    self.looks.append(event)
            case "Withdrawn":
                self.reasons[identify_assignment(event["treatment"])] = event["reason"]

    @property
    def trials(self) -> int:
        """Those that have a record, of repeated blocks too."""
        return len(self.statuses)

    @property
    def again(self) -> int:
        """Trials of repeated blocks that have a record, or are to get one in an attempt that was begun."""
        return max(self._begun_again, self.repeated)

    @property
    def is_over(self) -> bool:
        return self.phase == "RunEnded" and not self.is_interrupted

    @property
    def has_blocks_going(self) -> bool:
        """Whether blocks are run; before, and when it goes on, images and environments are got ready first."""
        return self.phase in ("RunStarted", "RunResumed")

    def list_done(self, block: int, attempt: int) -> frozenset[str]:
        """Ids of the trials of an attempt that have a record."""
        return frozenset(self._ids[block, attempt])

    def list_ended(self, row: TreatmentRow) -> Mapping[int, Sequence[EndedTrial]]:
        """By block, in the order in which they ended."""
        return self._ended.get(row, {})

    def blocks_planned(self, planned: int) -> int:
        """Of the blocks that are planned, those that it is to have: see `journal.blocks_planned`."""
        return blocks_planned(planned, self._ends)

    def blocks_to_run(self, planned: int) -> int:
        """Of the blocks that are planned, those before its end: see `journal.blocks_to_run`."""
        return blocks_to_run(planned, self._ends)

    def measure_pace(self) -> tuple[float, int]:
        """Seconds from when this session began to its last event, and the trials that ended in them."""
        return (self.last_ns - self.began_ns) / 1e9, self._measured


def estimate_time_left(trials: int, elapsed: float, measured: int, before: float) -> float:
    """Seconds that so many trials still take, at the pace of those measured; of none yet, at `before` seconds each."""
    return max(0, trials) * (elapsed / measured if measured else before)


def time_of_its_own(record: TrialRecord, before: Mapping[str, int]) -> int:
    """Nanoseconds of a trial that are not also of the one before it in its boot, by the steps which that tells: the
    boot's steps are told to the nanosecond alike by all trials that share it."""
    return sum(ns for step, ns in record.phases_ns.items() if before.get(step) != ns)


def seconds_each(records: Iterable[TrialRecord]) -> list[float]:
    """Of each trial that came to its end, with its boot's steps where it is the first of those that share it."""
    seconds, steps = [], dict[tuple[int, int, Identity], Mapping[str, int]]()
    for record in records:
        if record.status is TrialStatus.OK:
            boot = (record.trial.block, record.trial.attempt, identify_assignment(record.trial.treatment))
            seconds.append(time_of_its_own(record, steps.get(boot, {})) / 1e9)
            steps[boot] = record.phases_ns
    return seconds
