"""How often each side of a contrast failed, and what failures forbid a verdict to say. Pure."""

from nearmetal.analysis.responses import Pairs
from nearmetal.analysis.results import Failures, Verdict


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
