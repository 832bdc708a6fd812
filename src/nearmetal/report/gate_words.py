"""What became of gates, in a sentence each."""

from collections import Counter
from collections.abc import Mapping

from nearmetal.analysis.gates import STRICT, WORSE, GateOutcome, Why
from nearmetal.report import figures, words

WHY: Mapping[Why, tuple[str, str]] = {
    "worse": (
        "is surely worse than {before}, by more than the margin",
        "are surely worse than {before}, by more than the margin",
    ),
    "failing": ("fails more often than {before}", "fail more often than {before}"),
    "withdrawn": ("was withdrawn after failures", "were withdrawn after failures"),
    "gone": ("has no good trial after", "have no good trial after"),
    "not-planned": ("was not planned in the run after", "were not planned in the run after"),
    "unjudged": ("cannot be judged any more", "cannot be judged any more"),
    "undecided": ("is undecided", "are undecided"),
    "maybe-worse": (
        "is worse than {before}, and not shown to be within the margin",
        "are worse than {before}, and not shown to be within the margin",
    ),
    "no-interval": (
        "has no interval, so that nothing can be decided",
        "have no interval, so that nothing can be decided",
    ),
    "no-margin": (
        "has a median of 0, a share of which means nothing",
        "have a median of 0, a share of which means nothing",
    ),
    "not-shown": (
        "has an interval that reaches beyond the bound",
        "have intervals that reach beyond the bound",
    ),
}
"""Why a gate is not met: of one comparison, and of several."""


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
    return WHY[why][count != 1].format(before=before)


def describe_level(level: float) -> str:
    """At what a comparison is judged."""
    return f"alpha {level:.4g}, confidence {100 * (1 - level):.5g} %"
