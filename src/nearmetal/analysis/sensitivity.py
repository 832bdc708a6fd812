"""What a study as it is planned can see, and how many blocks its aim takes, by noise that was measured before. Pure.

Noise is taken from a pilot of the study, else from earlier runs of it, else from calibrations of the environments that
it compares.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nearmetal.analysis import power
from nearmetal.analysis.calibrate import finds
from nearmetal.analysis.paired_noise import scale_noise
from nearmetal.analysis.responses import key_of
from nearmetal.analysis.verdict_rules import count_disagreeing, find_last_test
from nearmetal.model import Assignment, ContrastPlan, DesignSpec, Plan, ResolvedEnvironment, ResolvedWorkload, Scale
from nearmetal.store.calibration_document import Calibration, Noise, Sensitivity, Sizing, Source
from nearmetal.store.pilot import PairedNoise, Pilot

SPARE = 3
"""Blocks that may disagree, at least, where the number of blocks is chosen: one boot that stalls is then no end."""


@dataclass(frozen=True)
class EarlierRun:
    """What a run of the same study told of its noise."""

    made: str
    trials: int
    """In each boot."""
    noise: tuple[PairedNoise, ...]


@dataclass(frozen=True)
class Evidence:
    """All that is known of a study's noise on this host."""

    pilot: Pilot | None = None
    runs: Sequence[EarlierRun] = ()
    calibrations: Sequence[Calibration] = ()


@dataclass(frozen=True)
class KnownNoise:
    source: Source
    made: tuple[str, ...]
    environments: tuple[str, ...]
    noises: tuple[power.BootNoise, ...]
    scale: Scale
    unit: str
    typical: float
    key: tuple[object, ...]
    """Equal for comparisons whose noise has one source."""
    sides: tuple[Assignment, Assignment] | None = None


def find_noise(plan: Plan, contrast: ContrastPlan, evidence: Evidence) -> KnownNoise | None:
    """From the first source that knows this comparison's primary response."""
    pilot = evidence.pilot
    piloted = [EarlierRun(pilot.made, pilot.trials, pilot.noise)] if pilot else []
    return (
        _of_measured(plan, contrast, piloted, "pilot")
        or _of_measured(plan, contrast, evidence.runs, "runs")
        or _of_calibrations(plan, contrast, evidence.calibrations)
    )


def list_unknown(plan: Plan, evidence: Evidence) -> list[ContrastPlan]:
    """Comparisons of whose noise nothing is known."""
    return [one for one in plan.contrasts if find_noise(plan, one, evidence) is None]


def _of_measured(plan: Plan, contrast: ContrastPlan, runs: Sequence[EarlierRun], source: Source) -> KnownNoise | None:
    """The differences of all these runs together, each about its own centre."""
    wanted = _key(contrast, plan.response_of(contrast))
    found = [
        (run, one)
        for run in runs
        for one in run.noise
        if _key(one, one.response) == wanted and (run.trials == plan.repeats or one.components is not None)
    ]
    if not found:
        return None
    differences = np.concatenate([scale_noise(one, run.trials, plan.repeats) for run, one in found])
    # Over all runs, each as often as it had blocks.
    weights = [len(one.differences) / (1 - one.failing) for _, one in found]
    failing = float(np.average([one.failing for _, one in found], weights=weights))
    last = found[-1][1]
    environments = (plan.resolved_of(side).environment.kind for side in (contrast.treatment, contrast.reference))
    return KnownNoise(
        source=source,
        made=tuple(run.made for run, _ in found),
        environments=tuple(dict.fromkeys(environments)),
        noises=(power.BootNoise(differences[:, None], 2, failing),),
        scale=last.scale,
        unit=last.unit,
        typical=last.typical,
        key=(source, *wanted),
        sides=(contrast.treatment, contrast.reference),
    )


def _key(one: ContrastPlan | PairedNoise, response: str) -> tuple[str, ...]:
    return one.workload, response, key_of(one.treatment), key_of(one.reference)


def _of_calibrations(plan: Plan, contrast: ContrastPlan, calibrations: Sequence[Calibration]) -> KnownNoise | None:
    """Where the primary response was calibrated on both sides."""
    found = []
    for side in (contrast.treatment, contrast.reference):
        resolved = plan.resolved_of(side)
        spec = resolved.workload(contrast.workload)
        found.append(_calibrated(resolved.environment, spec, plan.response_of(contrast), calibrations))
    known: Mapping[int, Noise] = dict(filter(None, found))
    if None in found:
        return None
    return KnownNoise(
        source="calibration",
        made=tuple(calibrations[place].made for place in known),
        environments=tuple(calibrations[place].environment for place in known),
        noises=tuple(power.BootNoise(np.array(noise.differences), noise.arms) for noise in known.values()),
        scale="ratio",
        unit="",
        typical=next(iter(known.values())).typical,
        key=("calibration", contrast.workload, plan.response_of(contrast), *known),
    )


def _calibrated(
    environment: ResolvedEnvironment, workload: ResolvedWorkload, response: str, calibrations: Sequence[Calibration]
) -> tuple[int, Noise] | None:
    """The place of the calibration of such an environment, and its noise in this response of such a workload."""
    for place, one in enumerate(calibrations):
        if (one.environment, dict(one.options)) == (environment.kind, dict(environment.options)):
            for noise in one.noise:
                same = (noise.kind, noise.response, noise.scale) == (workload.kind, response, "ratio")
                if same and noise.variant == workload.variant:
                    return place, noise
    return None


def find_sensitivities(plan: Plan, evidence: Evidence, design: DesignSpec) -> Iterator[Sensitivity]:
    """One for each comparison whose noise is known; by calibrations one for each workload and pair of environments.

    A sequential study is told by its last look, which sees the most.
    """
    blocks, level = find_last_test(plan)
    told = set()
    for contrast in plan.contrasts:
        known = find_noise(plan, contrast, evidence)
        if known is None or known.key in told:
            continue
        told.add(known.key)
        is_ratio = known.scale == "ratio"
        if what := finds(known.noises, blocks, level, is_ratio, design.power):
            half = power.half_width(known.noises, blocks, level, design.power)
            treatment, reference = known.sides or (None, None)
            yield Sensitivity(
                workload=contrast.workload,
                response=plan.response_of(contrast),
                environments=known.environments,
                made=known.made,
                level=level,
                finds=what,
                source=known.source,
                treatment=treatment,
                reference=reference,
                unit=known.unit,
                scale=known.scale,
                power=design.power,
                half_width=math.expm1(half) if half is not None and is_ratio else half,
                blocks_wanted=_count_wanted(known, plan.level, design),
            )


def size_blocks(plan: Plan, evidence: Evidence, design: DesignSpec) -> Sizing | None:
    """As many blocks as the study's aim takes in the comparison that takes the most, and that leave SPARE to disagree.

    The noise of all its comparisons has to be known (`list_unknown`), and the study to have an aim. None where more
    than 10^6 would be needed.
    """
    counted: dict[tuple[object, ...], tuple[int, KnownNoise, str]] = {}
    for contrast in plan.contrasts:
        known = find_noise(plan, contrast, evidence)
        if known is None:
            raise ValueError(f"no noise is known of {contrast}")
        if known.key not in counted:
            blocks = _count_wanted(known, plan.level, design)
            if blocks is None:
                return None
            counted[known.key] = blocks, known, contrast.workload
    most, known, workload = max(counted.values(), key=lambda one: one[0])
    fewest = next(blocks for blocks in range(1, most + 100) if (count_disagreeing(blocks, plan.level) or 0) >= SPARE)
    return Sizing(
        blocks=max(most, fewest),
        aim="precision" if design.detect is None else "detect",
        wanted=design.precision or 0.0 if design.detect is None else design.detect,
        power=design.power,
        level=plan.level,
        source=known.source,
        made=known.made,
        workload=workload,
    )


def _count_wanted(known: KnownNoise, level: float, design: DesignSpec) -> int | None:
    """How many blocks of a fixed number the study's aim takes in one comparison."""
    share = design.precision if design.detect is None else design.detect
    if share is None:
        return None
    wanted = math.log1p(share) if known.scale == "ratio" else share * abs(known.typical)
    if not wanted > 0:
        return None
    measure = power.half_width if design.detect is None else power.smallest
    return power.count_blocks(measure, wanted, known.noises, level, design.power)
