"""How much a run's comparisons vary from block to block, and of that how much within boots. Pure.

A boot costs its provision, a trial its duration. Repeats within a boot lessen what trials vary by themselves and leave
what boots vary. How many repeats find the most in a given time is the square root of the ratio of both costs, times
that of both variances (T. Kalibera and R. Jones, "Rigorous benchmarking in reasonable time", ISMM 2013, section 6).
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nearmetal.analysis import portable_math, power
from nearmetal.analysis.responses import Arms, Replicate, arms_of_study, has_failed, outcomes_of
from nearmetal.analysis.signed_rank import Floats
from nearmetal.model import ContrastPlan, Scale, TrialRecord, identify_assignment
from nearmetal.store.manifest import Manifest
from nearmetal.store.pilot import Components, PairedNoise
from nearmetal.store.progress import time_of_its_own

MOST_REPEATS = 20
"""That are ever advised."""

Pairs = Sequence[tuple[Replicate, Replicate]]


def measure_noise(manifest: Manifest, records: Sequence[TrialRecord]) -> tuple[PairedNoise, ...]:
    """Of each planned comparison that has its primary response in enough blocks, and that varies."""
    arms = arms_of_study(records, manifest.study.design)
    spent = _find_seconds(records)
    plan = manifest.plan
    found = (_measure_contrast(one, plan.response_of(one), arms, spent) for one in plan.contrasts)
    return tuple(one for one in found if one is not None)


def _measure_contrast(
    planned: ContrastPlan, response: str, arms: Arms, spent: "Mapping[str, _Spent]"
) -> PairedNoise | None:
    outcomes = outcomes_of(arms, planned.treatment, planned.reference, planned.workload)
    failing = sum(one.has_failed or other.has_failed for one, other in outcomes)
    pairs = [
        pair
        for pair in outcomes
        if not has_failed(pair) and all(response in one.values and not one.values[response].problem for one in pair)
    ]
    if len(pairs) < power.FEWEST:
        return None
    kind = pairs[0][1].values[response].kind
    values = _on_scale(np.array([[one.values[response].value for one in pair] for pair in pairs]), kind.scale)
    differences = values[:, 0] - values[:, 1]
    if not np.isfinite(differences).all() or not np.ptp(differences):
        return None
    # About a centre that is known no better than the differences tell, they are too close together by this much.
    centred = (differences - differences.mean()) * math.sqrt(len(pairs) / (len(pairs) - 1))
    return PairedNoise(
        workload=planned.workload,
        response=response,
        unit=kind.unit,
        scale=kind.scale,
        treatment=planned.treatment,
        reference=planned.reference,
        typical=statistics.median(one.values[response].value for _, one in pairs),
        differences=tuple(centred.tolist()),
        components=_find_components(pairs, response, kind.scale, float(differences.var(ddof=1)), spent),
        failing=failing / len(outcomes),
    )


def _on_scale(values: Floats, scale: Scale) -> Floats:
    return portable_math.log(values) if scale == "ratio" else values


@dataclass(frozen=True, slots=True)
class _Spent:
    """Seconds that a trial took, and its boot before any trial."""

    boot: float
    trial: float


def _find_seconds(records: Sequence[TrialRecord]) -> Mapping[str, _Spent]:
    """Of each trial, by its id: what its boot took before any trial, and what it took itself.

    A boot's steps are told to the nanosecond alike by all trials that share it, so that one of a single trial tells
    nothing of them: it is left out.
    """
    boots: dict[object, list[TrialRecord]] = defaultdict(list)
    for record in records:
        if record.boot is not None:
            treatment = identify_assignment(record.trial.treatment)
            boots[record.trial.block, record.trial.attempt, treatment, record.boot.id].append(record)
    spent = {}
    for sharing in boots.values():
        if len(sharing) < 2:
            continue
        first, second = sharing[:2]
        boot = {step: ns for step, ns in first.phases_ns.items() if second.phases_ns.get(step) == ns}
        for record in sharing:
            spent[record.trial.id] = _Spent(sum(boot.values()) / 1e9, time_of_its_own(record, boot) / 1e9)
    return spent


def _find_components(
    pairs: Pairs, response: str, scale: Scale, variance: float, spent: Mapping[str, _Spent]
) -> Components | None:
    trials = min(len(one.records) for pair in pairs for one in pair)
    told = [[spent.get(record.trial.id) for pair in pairs for record in pair[side].records] for side in (0, 1)]
    if trials < 2 or any(one is None for side in told for one in side):
        return None
    each = [[[record.responses[response].value for record in pair[side].records] for pair in pairs] for side in (0, 1)]
    within = sum(float(np.mean([_on_scale(np.array(boot), scale).var(ddof=1) for boot in side])) for side in each)
    between = max(0.0, variance - within / trials)
    boot, trial = (
        sum(statistics.fmean(getattr(one, name) for one in side if one) for side in told) for name in ("boot", "trial")
    )
    return Components(
        between=between,
        within=within,
        boot_seconds=boot,
        trial_seconds=trial,
        repeats=choose_repeats(between, within, boot, trial),
    )


def choose_repeats(between: float, within: float, boot_seconds: float, trial_seconds: float) -> int:
    """Trials in a boot that find the most in a given time: at least 1, at most MOST_REPEATS."""
    if not within or not trial_seconds:
        return 1
    if not between:
        return MOST_REPEATS
    best = math.sqrt(boot_seconds / trial_seconds * within / between)
    return min(MOST_REPEATS, max(1, round(best)))


def choose_repeats_together(noise: Sequence[PairedNoise], share_boot: bool) -> int | None:
    """For all comparisons of a study: the number with the least time for as much knowledge, all weighed alike.

    None where nothing is known of what varies within boots.
    """
    known = [one.components for one in noise if one.components is not None and one.components.within > 0]
    if not known:
        return None
    by_workload = {one.workload: one.components for one in noise if one.components is not None}
    boots = [one.boot_seconds for one in by_workload.values()]
    boot = max(boots) if share_boot else sum(boots)
    trial = sum(one.trial_seconds for one in by_workload.values())

    def weigh(repeats: int) -> float:
        left = [one.between + one.within / repeats for one in known]
        return math.log(boot + repeats * trial) + statistics.fmean(math.log(one) for one in left)

    return min(range(1, MOST_REPEATS + 1), key=weigh)


def scale_noise(one: PairedNoise, trials: int, repeats: int) -> Floats:
    """Block differences as a study has them that repeats its trials otherwise than the run did: `trials` in a boot."""
    differences = np.array(one.differences)
    if one.components is None or repeats == trials:
        return differences
    before, after = (one.components.between + one.components.within / number for number in (trials, repeats))
    return differences * math.sqrt(after / before) if before else differences
