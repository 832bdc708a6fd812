"""What else differs where a verdict differs: figures that observers left in records, compared block by block.

Each is compared as an exploratory response is: the pseudomedian of the blocks' differences, its interval by inverting
the signed-rank test at alpha. None is corrected for how many there are, and none is a proof of cause: they go along.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearmetal.analysis import portable_math
from nearmetal.analysis.contrasts import LOG_RESOLUTION, as_ratio
from nearmetal.analysis.covariates import COVARIATES, Covariate
from nearmetal.analysis.responses import Replicate
from nearmetal.analysis.signed_rank import signed_rank
from nearmetal.model import Scale

Pairs = Sequence[tuple[Replicate, Replicate]]
"""Treatment and reference, one pair per block."""


@dataclass(frozen=True, slots=True)
class CovariateContrast:
    """A covariate of one contrast. `estimate` and `interval` are on its scale; a ratio may be 0 or infinite."""

    covariate: Covariate
    blocks: int
    treatment: float
    """The median over blocks, as the reference's."""
    reference: float
    estimate: float
    interval: tuple[float, float] | None
    """None with too few blocks."""
    is_same: bool = False
    """Whether both sides have one value in each block."""

    @property
    def scale(self) -> Scale:
        return self.covariate.scale

    @property
    def differs(self) -> bool:
        """Whether the interval excludes that there is no difference, or hardly one."""
        return self._is_apart and not self.is_slight

    @property
    def is_slight(self) -> bool:
        """Whether the interval excludes that there is no difference, and that it is more than hardly any."""
        return self._is_apart and self._most < self.covariate.least

    @property
    def _neutral(self) -> float:
        return 1.0 if self.scale == "ratio" else 0.0

    @property
    def _is_apart(self) -> bool:
        return self.interval is not None and not self.interval[0] <= self._neutral <= self.interval[1]

    @property
    def _most(self) -> float:
        """In the covariate's unit, how far apart both sides are by the far end of the interval."""
        far = max(abs(end - self._neutral) for end in self.interval or (self.estimate,))
        return far * self.reference if self.scale == "ratio" and math.isfinite(far) else far

    @property
    def distance(self) -> float:
        """How far apart both sides are by the estimate: the difference as a share of their mean. For ranking alone."""
        total = abs(self.treatment) + abs(self.reference)
        if self.scale == "ratio":
            share = abs(self.estimate - 1) / (self.estimate + 1) if math.isfinite(self.estimate) else 1.0
            return 2 * share * total / (total + 2 * self.covariate.slight)
        total = max(total, abs(self.estimate)) + 2 * self.covariate.slight
        return 2 * abs(self.estimate) / total if total else 0.0


def attributed(pairs: Pairs, level: float) -> list[CovariateContrast]:
    """Every covariate that both sides have: what differs first, what hardly does last, and by how far apart."""
    compared = (_compared(covariate, pairs, level) for covariate in COVARIATES)
    found = [one for one in compared if one is not None]
    return sorted(found, key=lambda one: (one.is_slight, not one.differs, -one.distance))


def nil(pairs: Pairs) -> list[Covariate]:
    """What both sides tell, and what did not happen on either."""
    told = ((covariate, [_value(covariate, one) for pair in pairs for one in pair]) for covariate in COVARIATES)
    return [covariate for covariate, values in told if values and all(value == 0 for value in values)]


def _compared(covariate: Covariate, pairs: Pairs, level: float) -> CovariateContrast | None:
    both = [(_value(covariate, treatment), _value(covariate, reference)) for treatment, reference in pairs]
    known = [(one, other) for one, other in both if one is not None and other is not None]
    if not known or not any(one or other for one, other in known):
        return None
    treatment, reference = (np.array(side) for side in zip(*known, strict=True))
    if covariate.scale == "ratio" and min(treatment.min(), reference.min()) < 0:
        return None  # it has no ratio
    if covariate.scale == "ratio":
        with np.errstate(invalid="ignore"):  # two zeros are alike, one lies infinitely far below
            logs = portable_math.log(treatment) - portable_math.log(reference)
        logs[np.isnan(logs)] = 0.0
        found = as_ratio(signed_rank(logs, level, LOG_RESOLUTION))
    else:
        largest = float(np.abs(np.concatenate([treatment, reference])).max())
        found = signed_rank(treatment - reference, level, largest * LOG_RESOLUTION)
    return CovariateContrast(
        covariate,
        len(known),
        statistics.median(treatment.tolist()),
        statistics.median(reference.tolist()),
        found.estimate,
        found.interval,
        bool((treatment == reference).all()),
    )


def _value(covariate: Covariate, replicate: Replicate) -> float | None:
    """The mean over the repeats of a boot; None when one of them does not have it."""
    values = [covariate.of(record) for record in replicate.records]
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None
