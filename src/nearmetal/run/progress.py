"""What a run decides by how far it has come: what must be repeated, what is withdrawn, when to end. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import takewhile

from nearmetal import model
from nearmetal.store.progress import RunProgress
from nearmetal.study.levels import format_assignment

MOST_ATTEMPTS = 3
"""A block is repeated whole, twice at most, while a trial of it is not ok and its treatment is not to blame."""
MOST_LOSSES = 10
"""Attempts of a block that end with the loss of a site of a fleet: they count as no attempts, but have an end."""
FAILURES_TO_WITHDRAW = 3
"""Attempts running with a trial that is not ok."""


class Progress(RunProgress):
    """Takes in records one by one, in the order they ended."""

    def __init__(self) -> None:
        super().__init__()
        self._is_bad: dict[model.Identity, dict[tuple[int, int], bool]] = defaultdict(dict)
        """Of each treatment, whether an attempt has a trial that is not ok; the attempts in the order they began."""
        self._settled: set[str] = set()
        self._lost: set[str] = set()
        self.withdrawn: list[dict[str, model.Level]] = []

    def add(self, record: model.TrialRecord) -> model.Assignment | None:
        """Take in a record; the treatment, when this was its last chance."""
        before = len(self.withdrawn)
        self.take_line(record)
        return self.withdrawn[-1] if len(self.withdrawn) > before else None

    def _take_record(self, record: model.TrialRecord) -> None:
        super()._take_record(record)
        trial = record.trial
        if record.status is model.TrialStatus.OK or record.blame == "treatment":
            self._settled.add(trial.id)
        if record.cause == model.Cause.WORKER_LOST:
            self._lost.add(trial.id)
            return  # it says nothing of the treatment
        # One bad trial makes an attempt bad, whatever else of it is ok, before or after.
        is_bad = self._is_bad[model.identify_assignment(trial.treatment)]
        attempt = (trial.block, trial.attempt)
        is_bad[attempt] = is_bad.get(attempt, False) or record.status is not model.TrialStatus.OK
        running = sum(takewhile(bool, reversed(is_bad.values())))
        if running >= FAILURES_TO_WITHDRAW and dict(trial.treatment) not in self.withdrawn:
            self.withdrawn.append(dict(trial.treatment))

    def is_whole(self, block: model.BlockPlan) -> bool:
        """Every trial of this attempt has run and is ok."""
        return all(self.statuses.get(trial.id) is model.TrialStatus.OK for trial in block.trials)

    def is_settled(self, block: model.BlockPlan) -> bool:
        """Every trial of this attempt has an outcome: it is ok, or its treatment is to blame that it is not."""
        return all(trial.id in self._settled for trial in block.trials)

    def is_done_with(self, attempts: Iterable[model.BlockPlan]) -> bool:
        """Whether nothing is left of a block after these attempts of it, all that it had: one gave each trial its
        outcome, or there were as many as it may have."""
        faults = losses = 0
        for block in attempts:
            if self.is_settled(block):
                return True
            is_lost = any(trial.id in self._lost for trial in block.trials)
            losses += is_lost
            faults += not is_lost
        return faults >= MOST_ATTEMPTS or losses >= MOST_LOSSES

    def leaves_nothing_to_compare(self, plan: model.Plan) -> bool:
        """Whether a side of every contrast is withdrawn; of a plan without contrasts nothing was to be compared."""
        gone = {format_assignment(treatment) for treatment in self.withdrawn}
        sides = [{format_assignment(one.treatment), format_assignment(one.reference)} for one in plan.contrasts]
        return bool(sides) and all(gone & both for both in sides)

    def has_ended(self, block: model.BlockPlan) -> bool:
        """Every trial of this attempt has a record, good or bad; those of withdrawn treatments do not count."""
        return all(
            trial.id in self.statuses
            for boot in block.boots
            if dict(boot.treatment) not in self.withdrawn
            for trial in boot.trials
        )
