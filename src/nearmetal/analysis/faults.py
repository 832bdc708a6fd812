"""Which side of a contrast has trials that are not ok, and whose fault that is: warned of beside its verdict. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from nearmetal.analysis.responses import Key, key_of
from nearmetal.analysis.results import Contrast
from nearmetal.model import Blame, TrialRecord, Warned, describe_cause

_SIDES = ("treatment", "reference")


class Faults:
    """Of all trials of a run, also those of attempts that do not count."""

    def __init__(self, records: Iterable[TrialRecord]) -> None:
        self._trials: Counter[tuple[Key, str]] = Counter()
        self._causes: dict[tuple[Key, str], Counter[tuple[Blame, str]]] = defaultdict(Counter)
        for record in records:
            arm = key_of(record.trial.treatment), record.trial.workload
            self._trials[arm] += 1
            if record.blame is not None:
                self._causes[arm][record.blame, record.cause or ""] += 1

    def about(self, contrast: Contrast) -> Iterable[Warned]:
        for side, treatment in zip(_SIDES, (contrast.treatment, contrast.reference), strict=True):
            arm = key_of(treatment), contrast.workload
            causes = self._causes.get(arm, Counter())
            own = Counter({cause: count for (blame, cause), count in causes.items() if blame == "treatment"})
            others = Counter({cause: count for (blame, cause), count in causes.items() if blame != "treatment"})
            of = f"of {self._trials[arm]:,} trials of the {side}"
            if own:
                yield Warned(code="trials-failed", text=f"{own.total():,} {of} failed: {_describe(own)}")
            if others:
                text = f"in {others.total():,} {of} others were to blame, for which a block is repeated: "
                yield Warned(code="trials-repeated", text=text + _describe(others))


def _describe(causes: Counter[str]) -> str:
    return ", ".join(f"{describe_cause(cause)} ({count:,})" for cause, count in sorted(causes.items()))
