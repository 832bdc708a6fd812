"""What a study as it is planned can see, by calibrations of the environments that it compares. Pure."""

from collections.abc import Iterator, Sequence

import numpy as np

from nearmetal.analysis import power
from nearmetal.analysis.calibrate import finds
from nearmetal.model import Plan, ResolvedEnvironment, ResolvedWorkload
from nearmetal.store.calibration import Calibration, Noise, Sight


def sights(plan: Plan, calibrations: Sequence[Calibration]) -> Iterator[Sight]:
    """One for each workload and pair of environments, where its primary response was calibrated on both sides.

    A sequential study is told by its last look, which sees the most.
    """
    blocks, level = (plan.looks[-1].blocks, plan.looks[-1].level) if plan.looks else (plan.blocks, plan.level)
    told = set()
    for contrast in plan.contrasts:
        found = []
        for side in (contrast.treatment, contrast.reference):
            resolved = plan.resolved_of(side)
            spec = resolved.workload(contrast.workload)
            found.append(_calibrated(resolved.environment, spec, plan.primaries[contrast.workload], calibrations))
        known = dict(filter(None, found))
        key = contrast.workload, tuple(known)
        if None in found or key in told:
            continue
        told.add(key)
        noises = [_noise(noise) for noise in known.values()]
        if what := finds(noises, blocks, level, is_ratio=True):
            yield Sight(
                workload=contrast.workload,
                response=plan.primaries[contrast.workload],
                environments=tuple(calibrations[place].environment for place in known),
                made=tuple(calibrations[place].made for place in known),
                level=level,
                finds=what,
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


def _noise(noise: Noise) -> power.Noise:
    return power.Noise(np.array(noise.differences), noise.arms)
