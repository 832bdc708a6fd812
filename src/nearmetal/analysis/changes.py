"""What changed from one side of a comparison of runs to the other: of a treatment, or of what it costs. Pure.

With one run a side the block is the unit, so that what is said holds for these two runs. With several the run is.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nearmetal.analysis import contrasts
from nearmetal.analysis.outcome_ranks import Pair, count_failed, rank_outcomes
from nearmetal.analysis.rank_sum import BoundedValues, are_enough, rank_sum_of_bounds
from nearmetal.analysis.responses import Replicate
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.analysis.run_differences import AFTER, BEFORE, SubjectKind, When
from nearmetal.analysis.several_runs import compare_runs, find_needed_runs
from nearmetal.analysis.signed_rank import Centre
from nearmetal.analysis.verdict_rules import judge
from nearmetal.model import Assignment, ResponseKind, Warned

NOTHING_BEFORE, NOTHING_AFTER = "nothing-before", "nothing-after"
"""Reasons: all runs were to measure it, and no good trial of one side has it."""


class ResponseChange(Contrast):
    """What changed from before to after: of a treatment, or of a treatment against its reference.

    Estimates are after against before: a ratio of 0.9 says that a tenth is gone. `blocks` are those of the runs after.
    `primary` is what a gate goes by: a workload's primary response, of treatments against their references where there
    are any.
    """

    of: SubjectKind
    """Of a treatment, `reference` is the treatment itself, as it was before."""
    blocks_before: int
    runs: int = 1
    """Of the side after, that have a value of it. With one a side the block is the unit of the test, else the run."""
    runs_before: int = 1
    needs_runs: int | None = None
    """How many runs a side it would take to decide anything, where there are too few."""
    failed: int = 0
    """In how many of `blocks` the treatment failed by its own fault, and its reference did not."""
    failed_before: int = 0
    because_of: When | None = None
    """The side that is why there is no verdict: it has no values, or such as cannot be compared, or in too few of its
    blocks or runs. None where there is a verdict, or where neither side is at fault."""


@dataclass(frozen=True, slots=True)
class ChangeSubject:
    """A treatment, or a treatment against its reference, in a response that all runs were to measure."""

    of: SubjectKind
    workload: str
    response: str
    treatment: Assignment
    reference: Assignment
    is_primary: bool
    is_gated: bool


@dataclass(frozen=True, slots=True)
class Side:
    """What the runs of one side have of it: block by block, for each run."""

    runs: Sequence[Sequence[Pair]]
    planned: int
    """Blocks of all its runs."""
    withdrawn: bool
    """Whether a run of it gave up the treatment or its reference."""


def find_change(
    asked: ChangeSubject, before: Side, after: Side, level: float, margin: float
) -> tuple[ResponseChange, float]:
    """With the median of the reference before: what a share of a difference is of."""
    samples = _take_samples(asked, before, after)
    found = _judge(samples, level, margin)
    sides = samples.sides
    blocks_before, blocks = (sum(map(len, runs)) for runs in sides)
    failed_before, failed = (sum(map(count_failed, runs)) for runs in sides)
    estimate = found.centre.estimate if found.centre else None
    is_ratio = samples.kind.scale == "ratio"
    change = ResponseChange(
        of=asked.of,
        workload=asked.workload,
        response=asked.response,
        unit=samples.kind.unit,
        scale=samples.kind.scale,
        better=samples.kind.better,
        primary=asked.is_primary,
        treatment=asked.treatment,
        reference=asked.reference,
        blocks=blocks,
        blocks_before=blocks_before,
        runs=len(sides[1]),
        runs_before=len(sides[0]),
        needs_runs=found.needs_runs,
        failed=failed,
        failed_before=failed_before,
        level=level,
        ratio=estimate if is_ratio else None,
        difference=None if is_ratio else estimate,
        interval=found.centre.interval if found.centre else None,
        equivalence=found.equivalence,
        p=found.centre.p if found.centre else None,
        verdict=found.verdict,
        reason=found.reason,
        because_of=found.because_of,
        warnings=() if found.centre is None else tuple(_warn(samples, found.centre)),
    )
    return change, samples.typical


_Runs = tuple[Sequence[Sequence[Pair]], Sequence[Sequence[Pair]]]
"""Before and after: of each run that has any, its blocks with an outcome."""


@dataclass(frozen=True, slots=True)
class _Samples:
    """Of both sides. `problem` says why they cannot be compared, and which side is at fault."""

    response: str
    kind: ResponseKind
    sides: _Runs
    planned: tuple[int, int]
    """Blocks of all runs of a side."""
    runs: tuple[int, int]
    """Of a side, also those that have no value."""
    problem: tuple[str, When | None] | None
    ranked: tuple[Sequence[BoundedValues], Sequence[BoundedValues]] = ((), ())
    typical: float = 0.0
    """The median of the reference before, in the response's unit: what a margin of a difference is a share of."""

    @property
    def is_by_run(self) -> bool:
        return max(self.runs) > 1

    @property
    def resolution(self) -> float:
        if self.kind.scale == "ratio":
            return contrasts.LOG_RESOLUTION
        every = np.concatenate([run.values for side in self.ranked for run in side])
        return contrasts.resolution_of(float(np.abs(every[np.isfinite(every)]).max(initial=0.0)))


def _take_samples(asked: ChangeSubject, before: Side, after: Side) -> _Samples:
    response = asked.response
    sides = _having(before, response), _having(after, response)
    kinds = [one.values[response].kind for side in sides for run in side for one in _replicates(run)]
    kind = kinds[0] if kinds else ResponseKind(unit="", better="higher")
    planned, runs = (before.planned, after.planned), (len(before.runs), len(after.runs))
    problem = _find_problem(sides, response, kind)
    if before.withdrawn or after.withdrawn:
        problem = "withdrawn", AFTER if after.withdrawn else BEFORE
    if problem:
        return _Samples(response, kind, sides, planned, runs, problem)
    with np.errstate(over="ignore"):  # what is beyond the largest number is told with the verdict
        before_, after_ = ([rank_outcomes(run, response, kind) for run in side] for side in sides)
    base = [pair[-1] or pair[0] for run in sides[0] for pair in run]
    typical = statistics.median(one.values[response].value for one in base if not one.has_failed)
    if kind.scale == "difference":
        beyond = [any(map(_is_beyond, side, ranked)) for side, ranked in zip(sides, (before_, after_), strict=True)]
        if any(beyond) or not math.isfinite(typical):
            problem = "not-finite", BEFORE if beyond[0] or not math.isfinite(typical) else AFTER
    return _Samples(response, kind, sides, planned, runs, problem, (before_, after_), typical)


def _having(side: Side, response: str) -> list[list[Pair]]:
    """Blocks in which nobody lacks it: what failed lacks nothing. Runs without any are left out."""
    runs = [
        [pair for pair in run if all(one is None or one.has_failed or response in one.values for one in pair)]
        for run in side.runs
    ]
    return [run for run in runs if run]


def _replicates(run: Sequence[Pair]) -> Iterator[Replicate]:
    return (one for pair in run for one in pair if one is not None and not one.has_failed)


def _is_good(pair: Pair) -> bool:
    return not any(one is not None and one.has_failed for one in pair)


def _is_beyond(run: Sequence[Pair], ranked: BoundedValues) -> bool:
    """Whether a difference of two numbers is none."""
    return any(_is_good(pair) and not math.isfinite(value) for pair, value in zip(run, ranked.values, strict=True))


def _find_problem(sides: _Runs, response: str, kind: ResponseKind) -> tuple[str, When | None] | None:
    """Why values cannot be compared, and which side is at fault: the runs before, if both are. Runs after in which all
    failed are as bad as can be; before, there is nothing to hold against."""
    if not any(_is_good(pair) for run in sides[0] for pair in run):
        return NOTHING_BEFORE, BEFORE
    if not sides[1]:
        return NOTHING_AFTER, AFTER
    for side, when in zip(sides, (BEFORE, AFTER), strict=True):
        known = [one.values[response] for run in side for one in _replicates(run)]
        if any(value.kind != kind for value in known):
            return "units-differ", when
        if any(value.problem == "not-finite" for value in known):
            return "not-finite", when
        if kind.scale == "ratio" and any(value.value < 0 for value in known):
            return "not-positive", when
    return None


@dataclass(frozen=True, slots=True)
class _Judgement:
    """Numbers on the response's own scale."""

    verdict: Verdict
    reason: str | None = None
    because_of: When | None = None
    centre: Centre | None = None
    equivalence: tuple[float, float] | None = None
    needs_runs: int | None = None


def _judge(samples: _Samples, level: float, margin: float) -> _Judgement:
    if samples.problem:
        reason, because_of = samples.problem
        return _Judgement(Verdict.WITHDRAWN if reason == "withdrawn" else Verdict.UNDECIDED, reason, because_of)
    is_ratio = samples.kind.scale == "ratio"
    before, after = samples.ranked
    if samples.is_by_run:
        centre = compare_runs(before, after, level, samples.resolution)
    else:
        centre = rank_sum_of_bounds(before[0], after[0], level, samples.resolution)
    equivalence = contrasts.equivalence_of_differences(margin, samples.typical)
    if is_ratio:
        centre, equivalence = contrasts.as_ratio(centre), contrasts.equivalence_of_ratios(margin)
    are_finite = all(run.is_bounded for side in samples.ranked for run in side)
    if are_finite and not contrasts.is_in_numbers(centre, samples.kind.scale):
        # Each run by itself is as it should be; the one that is judged is the later.
        return _Judgement(Verdict.UNDECIDED, "not-finite", AFTER)
    if centre.interval is None:
        short, at_fault, needs = _find_shortage(samples, level)
        return _Judgement(Verdict.UNDECIDED, short, at_fault, centre, equivalence, needs)
    verdict, why = judge(centre.interval, equivalence, 1.0 if is_ratio else 0.0, samples.kind.better)
    at_fault = None
    if verdict in (Verdict.EQUIVALENT, Verdict.NOT_WORSE) and _fail_unlike(samples, margin):
        verdict, why = Verdict.UNDECIDED, "failures-unlike"
    elif verdict is Verdict.UNDECIDED and (unknown := _find_unknown(samples, centre.interval)):
        why, at_fault = unknown
    return _Judgement(verdict, why, at_fault, centre, equivalence)


def _find_shortage(samples: _Samples, level: float) -> tuple[str, When | None, int | None]:
    """Of too few blocks or runs: the side of which some are missing, if that is why, and how many runs it takes."""
    before, after = samples.sides
    if not samples.is_by_run:
        planned_before, planned_after = samples.planned
        because_of: When | None = None
        if are_enough(len(before[0]), planned_after, level):
            because_of = AFTER
        elif are_enough(planned_before, planned_after, level):
            because_of = BEFORE
        return "too-few-blocks", because_of, None
    needs = find_needed_runs(*samples.ranked, level, samples.resolution)
    short = [len(side) < needs <= runs for side, runs in zip((before, after), samples.runs, strict=True)]
    because_of = AFTER if short[1] and len(before) >= needs else BEFORE if any(short) else None
    return "too-few-runs", because_of, needs


def _fail_unlike(samples: _Samples, margin: float) -> bool:
    """Whether it is seen to fail in a share of its blocks that is another by more than the margin. Typical boots may be
    equivalent all the same: a third of the ranks does not move the middle of the others far."""
    before, after = (sum(map(count_failed, side)) / sum(map(len, side)) for side in samples.sides)
    return abs(after - before) > margin


def _find_unknown(samples: _Samples, interval: tuple[float, float]) -> tuple[str, When | None] | None:
    """Where values known by bounds alone leave an end of the interval open: why, and the side at fault. Neither is
    where the runs after may only be better than their bounds say."""
    nothing = 0.0 if samples.kind.scale == "ratio" else -math.inf
    is_open = {"low": interval[0] == nothing, "high": interval[1] == math.inf}
    bad = "low" if samples.kind.better == "higher" else "high"
    for side, ranked, when in zip(samples.sides, samples.ranked, (BEFORE, AFTER), strict=True):
        open_to = {
            "low": any(((one.low < one.high) & np.isinf(one.low)).any() for one in ranked),
            "high": any(((one.low < one.high) & np.isinf(one.high)).any() for one in ranked),
        }
        if when is BEFORE:  # what was less before has grown
            open_to = {"low": open_to["high"], "high": open_to["low"]}
        found = [end for end in is_open if is_open[end] and open_to[end]]
        if found:
            has_zero = any(one.values[samples.response].value == 0 for run in side for one in _replicates(run))
            is_zero = has_zero and samples.kind.scale == "ratio"
            at_fault = None if when is AFTER and bad not in found else when
            return "not-positive" if is_zero else "censored", at_fault
    return None


_ONE_RUN = Warned(
    code="one-run-a-side",
    text="one run a side: this holds for these two runs, with all that either has of its own; compare several runs a "
    "side to learn what changed",
)


def _warn(samples: _Samples, centre: Centre) -> Iterator[Warned]:
    for when, side, planned, runs in zip((BEFORE, AFTER), samples.sides, samples.planned, samples.runs, strict=True):
        which = f"run {when}" if runs == 1 else f"runs {when}"
        if (has := sum(map(len, side))) < planned:
            yield Warned(code="blocks-missing", text=f"{has} of {planned} blocks of the {which} have it")
        if len(side) < runs:
            yield Warned(code="runs-missing", text=f"{len(side)} of {runs} {which} have it")
    failed = [sum(map(count_failed, side)) for side in samples.sides]
    if any(failed):
        told = " and ".join(
            f"{number} of {sum(map(len, side))} blocks {when}"
            for when, number, side in zip((BEFORE, AFTER), failed, samples.sides, strict=True)
        )
        yield Warned(code="trials-failed", text=f"the treatment failed in {told}, which ranks below every value")
    if centre.interval is not None and not samples.is_by_run:
        yield _ONE_RUN


def is_unjudged(change: ResponseChange) -> bool:
    """Whether the runs before could be held against and the runs after, which have values of it, cannot."""
    return change.because_of == AFTER and change.verdict is Verdict.UNDECIDED and change.reason != NOTHING_AFTER


def fails_more(change: ResponseChange) -> bool:
    """Whether the treatment surely fails in more blocks than before: the exact test of Fisher, of all blocks alike."""
    if not change.blocks or not change.blocks_before:
        return False
    failed, blocks = change.failed + change.failed_before, change.blocks + change.blocks_before
    ways = sum(
        math.comb(change.blocks, number) * math.comb(change.blocks_before, failed - number)
        for number in range(change.failed, min(failed, change.blocks) + 1)
    )
    return 2 * ways <= change.level * math.comb(blocks, failed)
