"""What else differs where a verdict differs: figures that observers left in records, compared block by block.

Each is compared as an exploratory response is: the pseudomedian of the blocks' differences, its interval by inverting
the signed-rank test at alpha. None is corrected for how many there are, and none is a proof of cause: they go along.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearmetal.analysis import elementary
from nearmetal.analysis.contrasts import LOG_RESOLUTION, as_ratio
from nearmetal.analysis.responses import Replicate
from nearmetal.analysis.signed_rank import signed_rank
from nearmetal.analysis.traits import TRAITS, Trait
from nearmetal.model import Scale

Pairs = Sequence[tuple[Replicate, Replicate]]
"""Treatment and reference, one pair per block."""


@dataclass(frozen=True, slots=True)
class TraitContrast:
    """A trait of one contrast. `estimate` and `interval` are on the trait's scale; a ratio may be 0 or infinite."""

    trait: Trait
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
        return self.trait.scale

    @property
    def differs(self) -> bool:
        """Whether the interval excludes that there is no difference, or hardly one."""
        return self._is_apart and not self.is_slight

    @property
    def is_slight(self) -> bool:
        """Whether the interval excludes that there is no difference, and that it is more than hardly any."""
        return self._is_apart and self._most < self.trait.least

    @property
    def _neutral(self) -> float:
        return 1.0 if self.scale == "ratio" else 0.0

    @property
    def _is_apart(self) -> bool:
        return self.interval is not None and not self.interval[0] <= self._neutral <= self.interval[1]

    @property
    def _most(self) -> float:
        """In the trait's unit, how far apart both sides are by the far end of the interval."""
        far = max(abs(end - self._neutral) for end in self.interval or (self.estimate,))
        return far * self.reference if self.scale == "ratio" and math.isfinite(far) else far

    @property
    def distance(self) -> float:
        """How far apart both sides are by the estimate: the difference as a share of their mean. For ranking alone."""
        total = abs(self.treatment) + abs(self.reference)
        if self.scale == "ratio":
            share = abs(self.estimate - 1) / (self.estimate + 1) if math.isfinite(self.estimate) else 1.0
            return 2 * share * total / (total + 2 * self.trait.slight)
        total = max(total, abs(self.estimate)) + 2 * self.trait.slight
        return 2 * abs(self.estimate) / total if total else 0.0


def attributed(pairs: Pairs, level: float) -> list[TraitContrast]:
    """Every trait that both sides have: what differs first, what hardly does last, and by how far apart."""
    compared = (_compared(trait, pairs, level) for trait in TRAITS)
    found = [one for one in compared if one is not None]
    return sorted(found, key=lambda one: (one.is_slight, not one.differs, -one.distance))


def nil(pairs: Pairs) -> list[Trait]:
    """What both sides tell, and what did not happen on either."""
    told = ((trait, [_value(trait, one) for pair in pairs for one in pair]) for trait in TRAITS)
    return [trait for trait, values in told if values and all(value == 0 for value in values)]


def _compared(trait: Trait, pairs: Pairs, level: float) -> TraitContrast | None:
    both = [(_value(trait, treatment), _value(trait, reference)) for treatment, reference in pairs]
    known = [(one, other) for one, other in both if one is not None and other is not None]
    if not known or not any(one or other for one, other in known):
        return None
    treatment, reference = (np.array(side) for side in zip(*known, strict=True))
    if trait.scale == "ratio" and min(treatment.min(), reference.min()) < 0:
        return None  # it has no ratio
    if trait.scale == "ratio":
        with np.errstate(invalid="ignore"):  # two zeros are alike, one lies infinitely far below
            logs = elementary.log(treatment) - elementary.log(reference)
        logs[np.isnan(logs)] = 0.0
        found = as_ratio(signed_rank(logs, level, LOG_RESOLUTION))
    else:
        largest = float(np.abs(np.concatenate([treatment, reference])).max())
        found = signed_rank(treatment - reference, level, largest * LOG_RESOLUTION)
    return TraitContrast(
        trait,
        len(known),
        statistics.median(treatment.tolist()),
        statistics.median(reference.tolist()),
        found.estimate,
        found.interval,
        bool((treatment == reference).all()),
    )


def _value(trait: Trait, replicate: Replicate) -> float | None:
    """The mean over the repeats of a boot; None when one of them does not have it."""
    values = [trait.of(record) for record in replicate.records]
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None
