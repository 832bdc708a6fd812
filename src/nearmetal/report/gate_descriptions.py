"""What became of gates, in a sentence each."""

from collections import Counter
from collections.abc import Mapping

from nearmetal.analysis.gates import STRICT, WORSE, GateOutcome, Why
from nearmetal.report import figures, words

_WHY: Mapping[Why, str] = {
    "worse": "is surely worse than {before}, by more than the margin",
    "failing": "fails more often than {before}",
    "withdrawn": "was withdrawn after failures",
    "gone": "has no good trial after",
    "not-planned": "was not planned in the run after",
    "unjudged": "cannot be judged any more",
    "undecided": "is undecided",
    "maybe-worse": "is worse than {before}, and not shown to be within the margin",
    "no-interval": "has no interval, so that nothing can be decided",
    "no-margin": "has a median of 0, a share of which means nothing",
    "not-shown": "has an interval that reaches beyond the bound",
}
"""Why a gate is not met, of one comparison."""

_OF_SEVERAL = {"is": "are", "was": "were", "has": "have", "fails": "fail"}


def describe_gate(outcome: GateOutcome) -> str:
    """ "gate", "gate strict", "gate throughput > -3%"."""
    return "gate" if outcome.gate == WORSE else f"gate {words.strip_controls(outcome.gate)}"


def describe_outcome(outcome: GateOutcome, name: str, before: str, rest: str = "") -> str:
    """A sentence. `name` is what is compared, "comparison" or "treatment"; `before` what it is held against; `rest`
    what is to be said of a gate that is met."""
    gate = describe_gate(outcome)
    if not outcome.met:
        by_why = Counter(case.why for case in outcome.cases if case.why is not None)
        missed = [
            f"{figures.format_count(count, name)} {describe_why(why, before, count)}" for why, count in by_why.items()
        ]
        return f"{gate} not met: {'; '.join(missed) or 'there is nothing to judge'}"
    if outcome.gate == WORSE:
        return f"{gate} met: no {name} is surely worse than {before}, by more than the margin{rest}"
    shown = "not to be worse" if outcome.gate == STRICT else "to keep it"
    return f"{gate} met: {figures.format_count(len(outcome.cases), name)} shown {shown}"


def describe_why(why: Why, before: str, count: int = 1) -> str:
    """What is so of so many comparisons, from the verb on."""
    verb, _, rest = _WHY[why].format(before=before).partition(" ")
    if count == 1:
        return f"{verb} {rest}"
    if why == "not-shown":
        return "have intervals that reach beyond the bound"
    return f"{_OF_SEVERAL.get(verb, verb)} {rest}"


def describe_level(level: float) -> str:
    """At what a comparison is judged."""
    return f"alpha {level:.4g}, confidence {100 * (1 - level):.5g} %"
