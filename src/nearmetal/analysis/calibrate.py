"""A run of which some is known beforehand: were its answers right, and how small a difference can it see? Pure.

Three questions are asked of a run that compares alike with alike, and injected differences with what they are added to:
was anything alike called different; does the interval of each injected difference hold its true size; and how much do
boots vary that should not, so that N blocks find which difference?

How often the same trials would have been called different under other names is not asked: to flip the signs of block
differences is what the test itself does, so that the answer is its level, whatever was measured.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nearmetal import model, units
from nearmetal.analysis import portable_math, power
from nearmetal.analysis.contrasts import LOG_RESOLUTION, as_ratio
from nearmetal.analysis.interference import INTERFERENCE
from nearmetal.analysis.responses import BOOT, Arms, Replicate, arms_of_study, first_attempts, key_of, that_count
from nearmetal.analysis.results import Analysis, Contrast
from nearmetal.analysis.signed_rank import Floats, signed_rank
from nearmetal.analysis.warning_groups import group_warnings
from nearmetal.store.calibration_document import (
    AAComparison,
    Calibration,
    Disturbance,
    Finds,
    InjectedDifference,
    Noise,
)
from nearmetal.store.manifest import Manifest

TIMERS = 50e-6
"""Seconds by which one wait may be off more than another. What both are late by drops out."""


@dataclass(frozen=True)
class Truth:
    """The true size of what was put there: treatment over reference on a ratio scale, else treatment less reference.

    A range where it is not known to the last digit.
    """

    response: str
    scale: model.Scale
    low: float
    high: float


@dataclass(frozen=True)
class KnownDifference:
    """Both sides ask for the same machines; `truth` is None where they ask for the same work, too."""

    truth: Truth | None


def _more_work(given: Any, before: Any) -> Truth | None:
    """So many more events take so much longer, however fast they are."""
    ratio = given / before
    return Truth("elapsed", "ratio", ratio, ratio)


def _longer_wait(given: Any, before: Any) -> Truth | None:
    """Of two that both wait: beside one that never sleeps, what it takes to wake up would be added."""
    wait, waited = units.parse_duration(given), units.parse_duration(before)
    if not wait > waited > 0:
        return None
    return Truth("latency_p50", "difference", wait - waited - TIMERS, wait - waited + TIMERS)


_TRUTHS: Mapping[tuple[str, str], Callable[[Any, Any], Truth | None]] = {
    ("sysbench", "events"): _more_work,
    ("http", "delay"): _longer_wait,
}
"""By a workload's kind and the one parameter in which both sides are apart."""


def find_known_difference(
    plan: model.Plan, treatment: model.Assignment, reference: model.Assignment, workload: str
) -> KnownDifference | None:
    """Of two treatments and a workload, or BOOT for what a boot has whatever it ran. None where nothing is known."""
    one, other = plan.resolved_of(treatment), plan.resolved_of(reference)
    if _machines(one) != _machines(other):
        return None
    if workload == BOOT:
        return KnownDifference(None)
    mine, others = one.workload(workload), other.workload(workload)
    given, before = mine.parameters, others.parameters
    apart = [name for name in given.keys() | before.keys() if given.get(name) != before.get(name)]
    if not apart:
        return KnownDifference(None)
    if len(apart) > 1 or (mine.kind, apart[0]) not in _TRUTHS or apart[0] not in given.keys() & before.keys():
        return None
    truth = _TRUTHS[mine.kind, apart[0]](given[apart[0]], before[apart[0]])
    return KnownDifference(truth) if truth else None


def _machines(side: model.Resolved) -> tuple[object, ...]:
    """All that is asked for but the work, and whatever the environment is called."""
    return side.environment.spec, side.server, side.clients, side.link, side.observe, dict(side.treatments)


BLOCKS = (6, 8, 12, 20, 40)
"""Of studies for which it is told what they find."""
LEVEL = 0.05

_ROUNDING = 1e-9
"""Relative: more than logarithms and differences lose, less than anything can be measured."""


def calibrate(
    manifest: Manifest, records: Sequence[model.TrialRecord], analysis: Analysis, run: str
) -> Calibration | None:
    """What a run says of the machine that it ran on. None where nothing of it is known beforehand."""
    study = manifest.study
    compared = [(one, what) for one, what in _with_what_is_known(manifest, analysis.contrasts) if _is_told(one, what)]
    alike = tuple(_alike(one) for one, what in compared if not what.truth)
    injected = tuple(_injected(one, what.truth, manifest.plan) for one, what in compared if what.truth)
    reference = next((one.reference for one in manifest.plan.contrasts), None)
    if not alike or reference is None:
        return None
    environment = study.environment(str(reference["environment"]))
    arms = arms_of_study(records, study.design)
    return Calibration(
        run=run,
        made=manifest.created,
        kernel=str(manifest.host.get("kernel", {}).get("release", "")),
        environment=environment.kind,
        options=environment.options,
        quick=manifest.quick,
        trials=analysis.trials,
        level=manifest.plan.level,
        verdict=verdict(alike, injected),
        alike=alike,
        injected=injected,
        noise=tuple(_noises(manifest, arms, reference)),
        disturbances=tuple(_disturbances(that_count(records, arms))),
        # Its comparisons tell of those, and by how much: here the noise is what is asked for.
        warnings=(
            *(warning for warning in analysis.warnings if warning.code not in INTERFERENCE),
            *_told_once([one for one, _ in compared]),
        ),
    )


def has_injected(manifest: Manifest, analysis: Analysis) -> bool:
    """Whether a difference of known size is among what was compared: then a run is a calibration, if it has an A/A."""
    return any(what.truth for _, what in _with_what_is_known(manifest, analysis.contrasts))


def verdict(
    alike: Sequence[AAComparison], injected: Sequence[InjectedDifference]
) -> Literal["sound", "unsound", "unknown"]:
    right = [*(one.is_right for one in alike), *(one.is_right for one in injected)]
    if False in right:
        return "unsound"
    sees_nothing = bool(injected) and not any(one.is_found for one in injected)
    return "unknown" if None in right or sees_nothing else "sound"


def _with_what_is_known(
    manifest: Manifest, contrasts: Iterable[Contrast]
) -> Iterator[tuple[Contrast, KnownDifference]]:
    """Those of which anything is. What is known of two treatments and a workload holds for all their responses."""
    found: dict[tuple[str, str, str], KnownDifference | None] = {}
    for one in contrasts:
        key = key_of(one.treatment), key_of(one.reference), one.workload
        if key not in found:
            found[key] = find_known_difference(manifest.plan, one.treatment, one.reference, one.workload)
        what = found[key]
        if what is not None:
            yield one, what


def _is_told(contrast: Contrast, what: KnownDifference) -> bool:
    """Of what is alike the primary response is; of what was injected that of which the size is known."""
    return contrast.response == what.truth.response if what.truth else contrast.primary


def _alike(contrast: Contrast) -> AAComparison:
    """By the interval: of a run that has not ended contrasts have no verdict, and to one of equivalent a difference
    that is surely there is small. Between what is alike it is a fault, however small."""
    return AAComparison(
        **_of(contrast),
        estimate=contrast.ratio if contrast.scale == "ratio" else contrast.difference,
        interval=contrast.interval,
        reason=contrast.reason if contrast.interval is None else None,
        is_different=_tells_from_none(contrast.interval, contrast.scale),
    )


def _injected(contrast: Contrast, truth: Truth, plan: model.Plan) -> InjectedDifference:
    """By the pairs of the contrast, on the scale on which the truth is known."""
    pairs = [(pair.treatment, pair.reference) for pair in contrast.pairs]
    reason = contrast.reason if not pairs or contrast.reason in _NO_SIZE else None
    if any(pair.treatment_censored or pair.reference_censored for pair in contrast.pairs):
        reason = "censored"
    if reason is None and truth.scale == "ratio" and not np.min(pairs) > 0:
        reason = "not-positive"
    estimate, interval = (None, None) if reason else _on_scale(truth, pairs, _level(contrast, plan))
    return InjectedDifference(
        **{**_of(contrast), "scale": truth.scale},
        truth=(truth.low, truth.high),
        estimate=estimate,
        interval=interval,
        reason=reason or (None if interval else _NOT_YET if contrast.reason == _NOT_YET else "too-few-blocks"),
        is_covered=None if interval is None else _holds(interval, truth),
        is_found=_tells_from_none(interval, truth.scale),
    )


_NOT_YET = "not-looked-yet"


def _level(contrast: Contrast, plan: model.Plan) -> float:
    """At which its own interval was made: of a sequential design that of the look, and before the first look none."""
    if contrast.reason == _NOT_YET:
        return 0.0
    return plan.looks[contrast.look - 1].level if contrast.look else contrast.level


def _tells_from_none(interval: tuple[float, float] | None, scale: model.Scale) -> bool | None:
    """Whether an interval excludes that there is no difference."""
    return None if interval is None else not interval[0] <= (scale == "ratio") <= interval[1]


def _holds(interval: tuple[float, float], truth: Truth) -> bool:
    """Up to rounding, which is all that is left of an interval where nothing varied."""
    rounding = _ROUNDING * max(map(abs, interval))
    return interval[0] - rounding <= truth.high and truth.low <= interval[1] + rounding


def _of(contrast: Contrast) -> dict[str, Any]:
    names = ("workload", "response", "unit", "scale", "treatment", "reference", "blocks")
    return {name: getattr(contrast, name) for name in names}


_NO_SIZE = frozenset({"censored", "not-finite", "units-differ"})
"""Reasons of a contrast for which its values have no difference of any size, whatever the scale."""


def _on_scale(
    truth: Truth, pairs: Sequence[tuple[float, float]], level: float
) -> tuple[float, tuple[float, float] | None]:
    treatment, reference = np.array(pairs).T
    if truth.scale == "difference":
        found = signed_rank(treatment - reference, level, LOG_RESOLUTION * float(np.abs(pairs).max() or 1.0))
    else:
        found = as_ratio(
            signed_rank(portable_math.log(treatment) - portable_math.log(reference), level, LOG_RESOLUTION)
        )
    return found.estimate, found.interval


def _noises(manifest: Manifest, arms: Arms, reference: model.Assignment) -> Iterator[Noise]:
    specs = {spec.name: spec for spec in manifest.plan.resolved_of(reference).workloads}
    for workload in [*specs, BOOT]:
        blocks = _blocks(manifest, arms, reference, workload)
        if len(blocks) < power.FEWEST:
            continue
        for name, kind in _shared(blocks, manifest.plan.primaries.get(workload)).items():
            values = np.array([[replicate.values[name].value for replicate in block] for block in blocks])
            if found := _noise(values, kind, name, specs.get(workload)):
                yield found


def _blocks(manifest: Manifest, arms: Arms, reference: model.Assignment, workload: str) -> list[tuple[Replicate, ...]]:
    """Of each block the boots that are alike with the reference's, of the first attempt in which all of them are ok."""
    alike = [reference, *(one for one in manifest.plan.treatments if _is_alike(manifest, one, reference, workload))]
    by_attempt = [
        {(one.block, one.attempt): one for one in arms[key_of(treatment), workload].replicates}
        for treatment in alike
        if (key_of(treatment), workload) in arms
    ]
    if len(by_attempt) < 2:
        return []
    return [tuple(arm[at] for arm in by_attempt) for at in first_attempts(set.intersection(*map(set, by_attempt)))]


def _is_alike(manifest: Manifest, treatment: model.Assignment, reference: model.Assignment, workload: str) -> bool:
    if key_of(treatment) == key_of(reference):
        return False
    what = find_known_difference(manifest.plan, treatment, reference, workload)
    return what is not None and what.truth is None


def _shared(blocks: Sequence[Sequence[Replicate]], primary: str | None) -> dict[str, model.ResponseKind]:
    """Responses that all of them have and that have a place on their scale; the primary first."""
    replicates = [replicate for block in blocks for replicate in block]
    names = set.intersection(*(set(one.values) for one in replicates))
    usable = [name for name in names if not any(one.values[name].problem for one in replicates)]
    return {name: replicates[0].values[name].kind for name in sorted(usable, key=lambda name: (name != primary, name))}


def _noise(
    values: Floats, kind: model.ResponseKind, response: str, workload: model.ResolvedWorkload | None
) -> Noise | None:
    """`values`: blocks x boots. None where nothing varied, as errors that never happened."""
    is_ratio = kind.scale == "ratio"
    noise = power.BootNoise.of(portable_math.log(values) if is_ratio else values)
    if not noise.spread:
        return None
    return Noise(
        workload=workload.name if workload else BOOT,
        kind=workload.kind if workload else "",
        variant=workload.variant if workload else "",
        response=response,
        unit=kind.unit,
        scale=kind.scale,
        better=kind.better,
        typical=statistics.median(values.ravel().tolist()),
        spread=noise.spread,
        doubt=noise.doubt if math.isfinite(noise.doubt) else None,
        arms=noise.arms,
        differences=tuple(map(tuple, noise.differences.tolist())),
        finds=tuple(found for blocks in BLOCKS if (found := finds([noise], blocks, LEVEL, is_ratio))),
    )


def finds(
    noises: Sequence[power.BootNoise], blocks: int, level: float, is_ratio: bool, share: float = power.POWER
) -> Finds | None:
    """What is found in a share of studies. None where so few blocks find nothing."""
    smallest = power.smallest(noises, blocks, level, share)
    if smallest is None:
        return None
    doubt = power.doubt(noises)
    ends = (smallest / doubt, smallest, smallest * doubt)
    low, middle, high = (math.expm1(min(end, 700.0)) if is_ratio and math.isfinite(end) else end for end in ends)
    return Finds(blocks=blocks, smallest=middle, low=low, high=high if math.isfinite(high) else None)


def _disturbances(records: Sequence[model.TrialRecord]) -> Iterator[Disturbance]:
    whats: tuple[Literal["stolen", "others"], ...] = ("stolen", "others")
    for what in whats:
        seen = [
            site[what]
            for record in records
            for site in record.observers.get("contention", {}).values()
            if site.get(what) is not None and site["seconds"] >= model.CPUS_JUDGED_FROM
        ]
        if seen:
            yield Disturbance(what=what, median=statistics.median(seen), most=max(seen), trials=len(seen))


def _told_once(contrasts: Sequence[Contrast]) -> Iterator[model.Warned]:
    """Warnings of comparisons, alike ones together, with of how many they are."""
    groups = group_warnings((index, warning) for index, one in enumerate(contrasts) for warning in one.warnings)
    for group in groups:
        number = len(set(group.about))
        yield model.Warned(code=group.code, text=f"{number} of {len(contrasts)} comparisons: {group.text}")
