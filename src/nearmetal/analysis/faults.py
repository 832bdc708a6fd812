"""Which side of a contrast has trials that are not ok, whose fault that is, and the verdicts that it forbids. Pure.

The treatment's own faults are outcomes. Those of others are no reason for a verdict, so long as they befall both sides
alike: else what is left of the blocks was chosen by what was to be measured.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import Any

from nearmetal.analysis.responses import Key, Pairs, key_of
from nearmetal.analysis.results import Contrast, Failures, Verdict
from nearmetal.model import Blame, TrialRecord, TrialStatus, Warned, describe_cause


def count_failures(pairs: Pairs) -> Failures | None:
    """None where no boot of either side failed."""
    if not any(treatment.has_failed or reference.has_failed for treatment, reference in pairs):
        return None
    sides = [(treatment.has_failed, reference.has_failed) for treatment, reference in pairs]
    treatment, reference = sides.count((True, False)), sides.count((False, True))
    return Failures(
        blocks=len(sides),
        treatment=treatment,
        reference=reference,
        both=sides.count((True, True)),
        p=mcnemar_p(treatment, reference),
    )


def mcnemar_p(one: int, other: int) -> float:
    """Exact two-sided p that what befalls one of two sides alone befalls either as often: a fair coin for each of them.

    Q. McNemar, "Note on the sampling error of the difference between correlated proportions or percentages",
    Psychometrika 12, 1947. 1 where nothing befell one side alone.
    """
    total = one + other
    tail = ways = 1
    for count in range(1, min(one, other) + 1):
        ways = ways * (total + 1 - count) // count
        tail += ways
    return min(1.0, 2 * (tail / (1 << total)))


def find_objection(verdict: Verdict, failures: Failures | None) -> str | None:
    """Why failures forbid a verdict, as a contrast's `reason`.

    Few lone failures leave the interval of the ranks within the margin: two of sixteen blocks, seven of forty. That is
    no reason to call alike what fails more often.
    """
    if failures is None or verdict not in (Verdict.EQUIVALENT, Verdict.NOT_WORSE):
        return None
    excess = failures.treatment - failures.reference
    return "failures-unlike" if (excess if verdict is Verdict.EQUIVALENT else excess > 0) else None


UNLIKE = "faults-not-alike"

_LEVEL = 0.05
"""Of the test that others' faults befall both sides alike."""

_SIDES = ("treatment", "reference")


class Faults:
    """Of all trials of a run, also those of attempts that do not count."""

    def __init__(self, records: Iterable[TrialRecord]) -> None:
        every = [((key_of(record.trial.treatment), record.trial.workload), record) for record in records]
        self._trials = Counter([arm for arm, _ in every])
        self._causes: dict[tuple[Key, str], Counter[tuple[Blame, str]]] = defaultdict(Counter)
        self._attempts: dict[tuple[Key, str], set[tuple[int, int]]] = defaultdict(set)
        """Of blocks; none if none is spoilt."""
        self._spoilt: dict[tuple[Key, str], set[tuple[int, int]]] = defaultdict(set)
        """Those attempts with a trial for which others are to blame."""
        for arm, record in every:
            if record.blame is not None:
                self._causes[arm][record.blame, record.cause or ""] += 1
                if record.blame != "treatment":
                    self._spoilt[arm].add((record.trial.block, record.trial.attempt))
        for arm, record in every if self._spoilt else ():
            self._attempts[arm].add((record.trial.block, record.trial.attempt))

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
        yield from self._unlike(contrast)

    def _unlike(self, contrast: Contrast) -> Iterable[Warned]:
        mine, others = ((key_of(side), contrast.workload) for side in (contrast.treatment, contrast.reference))
        if not self._spoilt.keys() & {mine, others}:
            return
        both = self._attempts[mine] & self._attempts[others]
        treatment, reference = len(both & self._spoilt[mine]), len(both & self._spoilt[others])
        shared = len(both & self._spoilt[mine] & self._spoilt[others])
        treatment, reference = treatment - shared, reference - shared
        p = mcnemar_p(treatment, reference)
        if p <= _LEVEL:
            text = (
                f"others were to blame for {treatment:,} attempts of the treatment alone and {reference:,} of the "
                f"reference alone (p = {p:.2g}), so that the blocks that count may be chosen ones"
            )
            yield Warned(code=UNLIKE, text=text)


def _describe(causes: Counter[str]) -> str:
    return ", ".join(f"{describe_cause(cause)} ({count:,})" for cause, count in sorted(causes.items()))


_TESTED = ("interval", "naive", "adjusted", "last_look", "p", "p_dependent", "p_lopsided", "means", "sites", "reason")


def find_withdrawn(records: Iterable[TrialRecord], events: Iterable[Mapping[str, Any]]) -> frozenset[Key]:
    """Treatments that were withdrawn, but for those of version 1, whose records do not say who was to blame."""
    named = {key_of(event["treatment"]) for event in events if event["event"] == "Withdrawn"}
    if not named:
        return frozenset()
    bad = [record for record in records if record.status is not TrialStatus.OK and record.blame is None]
    return frozenset(named - {key_of(record.trial.treatment) for record in bad})


def hold_back(contrast: Contrast, withdrawn: Set[Key]) -> Contrast:
    """No test of a side that was withdrawn; no verdict if others' faults befell one side more often than the other."""
    if withdrawn & {key_of(contrast.treatment), key_of(contrast.reference)}:
        return contrast.model_copy(update={**dict.fromkeys(_TESTED), "verdict": Verdict.WITHDRAWN})
    if contrast.verdict is not Verdict.UNDECIDED and any(warning.code == UNLIKE for warning in contrast.warnings):
        return contrast.model_copy(update={"verdict": Verdict.UNDECIDED, "reason": UNLIKE})
    return contrast
