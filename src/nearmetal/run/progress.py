"""How far a run has come, from its records: what is done, what must be repeated, what is withdrawn. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile

from nearmetal.levels import format_assignment
from nearmetal.model import Assignment, BlockPlan, Level, Plan, TrialRecord, TrialStatus

MOST_ATTEMPTS = 3
"""A block with a trial that is not ok is repeated whole, twice at most."""
FAILURES_TO_WITHDRAW = 3
"""Attempts running with a trial that is not ok."""


@dataclass
class Progress:
    """Takes in records one by one, in the order they ended."""

    _done: dict[tuple[int, int], dict[str, TrialRecord]] = field(default_factory=lambda: defaultdict(dict))
    _is_bad: dict[str, dict[tuple[int, int], bool]] = field(default_factory=lambda: defaultdict(dict))
    """Of each treatment, whether an attempt has a trial that is not ok; the attempts in the order they began."""
    withdrawn: list[dict[str, Level]] = field(default_factory=list)

    def add(self, record: TrialRecord) -> Assignment | None:
        """Take in a record; the treatment, when this was its last chance."""
        trial = record.trial
        attempt = (trial.block, trial.attempt)
        self._done[attempt][trial.id] = record
        # One bad trial makes an attempt bad, whatever else of it is ok, before or after.
        is_bad = self._is_bad[format_assignment(trial.treatment)]
        is_bad[attempt] = is_bad.get(attempt, False) or record.status is not TrialStatus.OK
        running = sum(takewhile(bool, reversed(is_bad.values())))
        if running >= FAILURES_TO_WITHDRAW and dict(trial.treatment) not in self.withdrawn:
            self.withdrawn.append(dict(trial.treatment))
            return trial.treatment
        return None

    @classmethod
    def of(cls, records: Iterable[TrialRecord]) -> "Progress":
        progress = cls()
        for record in records:
            progress.add(record)
        return progress

    def done(self, block: int, attempt: int) -> frozenset[str]:
        return frozenset(self._done[block, attempt])

    def is_whole(self, block: BlockPlan) -> bool:
        """Every trial of this attempt has run and is ok."""
        records = self._done[block.index, block.attempt]
        return all(trial.id in records and records[trial.id].status is TrialStatus.OK for trial in block.trials)

    def leaves_nothing_to_compare(self, plan: Plan) -> bool:
        """Whether a side of every contrast is withdrawn; of a plan without contrasts nothing was to be compared."""
        gone = {format_assignment(treatment) for treatment in self.withdrawn}
        sides = [{format_assignment(one.treatment), format_assignment(one.reference)} for one in plan.contrasts]
        return bool(sides) and all(gone & both for both in sides)

    def has_ended(self, block: BlockPlan) -> bool:
        """Every trial of this attempt has a record, good or bad; those of withdrawn treatments do not count."""
        records = self._done[block.index, block.attempt]
        return all(
            trial.id in records
            for boot in block.boots
            if dict(boot.treatment) not in self.withdrawn
            for trial in boot.trials
        )
