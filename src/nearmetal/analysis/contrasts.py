"""Contrasts: a treatment against its reference, from the differences of blocks to a verdict."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from pydantic import TypeAdapter

from nearmetal.analysis import portable_math
from nearmetal.analysis.assumptions import find_dependent_p, find_lopsided_p
from nearmetal.analysis.differences import Differences, Sides, find_differences
from nearmetal.analysis.early_stopping import adjust_for_looks, is_futile
from nearmetal.analysis.faults import count_failures, find_objection
from nearmetal.analysis.means import compare_means
from nearmetal.analysis.responses import BOOT, Arms, Pairs, Value, key_of, outcomes_of
from nearmetal.analysis.results import Contrast, Failures, LastLook, Pair, SiteAgreement, Verdict, WorkedContrast
from nearmetal.analysis.signed_rank import Centre, Floats, enough, signed_rank
from nearmetal.analysis.sites import compare_sites, list_sites
from nearmetal.analysis.verdict_rules import count_disagreeing, find_half_margin, find_needed_blocks, is_beyond, judge
from nearmetal.model import ContrastPlan, Look, Plan, ResponseKind, Scale, Warned

LOG_RESOLUTION = 1e-12
"""Logs of ratios closer than this are one value: no measurement tells a relative change of 1e-12 from none."""

_PAIRS = TypeAdapter(tuple[Pair, ...])  # all at once: a constructor call for each takes five times as long


@dataclass(frozen=True, slots=True)
class MatchedContrast:
    """A contrast with what its verdict rests on, for diagnostics."""

    contrast: Contrast
    pairs: Pairs
    differences: Floats
    """Of the blocks in which both sides have a number; of logs on a ratio scale. Empty if the scale does not apply."""

    def changed(self, update: Mapping[str, object]) -> "MatchedContrast":
        return replace(self, contrast=self.contrast.model_copy(update=update))


@dataclass(frozen=True, slots=True)
class Criterion:
    """At what a contrast is tested: the level, and the margin within which it counts as equivalent."""

    level: float
    margin: float
    primary: bool


def matched_contrasts(
    plan: Plan, arms: Arms, primaries: Mapping[str, str], alpha: float, margin: float, looked: int = 0
) -> list[MatchedContrast]:
    """Every planned contrast: what is judged first, then every other response that both arms have.

    A planned contrast is there even when nothing was measured for it: then its response is all that is known. Of a
    sequential design, primary contrasts say what they said at the look that decided them, or else at the last of
    those that were taken: those after `looked` blocks or fewer.
    """
    found: list[MatchedContrast] = []
    judged = plan.judged | set(primaries.items())
    for planned in plan.contrasts:
        pairs = _pairs(planned, arms)
        response = planned.response or primaries[planned.workload]
        found.append(_primary(plan, planned, response, arms, pairs, margin, looked))
        if planned.response is not None:  # the rest goes with the primary response
            continue
        present = {name: kind for name, kind in _present(pairs).items() if (planned.workload, name) not in judged}
        found += _exploratory(planned, present, pairs, Criterion(alpha, margin, False))
    for planned in _of_boots(plan, arms):
        pairs = _pairs(planned, arms)
        found += _exploratory(planned, _present(pairs), pairs, Criterion(alpha, margin, False))
    return found


def primary_contrasts(plan: Plan, arms: Arms, margin: float, looked: int) -> list[Contrast]:
    """The primary ones alone, which is all that a look has to see."""
    return [
        _primary(plan, one, plan.response_of(one), arms, _pairs(one, arms), margin, looked).contrast
        for one in plan.contrasts
    ]


def retest(matched: MatchedContrast, level: float, margin: float) -> Contrast:
    """A primary contrast anew, without its diagnostics, at another level."""
    one = matched.contrast
    planned = ContrastPlan(workload=one.workload, treatment=one.treatment, reference=one.reference)
    kind = ResponseKind(unit=one.unit, better=one.better, scale=one.scale)
    return _contrast(planned, one.response, kind, matched.pairs, Criterion(level, margin, True)).contrast


def until_the_end(contrast: Contrast) -> Contrast:
    """Of a study of fixed blocks whose run has not ended: its interval is shown, and decides nothing. Who looks at each
    block and stops when the interval looks good is wrong far more often than at the level."""
    if contrast.verdict is Verdict.WITHDRAWN:
        return contrast
    return contrast.model_copy(update={"verdict": Verdict.UNDECIDED, "reason": contrast.reason or "not-ended-yet"})


def _primary(
    plan: Plan, planned: ContrastPlan, response: str, arms: Arms, pairs: Pairs, margin: float, looked: int
) -> MatchedContrast:
    kind = _present(pairs).get(response) or _kind_elsewhere(response, planned.workload, arms)
    at_once = Criterion(plan.level, margin, True)
    if not plan.looks:
        return _contrast(planned, response, kind, pairs, at_once)
    taken = [look for look in plan.looks if look.blocks <= looked]
    if not taken:  # there is an estimate, and nothing to be said of it
        before = _contrast(planned, response, kind, pairs, Criterion(0.0, margin, True))
        return before.changed({"level": plan.level, "reason": "not-looked-yet"})

    def look_at(look: Look, level: float) -> MatchedContrast:
        upto = tuple(pair for pair in pairs if pair[0].block < look.blocks)
        return _contrast(planned, response, kind, upto, Criterion(level, margin, True))

    look, found = taken[0], look_at(taken[0], taken[0].level)
    for later in taken[1:]:
        if found.contrast.verdict in DECIDED:
            break
        look, found = later, look_at(later, later.level)
    found = found.changed(
        {
            "look": plan.looks.index(look) + 1,
            "look_level": look.level,
            "level": plan.level,
            "naive": look_at(look, plan.level).contrast.interval,
        }
    )
    if found.contrast.verdict not in DECIDED and look is not plan.looks[-1]:
        return found.changed({"is_futile": is_futile(found.contrast, plan.looks)})
    found = found.changed({"adjusted": adjust_for_looks(found.contrast, plan.looks)})
    if look is taken[-1]:
        return found
    return found.changed({"last_look": _describe_last_look(look_at(taken[-1], taken[-1].level).contrast, len(taken))})


def _describe_last_look(contrast: Contrast, number: int) -> LastLook | None:
    estimate = contrast.difference if contrast.ratio is None else contrast.ratio
    if estimate is None:
        return None
    return LastLook(look=number, blocks=contrast.blocks, estimate=estimate, interval=contrast.interval)


def _exploratory(
    planned: ContrastPlan, present: Mapping[str, ResponseKind], pairs: Pairs, criterion: Criterion
) -> list[MatchedContrast]:
    return [_contrast(planned, name, present[name], pairs, criterion) for name in sorted(present)]


def _of_boots(plan: Plan, arms: Arms) -> list[ContrastPlan]:
    """Contrasts of the responses of boots: the pairs of treatment and reference that the plan has for trials."""
    sides = {
        (key_of(planned.treatment), key_of(planned.reference)): ContrastPlan(
            workload=BOOT, treatment=planned.treatment, reference=planned.reference
        )
        for planned in plan.contrasts
    }
    return [planned for (treatment, _), planned in sides.items() if (treatment, BOOT) in arms]


def _pairs(planned: ContrastPlan, arms: Arms) -> Pairs:
    return tuple(outcomes_of(arms, planned.treatment, planned.reference, planned.workload))


def _present(pairs: Pairs) -> dict[str, ResponseKind]:
    """Responses that both arms have in at least one block, as they are in the first such block."""
    kinds: dict[str, ResponseKind] = {}
    for treatment, reference in pairs:
        if not treatment.values.keys() <= kinds.keys():
            for name in treatment.values.keys() & reference.values.keys():
                kinds.setdefault(name, reference.values[name].kind)
    return kinds


def _kind_elsewhere(response: str, workload: str, arms: Arms) -> ResponseKind:
    """What a response is, from any arm that has it; where none has, there is nothing but its name."""
    for (_, of), arm in arms.items():
        for replicate in arm.first if of == workload else ():
            if response in replicate.values:
                return replicate.values[response].kind
    return ResponseKind(unit="", better="higher")


def _contrast(
    planned: ContrastPlan, response: str, kind: ResponseKind, pairs: Pairs, criterion: Criterion
) -> MatchedContrast:
    used = pairs  # the same object wherever nothing is missing: what is found out about it is shared
    sides = [(treatment.values.get(response), reference.values.get(response)) for treatment, reference in used]
    have_both = [one is not None and other is not None for one, other in sides]
    if not all(have_both):
        having = tuple(
            (treatment, reference)
            for treatment, reference in pairs
            if (response in treatment.values or treatment.has_failed)
            and (response in reference.values or reference.has_failed)
        )
        if len(having) < len(pairs):
            used = having
            sides = [(treatment.values.get(response), reference.values.get(response)) for treatment, reference in used]
    failures = count_failures(used)
    result = _result(sides, kind, failures, criterion, list_sites(used) if criterion.primary else ())
    told = (_PROBLEMS[result.problem],) if result.problem else ()
    contrast = Contrast(
        workload=planned.workload,
        response=response,
        unit=kind.unit,
        scale=kind.scale,
        better=kind.better,
        primary=criterion.primary,
        treatment=planned.treatment,
        reference=planned.reference,
        blocks=len(used),
        level=criterion.level,
        ratio=result.estimate if kind.scale == "ratio" else None,
        difference=result.estimate if kind.scale == "difference" else None,
        interval=result.interval,
        equivalence=result.equivalence,
        p=result.p,
        p_dependent=result.p_dependent,
        p_lopsided=result.p_lopsided,
        verdict=result.verdict,
        beyond_margin=result.is_beyond_margin,
        needs=result.needs,
        k=count_disagreeing(len(used), criterion.level) if criterion.primary else None,
        sites=result.sites,
        failures=failures,
        worked=result.worked,
        means=compare_means(sides, kind, criterion.level) if result.problem not in NEVER_DECIDED else None,
        reason="response-missing" if pairs and not used else result.reason,
        warnings=_missing(len(pairs) - len(used), response) + told,
        pairs=_PAIRS.validate_python(
            [
                {
                    "block": treatment.block,
                    "attempt": treatment.attempt,
                    "treatment": one.value,
                    "reference": other.value,
                    "treatment_censored": one.censored,
                    "reference_censored": other.censored,
                }
                for (treatment, _), (one, other) in zip(used, sides, strict=True)
                if one is not None and other is not None
            ]
        ),
    )
    return MatchedContrast(contrast, used, result.differences)


_PROBLEMS = {
    "censored": Warned(
        code="censored",
        text="a value is only known to lie beyond what was tried: it counts as whatever its bound allows, so that the "
        "interval may have no end on that side",
    ),
    "not-finite": Warned(code="not-finite", text="a value is not a number, so the contrast is left undecided"),
    "not-positive": Warned(
        code="not-positive", text="a value is negative, so it has no ratio, and the contrast is left undecided"
    ),
    "zero": Warned(code="zero", text="a value is 0, which on a ratio scale lies infinitely far below all others"),
    "units-differ": Warned(
        code="units-differ", text="the unit, direction or scale of the response is not the same in all trials"
    ),
    "beyond": Warned(
        code="not-finite",
        text="a difference, ratio or median of values is beyond all numbers, so the contrast is left undecided",
    ),
}
"""What is told of the values of a contrast."""

DECIDED = frozenset({Verdict.DIFFERENT, Verdict.EQUIVALENT})
"""At a look these stand. What is no more than not worse may become one of them, so that the run goes on."""

NEVER_DECIDED = frozenset({"not-finite", "not-positive", "units-differ"})
"""Reasons that more blocks do not cure."""


def _find_problem(values: Sequence[Value]) -> str | None:
    """What leaves a contrast undecided, or else what is to be told of its values."""
    if {value.problem for value in values} <= {None} and len({id(value.kind) for value in values}) <= 1:
        return None
    problems: set[str] = set()
    first: Value | None = None
    for value in values:
        first = first or value
        if value.kind is not first.kind:
            problems.add("units-differ")
        if value.problem is None:
            continue
        if not math.isfinite(value.value):
            problems.add("not-finite")
        elif value.kind.scale == "ratio" and (value.value < 0 or (value.value > 0 and value.problem == "not-positive")):
            problems.add("not-positive")
        else:
            problems.add("censored" if value.censored else "zero")
    return min(problems & NEVER_DECIDED or problems, default=None)


def _missing(blocks: int, response: str) -> tuple[Warned, ...]:
    if not blocks:
        return ()
    return (Warned(code="response-missing", text=f"{response} is missing in {blocks} of the blocks that are ok"),)


@dataclass(frozen=True, slots=True)
class _Result:
    """A contrast's numbers on the response's own scale."""

    verdict: Verdict
    reason: str | None = None
    estimate: float | None = None
    interval: tuple[float, float] | None = None
    equivalence: tuple[float, float] | None = None
    p: float | None = None
    p_dependent: float | None = None
    p_lopsided: float | None = None
    is_beyond_margin: bool = False
    needs: int | None = None
    worked: WorkedContrast | None = None
    sites: SiteAgreement | None = None
    differences: Floats = field(default_factory=lambda: np.empty(0))
    problem: str | None = None
    """Of `_PROBLEMS`."""


def _result(
    sides: Sides, kind: ResponseKind, failures: Failures | None, criterion: Criterion, places: Sequence[str]
) -> _Result:
    """Estimate, interval, p and verdict. `places`: the sites of the blocks if it is primary."""
    values = [value for pair in sides for value in pair if value is not None]
    problem = _find_problem(values)
    if problem in NEVER_DECIDED:
        return _Result(Verdict.UNDECIDED, problem, problem=problem)
    if not values:
        return _Result(Verdict.UNDECIDED, "all-failed" if sides else "no-blocks")
    have_worked = np.array([one is not None and other is not None for one, other in sides])
    differences = find_differences(sides, kind)
    differences_of_worked = differences.told[have_worked]
    base, resolution = 1.0, LOG_RESOLUTION
    if kind.scale == "difference":
        base = statistics.median([other.value for _, other in sides if other is not None] or [0.0])
        resolution = resolution_of(max([abs(value.value) for value in values]))
    logs = differences.rank(criterion.level, resolution)
    found = as_ratio(logs) if kind.scale == "ratio" else logs
    overflows = kind.scale == "difference" and not np.isfinite(differences_of_worked).all()
    if overflows or not math.isfinite(base) or not _are_in_numbers(logs, found, kind.scale):
        return _Result(Verdict.UNDECIDED, "not-finite", problem="beyond")
    if kind.scale == "ratio":
        equivalence: tuple[float, float] | None = equivalence_of_ratios(criterion.margin)
    else:
        equivalence = equivalence_of_differences(criterion.margin, base)
    neutral = 1.0 if kind.scale == "ratio" else 0.0
    verdict, reason = judge(found.interval, equivalence, neutral, kind.better)
    beyond = verdict is Verdict.DIFFERENT and is_beyond(found.interval, equivalence)
    if kind.scale == "difference" and (beyond or verdict in (Verdict.EQUIVALENT, Verdict.NOT_WORSE)):
        margin = criterion.margin if beyond else _lessen_margin(criterion, sides, base, resolution)
        by_shares = _rank_by_shares(differences, sides, criterion.level, margin, resolution)
        beyond = beyond and (by_shares[0][1] < 0 or by_shares[1][0] > 0)
        is_above, is_below = by_shares[0][0] >= 0, by_shares[1][1] <= 0
        is_sure = is_above and is_below
        if verdict is Verdict.NOT_WORSE:
            is_sure = is_above if kind.better == "higher" else is_below
        if not is_sure and not beyond:
            verdict, reason = judge(found.interval, None, neutral)
            reason = None if verdict is Verdict.DIFFERENT else "margin-varies"
    if verdict is not Verdict.DIFFERENT and found.interval and not enough(int(have_worked.sum()), criterion.level):
        verdict, reason = Verdict.UNDECIDED, "too-few-worked"
    elif objection := find_objection(verdict, failures):
        verdict, reason = Verdict.UNDECIDED, objection
    elif problem == "censored" and verdict is Verdict.UNDECIDED and found.interval is not None:
        reason = problem
    return _Result(
        verdict,
        reason,
        found.estimate,
        found.interval,
        equivalence,
        found.p,
        find_dependent_p(differences, logs, criterion.level, resolution) if criterion.primary else None,
        find_lopsided_p(differences.told, logs.p, resolution) if criterion.primary else None,
        verdict is Verdict.DIFFERENT and beyond,
        find_needed_blocks(logs, find_half_margin(equivalence, kind.scale), len(sides), criterion.level)
        if verdict is Verdict.UNDECIDED and reason in (None, "no-margin", "too-few-blocks", "censored")
        else None,
        _compare_worked(sides, kind, criterion.level) if failures else None,
        compare_sites(differences, places, kind.scale, criterion.level, resolution) if criterion.primary else None,
        differences_of_worked[np.isfinite(differences_of_worked)],
        problem,
    )


def _rank_by_shares(
    differences: Differences, sides: Sides, level: float, margin: float, resolution: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Intervals of T - (1 - margin) R and of T - (1 + margin) R, whose sides of 0 are the margin's, for R > 0.

    A margin that is a share of a measured median has noise that an interval of T - R leaves out. Where the reference
    varies from block to block, that called too much equivalent (`validation/margins.py`).
    """
    shares = np.array([0.0 if other is None else margin * abs(other.value) for _, other in sides])
    shifted = (differences.shift(by).rank(level, resolution).interval for by in (shares, -shares))
    low, high = (interval or (-math.inf, math.inf) for interval in shifted)
    return low, high


def _lessen_margin(criterion: Criterion, sides: Sides, base: float, resolution: float) -> float:
    """The margin as signed ranks take it, if something is to lie within: they go by pseudomedians, and that of a skewed
    reference lies above its median, of which the margin is a share."""
    sizes = np.array([abs(other.value) for _, other in sides if other is not None])
    typical = signed_rank(sizes, criterion.level, resolution).estimate
    return criterion.margin * min(abs(base) / typical, 1.0) if typical else criterion.margin


def _compare_worked(sides: Sides, kind: ResponseKind, level: float) -> WorkedContrast | None:
    """The blocks in which both sides worked, by themselves."""
    worked = [pair for pair in sides if None not in pair]
    if not worked:
        return None
    largest = max(abs(value.value) for pair in worked for value in pair if value is not None)
    resolution = LOG_RESOLUTION if kind.scale == "ratio" else resolution_of(largest)
    logs = find_differences(worked, kind).rank(level, resolution)
    found = as_ratio(logs) if kind.scale == "ratio" else logs
    return WorkedContrast(blocks=len(worked), estimate=found.estimate, interval=found.interval)


def _are_in_numbers(logs: Centre, found: Centre, scale: Scale) -> bool:
    """Whether floats hold what is finite of the estimate and its interval on the response's scale."""
    ends = zip((logs.estimate, *(logs.interval or ())), (found.estimate, *(found.interval or ())), strict=True)
    return all(math.isinf(log) or (math.isfinite(end) and (scale == "difference" or end > 0)) for log, end in ends)


def as_ratio(logs: Centre) -> Centre:
    interval = None
    if logs.interval is not None:
        interval = (portable_math.exp(logs.interval[0]), portable_math.exp(logs.interval[1]))
    return Centre(portable_math.exp(logs.estimate), interval, logs.p)


def is_in_numbers(found: Centre, scale: Scale) -> bool:
    """Whether floats hold the estimate and its interval: of values that they hold, differences and ratios may be more
    than the largest, and ratios less than the least above 0."""
    ends = (found.estimate, *(found.interval or ()))
    return all(map(math.isfinite, ends)) and (scale == "difference" or min(ends) > 0)


def resolution_of(largest: float) -> float:
    """As fine as LOG_RESOLUTION, relative to the largest value, and no finer than floats are."""
    return max((largest or 1.0) * LOG_RESOLUTION, math.ulp(0.0))


def equivalence_of_ratios(margin: float) -> tuple[float, float]:
    return 1 / (1 + margin), 1 + margin


def equivalence_of_differences(margin: float, base: float) -> tuple[float, float] | None:
    """The margin is a share, so a difference is held against that share of the reference's median."""
    bound = margin * abs(base)
    return (-bound, bound) if bound else None
