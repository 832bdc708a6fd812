"""What became of gates, in a sentence each."""

from collections import Counter
from collections.abc import Mapping

from nearmetal.analysis.gates import STRICT, WORSE, GateOutcome, Why
from nearmetal.report import figures, words

WHY: Mapping[Why, str] = {
    "worse": "surely worse than {before}, by more than the margin",
    "failing": "failing more often than {before}",
    "withdrawn": "withdrawn after failures",
    "gone": "without a good trial after",
    "not-planned": "that the run after was not even to measure",
    "unjudged": "that cannot be judged any more",
    "undecided": "undecided",
    "maybe-worse": "worse than {before}, and not shown to be within the margin",
    "no-interval": "of which nothing can be decided",
    "no-margin": "with a median of 0, a share of which means nothing",
    "not-shown": "whose interval reaches beyond that",
}
"""Why a gate is not met, of so many comparisons."""


def describe_gate(outcome: GateOutcome) -> str:
    """ "gate", "gate strict", "gate throughput > -3%"."""
    return "gate" if outcome.gate == WORSE else f"gate {words.plain(outcome.gate)}"


def describe_outcome(outcome: GateOutcome, name: str, before: str, rest: str = "") -> str:
    """A sentence. `name` is what is compared, "comparison" or "treatment"; `before` what it is held against; `rest`
    what is to be said of a gate that is met."""
    gate = describe_gate(outcome)
    if not outcome.met:
        by_why = Counter(case.why for case in outcome.cases if case.why is not None)
        missed = [f"{figures.count(number, name)} {describe_why(why, before)}" for why, number in by_why.items()]
        return f"{gate} not met: {'; '.join(missed) or 'there is nothing to judge'}"
    if outcome.gate == WORSE:
        return f"{gate} met: no {name} is surely worse than {before}, by more than the margin{rest}"
    shown = "not to be worse" if outcome.gate == STRICT else "to keep it"
    return f"{gate} met: {figures.count(len(outcome.cases), name)} shown {shown}"


def describe_why(why: Why, before: str) -> str:
    return WHY[why].format(before=before)
