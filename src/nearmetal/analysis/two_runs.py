"""Two runs of a study: what each treatment gives now and gave before, and whether what it costs has changed. Pure.

Blocks of one run have nothing in common with those of another, so values are compared as two samples. A treatment's own
change holds all that happened to the host in between. How it stands to its reference does not: both sides of that were
measured in the same blocks, so whatever made the host slower as a whole drops out.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from nearmetal.analysis.alone import Alone, alone, dropped
from nearmetal.analysis.apart import AFTER, BEFORE, When, apart
from nearmetal.analysis.contrasts import (
    LOG_RESOLUTION,
    as_ratio,
    equivalence_of_differences,
    equivalence_of_ratios,
    is_in_numbers,
    judge,
    resolution_of,
)
from nearmetal.analysis.diagnostics import about_run
from nearmetal.analysis.disturbed import about_disturbance
from nearmetal.analysis.rank_sum import are_enough, rank_sum
from nearmetal.analysis.reality import about_reality
from nearmetal.analysis.responses import Arm, Arms, Replicate, arms_of_study, key_of, pairs_of
from nearmetal.analysis.results import Contrast, FairnessRow, Verdict
from nearmetal.analysis.signed_rank import Floats
from nearmetal.model import Assignment, Better, ContrastPlan, Document, ResponseKind, TrialRecord, Warned
from nearmetal.store.journal import blocks_planned, blocks_to_run
from nearmetal.store.manifest import Manifest

NOTHING_BEFORE, NOTHING_AFTER = "nothing-before", "nothing-after"
"""Reasons: both runs were to measure it, and no good trial of one of them has it."""


@dataclass(frozen=True)
class Ran:
    """A run as it lies in its folder."""

    manifest: Manifest
    records: Sequence[TrialRecord]
    events: Sequence[Mapping[str, Any]] = ()

    def arms(self) -> Arms:
        return arms_of_study(self.records, self.manifest.study.design)

    def blocks(self) -> int:
        """Those that are planned; of a sequential run, which ends when it has seen enough, those that were begun."""
        plan = self.manifest.plan
        return len({record.trial.block for record in self.records}) if plan.looks else plan.blocks


def in_both(before: Ran, after: Ran) -> int:
    """How many trials are in both, as of a run and a copy of it: by how long their steps took, to the nanosecond.

    What has no steps, as with a machine that never came up, can be told alike by two runs that began together.
    """
    if before.manifest.created != after.manifest.created:
        return 0
    known = {record.trial.id: record.phases_ns for record in before.records}
    return sum(bool(one.phases_ns) and known.get(one.trial.id) == one.phases_ns for one in after.records)


class Change(Contrast):
    """What changed from one run to the next: of a treatment, or of a treatment against its reference.

    Estimates are after against before: a ratio of 0.9 says that a tenth is gone. `blocks` are those of the run after.
    """

    of: Literal["treatment", "contrast"]
    """Of a treatment, `reference` is the treatment itself, as it was before."""
    blocks_before: int
    because_of: When | None = None
    """The run that is why there is no verdict: it has no values, or such as cannot be compared, or in too few of its
    blocks. None where there is a verdict, or where neither run is at fault."""


class WarnedOf(Warned):
    """What one of the runs as a whole is warned of."""

    run: When


class Compared(Document):
    """`compare.v1`."""

    schema_: Annotated[Literal["compare.v1"], Field(alias="schema")] = "compare.v1"
    before: str
    """The run's folder."""
    after: str
    apart: tuple[FairnessRow, ...]
    """What else is not the same, in the study, the software, the host and the machines; values by "before", "after"."""
    changes: tuple[Change, ...]
    alone: tuple[Alone, ...]
    """What only one of the runs was to measure. It has no part in the changes, nor in their level."""
    warnings: tuple[WarnedOf, ...]
    """What changes what a change is about: `versions-changed`, when no version of that run stands for all its trials;
    `emulated`, `pretended`; `busy-host` and `steal`, when they are of the whole run. And how it came to its end:
    `stopped-at-a-look`, `unfinished`, `blocks-missing`."""
    worse: int
    """What a gate asks for: how many stand surely worse to their reference than they did, by more than the margin.
    Where the runs share no reference, how many treatments are worse by themselves."""
    gone: int
    """Of those that a gate asks for, how many the run before had measured and the run after has not: no good trial of
    it is there, or it was not even planned."""
    unjudged: int
    """Of those that a gate asks for, how many the run before could be held against and the run after cannot, though
    it has values: they are zero on a ratio scale, no numbers, only known to lie on the worse side, or in too few of
    its blocks."""


def compare(before: Ran, after: Ran, names: tuple[str, str], margin: float | None = None) -> Compared:
    """Every primary response that both runs were to measure, each at the same share of the later study's alpha.

    Equivalent is what lies within `margin`, a share; None for the later study's own.
    """
    found = list(_found(before, after))
    design = after.manifest.study.design
    level = design.alpha / max(1, len(found))
    margin = design.margin if margin is None else margin
    planned = before.blocks(), after.blocks()
    changes = tuple(_change(one, level, margin, planned) for one in found)
    asked = [change for change in changes if change.of == "contrast"] or changes
    lone = tuple(alone((before.manifest, before.arms()), (after.manifest, after.arms())))
    of = asked[0].of if asked else "contrast"
    return Compared(
        before=names[0],
        after=names[1],
        apart=tuple(apart(before.manifest, after.manifest)),
        changes=changes,
        alone=lone,
        warnings=tuple(
            WarnedOf(code=one.code, text=one.text, run=when)
            for when, run in ((BEFORE, before), (AFTER, after))
            for one in _about(run)
        ),
        worse=sum(is_worse(change) for change in asked),
        gone=sum(change.reason == NOTHING_AFTER for change in asked) + dropped(lone, of),
        unjudged=sum(is_unjudged(change) for change in asked),
    )


_OF_A_RUN = frozenset({"versions-changed", "unfinished", "blocks-missing"})
"""Codes of what befell a run that matter where it is held against another. What was withdrawn, or never measured, has
no values: each comparison tells of that by itself."""


def _about(run: Ran) -> Iterator[Warned]:
    """What may be the cause of a change, and no upgrade."""
    yield from stopped_at_a_look(run.manifest.plan.blocks, run.events)
    to_run = blocks_to_run(run.manifest.plan.blocks, run.events)
    yield from (one for one in about_run(run.records, run.events, (), to_run) if one.code in _OF_A_RUN)
    yield from about_reality(run.manifest, run.records)
    yield from about_disturbance(run.records)


def stopped_at_a_look(most: int, events: Sequence[Mapping[str, Any]]) -> Iterator[Warned]:
    """What made a run of `most` blocks or fewer stop was its values, so that they are not what blocks of a number that
    was fixed would have given: `validation/two_runs.py` says how often that is taken for a change."""
    blocks = blocks_planned(most, events)
    if blocks < most:
        text = (
            f"stopped at a look, after {blocks} of at most {most} blocks, because of what they gave: where nothing "
            "has changed, such runs are called different more often than the level says; those of fixed blocks are not"
        )
        yield Warned(code="stopped-at-a-look", text=text)


# ── What can be compared ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Samples:
    """Values of both runs on the response's scale; `problem` says why they cannot be compared."""

    of: Literal["treatment", "contrast"]
    workload: str
    response: str
    treatment: Assignment
    reference: Assignment
    kind: ResponseKind
    before: Floats
    after: Floats
    problem: str | None
    because_of: When | None
    typical: float
    """The median of the reference before, in the response's unit: what a margin of a difference is a share of."""


def _found(before: Ran, after: Ran) -> Iterator[_Samples]:
    """Whatever both runs were to measure, so that how many there are is not a matter of what came of them."""
    was, now = before.arms(), after.arms()
    treated = {key_of(treatment) for treatment in before.manifest.plan.treatments}
    primaries = {
        workload: response
        for workload, response in after.manifest.plan.primaries.items()
        if before.manifest.plan.primaries.get(workload) == response
    }
    for workload, response in primaries.items():
        for treatment in after.manifest.plan.treatments:
            if key_of(treatment) not in treated:
                continue
            arms = [arms.get((key_of(treatment), workload), Arm()).first for arms in (was, now)]
            sides: list[_Sides] = [[(one, None) for one in arm] for arm in arms]
            yield _samples("treatment", workload, response, treatment, treatment, sides)
    planned = {_identity(one) for one in before.manifest.plan.contrasts}
    for contrast in after.manifest.plan.contrasts:
        response = primaries.get(contrast.workload, "")
        if response and _identity(contrast) in planned:
            pairs: list[_Sides] = [
                [*pairs_of(arms, contrast.treatment, contrast.reference, contrast.workload)] for arms in (was, now)
            ]
            yield _samples("contrast", contrast.workload, response, contrast.treatment, contrast.reference, pairs)


def _identity(contrast: ContrastPlan) -> tuple[str, str, str]:
    return contrast.workload, key_of(contrast.treatment), key_of(contrast.reference)


_Sides = list[tuple[Replicate, Replicate | None]]
"""Of a run, block by block: a treatment, and the reference that it is held against, if it is."""


def _samples(
    of: Literal["treatment", "contrast"],
    workload: str,
    response: str,
    treatment: Assignment,
    reference: Assignment,
    runs: Sequence[_Sides],
) -> _Samples:
    having = [[pair for pair in run if all(one is None or response in one.values for one in pair)] for run in runs]
    values = [one.values[response] for run in having for pair in run for one in pair if one is not None]
    kind = values[0].kind if values else ResponseKind(unit="", better="higher")
    problem, because_of = _problem(having[0], having[1], response, kind)

    def on_scale(one: Replicate | None) -> float:
        if one is None:
            return 0.0
        value = one.values[response].value
        return float(np.log(value)) if kind.scale == "ratio" else value

    samples = [[] if problem else [on_scale(one) - on_scale(other) for one, other in run] for run in having]
    base = [(other or one).values[response].value for one, other in having[0]]
    typical = statistics.median(base) if base else 0.0
    if problem is None:
        is_beyond = [not all(map(math.isfinite, sample)) for sample in samples]
        is_beyond[0] = is_beyond[0] or (kind.scale == "difference" and not math.isfinite(typical))
        if any(is_beyond):
            problem, because_of = "not-finite", "before" if is_beyond[0] else "after"
    return _Samples(
        of=of,
        workload=workload,
        response=response,
        treatment=treatment,
        reference=reference,
        kind=kind,
        before=np.array(samples[0]),
        after=np.array(samples[1]),
        problem=problem,
        because_of=because_of,
        typical=typical,
    )


def _problem(before: _Sides, after: _Sides, response: str, kind: ResponseKind) -> tuple[str | None, When | None]:
    """Why values cannot be compared, and which run is at fault: the run before, if both are.

    Neither is where a value after lies beyond what was tried on the better side: it may well be better than before.
    """
    if not before:
        return NOTHING_BEFORE, "before"
    if not after:
        return NOTHING_AFTER, "after"
    if problem := _problem_of(before, response, kind):
        return problem, "before"
    if problem := _problem_of(after, response, kind):
        only_better = problem == "censored" and all(_is_not_worse(pair, response, kind.better) for pair in after)
        return problem, None if only_better else "after"
    return None, None


def _problem_of(run: _Sides, response: str, kind: ResponseKind) -> str | None:
    values = [one.values[response] for pair in run for one in pair if one is not None]
    if any(value.kind != kind for value in values):
        return "units-differ"
    # The gravest first: of a value that is only known to lie beyond another there is something to be said.
    found = {value.problem for value in values}
    return next((problem for problem in ("not-finite", "not-positive", "censored") if problem in found), None)


def _is_not_worse(pair: tuple[Replicate, Replicate | None], response: str, better: Better) -> bool:
    """Whether what is known only to lie beyond a value can but be better than that, as seen from the treatment."""
    good, bad = ("right", "left") if better == "higher" else ("left", "right")
    return not any(
        record.responses[response].censored == worse
        for one, worse in zip(pair, (bad, good), strict=True)
        if one is not None
        for record in one.records
    )


# ── What became of it ─────────────────────────────────────────────────────────────────────────────────────────────


def _change(one: _Samples, level: float, margin: float, planned: tuple[int, int]) -> Change:
    is_ratio = one.kind.scale == "ratio"
    found, equivalence = None, None
    verdict, reason, because_of = Verdict.UNDECIDED, one.problem, one.because_of
    if reason is None:
        if is_ratio:
            found = as_ratio(rank_sum(one.before, one.after, level, LOG_RESOLUTION))
            equivalence = equivalence_of_ratios(margin)
        else:
            size = max(float(np.abs(one.before).max()), float(np.abs(one.after).max()))
            found = rank_sum(one.before, one.after, level, resolution_of(size))
            equivalence = equivalence_of_differences(margin, one.typical)
        verdict, reason = judge(found.interval, equivalence, neutral=1.0 if is_ratio else 0.0)
        if not is_in_numbers(found, one.kind.scale):
            # Each run by itself is as it should be; the one that is judged is the later.
            verdict, reason, because_of, found, equivalence = Verdict.UNDECIDED, "not-finite", "after", None, None
        elif found.interval is None:
            because_of = _short(len(one.before), planned, level)
    estimate = found.estimate if found else None
    sizes = len(one.before), len(one.after)
    return Change(
        of=one.of,
        workload=one.workload,
        response=one.response,
        unit=one.kind.unit,
        scale=one.kind.scale,
        better=one.kind.better,
        primary=True,
        treatment=one.treatment,
        reference=one.reference,
        blocks=len(one.after),
        blocks_before=len(one.before),
        level=level,
        ratio=estimate if is_ratio else None,
        difference=None if is_ratio else estimate,
        interval=found.interval if found else None,
        equivalence=equivalence,
        p=found.p if found else None,
        verdict=verdict,
        reason=reason,
        because_of=because_of,
        warnings=()
        if one.problem
        else (*_missing(sizes, planned), *(unlike(one.before, one.after) if found and found.interval else ())),
    )


def _short(before: int, planned: tuple[int, int], level: float) -> When | None:
    """The run whose missing blocks are why there are too few; None where all that were planned are too few as well."""
    if are_enough(before, planned[1], level):
        return "after"
    return "before" if are_enough(planned[0], planned[1], level) else None


def _missing(having: tuple[int, int], planned: tuple[int, int]) -> Iterator[Warned]:
    for when, has, blocks in zip((BEFORE, AFTER), having, planned, strict=True):
        if has < blocks:
            yield Warned(code="blocks-missing", text=f"{has} of {blocks} blocks of the run {when} have it")


_AS_MANY = 1.5
"""Times as many blocks as the other run's, from which on it is told."""
_SCATTERS = 2.0
"""Times as much as the other run, between quartiles, from which on it is told."""
_FEWEST = 6
"""Blocks below which nothing is said of how they scatter."""


def unlike(before: Floats, after: Floats) -> Iterator[Warned]:
    """Rank sums take both runs' blocks for equally scattered. Where the fewer ones scatter more, they find what is not
    there: `validation/two_runs.py` says how often. Few blocks seldom show it, so that their number is told as well."""
    (fewer, when), (more, _) = sorted(((before, BEFORE), (after, AFTER)), key=lambda run: len(run[0]))
    scatter = _times_as_much(fewer, more)
    if len(fewer) < len(more) and scatter >= _SCATTERS:
        text = (
            f"the run {when} has fewer blocks, and they scatter {scatter:.1f} × as much as the other's: "
            "where nothing has changed, such runs are called different more often than the level says"
        )
        yield Warned(code="scatter-unlike", text=text)
    elif len(more) >= _AS_MANY * len(fewer):
        text = (
            f"{len(fewer)} blocks of the run {when} against {len(more)}: should they scatter more, which so few hardly "
            "show, what has not changed is called different more often than the level says"
        )
        yield Warned(code="blocks-unlike", text=text)


def _times_as_much(few: Floats, many: Floats) -> float:
    """How much more some values scatter than others, as far as they are enough to tell; else 1."""
    if len(few) < _FEWEST:
        return 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        ours, others = (float(np.subtract(*np.percentile(values, (75, 25)))) for values in (few, many))
    return ours / others if math.isfinite(ours) and others > 0 else 1.0


def is_worse(change: Change) -> bool:
    """Whether it is surely worse, and by more than the margin: the whole interval lies beyond it."""
    if change.interval is None:
        return False
    neutral = 1.0 if change.scale == "ratio" else 0.0
    lowest, highest = change.equivalence or (neutral, neutral)
    low, high = change.interval
    return high < lowest if change.better == "higher" else low > highest


def is_unjudged(change: Change) -> bool:
    """Whether the run before could be held against and the run after, which has values of it, cannot."""
    return change.because_of == "after" and change.reason != NOTHING_AFTER
