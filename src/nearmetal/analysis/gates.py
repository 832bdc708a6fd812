"""Gates: what scripts ask of comparisons, and whether it is met. Pure.

A gate is met by evidence, never for want of it. `worse` is not met where a comparison is surely worse, where what was
measured before cannot be judged any more, or where there was nothing to judge at all. `strict` takes a verdict of each
that it is not worse. A bound, "throughput > -3%", takes an interval that lies beyond it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.analysis.run_differences import UnsharedComparison
from nearmetal.model import Frozen, Level

WORSE, STRICT = "worse", "strict"
"""Gates about the primary response of every comparison."""

EXAMPLE = "throughput > -3%"

_BOUND = re.compile(r"\s*([A-Za-z0-9._-]+)\s*([<>])\s*([+-]?)\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")


@dataclass(frozen=True, slots=True)
class Gate:
    """`text` as it was written. A bound is about a `response`: its change, a share, lies above or below `bound`."""

    text: str
    response: str | None = None
    is_above: bool = False
    bound: float = 0.0


def parse_gate(text: str) -> Gate:
    """ValueError, with what would be right after a semicolon."""
    if text in (WORSE, STRICT):
        return Gate(text)
    found = _BOUND.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no gate; write --gate, --gate={STRICT} or --gate='{EXAMPLE}'")
    bound = float(f"{found[3]}{found[4]}") / 100
    if bound <= -1:
        raise ValueError(f"{text!r} is a change to nothing or less; write more than -100%")
    return Gate(" ".join(text.split()), found[1], found[2] == ">", bound)


Why = Literal[
    "worse",
    "failing",
    "withdrawn",
    "gone",
    "not-planned",
    "unjudged",
    "undecided",
    "maybe-worse",
    "no-interval",
    "no-margin",
    "not-shown",
]
"""`worse`: by more than the margin. `failing`: it fails, and surely more often. `gone`: no good trial of it is there
any more. `not-planned`: the runs after were not to measure it. `unjudged`: its values cannot be judged. `maybe-worse`:
worse, and it is not shown that this is within the margin. `no-margin`: a share of 0 means nothing. `not-shown`: the
interval reaches beyond the bound."""


class Case(Frozen):
    """A comparison that a gate is about."""

    workload: str
    response: str
    treatment: Mapping[str, Level]
    reference: Mapping[str, Level]
    why: Why | None = None
    """Why the gate is not met; None where it is."""

    @classmethod
    def of(cls, one: Contrast | UnsharedComparison, why: Why | None) -> "Case":
        names = ("workload", "response", "treatment", "reference")
        return cls(**{name: getattr(one, name) for name in names}, why=why)


class GateOutcome(Frozen):
    """What became of a gate."""

    gate: str
    met: bool
    nothing_judged: bool
    """Whether no comparison has an interval, so that nothing could have been decided: such a gate is not met."""
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class GatedContrast:
    """A comparison, and what a gate has to know of it besides: why it is not met whatever the interval, if so."""

    contrast: Contrast
    why: Why | None = None
    base: float = 0.0
    """Of a difference: what a share is of, in the response's unit."""


def judge_gates(
    gates: Iterable[Gate], evidence: Sequence[GatedContrast], dropped: Sequence[Case] = ()
) -> list[GateOutcome]:
    """`evidence` holds all comparisons that any of the gates is about; `dropped` are such as were not even planned."""
    return [_judge_gate(gate, evidence, dropped) for gate in gates]


def _judge_gate(gate: Gate, known: Sequence[GatedContrast], dropped: Sequence[Case]) -> GateOutcome:
    evidence = [
        one for one in known if (one.contrast.response == gate.response if gate.response else one.contrast.primary)
    ]
    nothing = all(one.contrast.interval is None and one.contrast.verdict is not Verdict.WITHDRAWN for one in evidence)
    cases = [
        Case.of(one.contrast, one.why or _why_missed(gate, one) or ("no-interval" if nothing else None))
        for one in evidence
    ]
    cases += dropped
    met = not nothing and all(case.why is None for case in cases)
    return GateOutcome(gate=gate.text, met=met, nothing_judged=nothing, cases=tuple(cases))


def _why_missed(gate: Gate, evidence: GatedContrast) -> Why | None:
    contrast = evidence.contrast
    if contrast.verdict is Verdict.WITHDRAWN:
        return "withdrawn"
    if gate.response is not None:
        return _why_not_shown(gate, evidence)
    if is_beyond_margin(contrast):
        return "worse"
    if is_surely_failing(contrast):
        return "failing"
    if gate.text == WORSE:
        return None
    if contrast.verdict is Verdict.UNDECIDED:
        return "undecided"
    return "maybe-worse" if contrast.verdict is Verdict.DIFFERENT and _is_for_the_worse(contrast) else None


def _why_not_shown(gate: Gate, evidence: GatedContrast) -> Why | None:
    contrast = evidence.contrast
    if contrast.interval is None:
        return "no-interval"
    if contrast.scale == "ratio":
        bound = 1 + gate.bound
    else:
        bound = gate.bound * abs(evidence.base)
        if gate.bound and not evidence.base:
            return "no-margin"
    low, high = contrast.interval
    return None if (low > bound if gate.is_above else high < bound) else "not-shown"


def is_beyond_margin(contrast: Contrast) -> bool:
    """Whether it is surely worse, and by more than the margin: the whole interval lies beyond it."""
    if contrast.interval is None:
        return False
    neutral = _neutral(contrast)
    lowest, highest = contrast.equivalence or (neutral, neutral)
    low, high = contrast.interval
    return high < lowest if contrast.better == "higher" else low > highest


def is_surely_failing(contrast: Contrast) -> bool:
    """Whether it is surely worse, and as bad as a failure may be by its interval."""
    if contrast.interval is None or not _is_for_the_worse(contrast):
        return False
    low, high = contrast.interval
    nothing = 0.0 if contrast.scale == "ratio" else -float("inf")
    return low <= nothing if contrast.better == "higher" else high == float("inf")


def _is_for_the_worse(contrast: Contrast) -> bool:
    """Whether the whole interval lies on the worse side of no effect."""
    low, high = contrast.interval or (0.0, 0.0)
    return high < _neutral(contrast) if contrast.better == "higher" else low > _neutral(contrast)


def _neutral(contrast: Contrast) -> float:
    return 1.0 if contrast.scale == "ratio" else 0.0
