"""Block differences with all that may be known of a side: a value, zero on a ratio scale, a bound, a failure. Pure.

Differences are treatment less reference, of logarithms on a ratio scale. Three kinds of sides have no number there:

- A boot that *failed* is worse than any value, so that the difference is infinite. Two failures are alike.
- *Zero* on a ratio scale lies infinitely far below all else. Two zeros are alike.
- Of a *censored* value only a bound is known: the difference may be whatever the values within the bounds allow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearmetal.analysis import portable_math
from nearmetal.analysis.responses import Value
from nearmetal.analysis.signed_rank import Centre, Floats, signed_rank
from nearmetal.model import Better, ResponseKind

Sides = Sequence[tuple[Value | None, Value | None]]
"""Treatment and reference, one pair per block; None where that side failed. All values are of one kind and finite. On a
ratio scale none is negative."""


@dataclass(frozen=True, slots=True)
class Differences:
    """One number per block each, infinite where one side failed or is zero on a ratio scale."""

    told: Floats
    """Bounds are taken for values."""
    lowest: Floats
    """The least that bounds allow. The same object as `told` if nothing is censored."""
    highest: Floats

    @property
    def are_bounded(self) -> bool:
        return self.lowest is not self.told

    def shift(self, by: Floats) -> "Differences":
        """One number per block added to each."""
        told = self.told + by
        return Differences(told, self.lowest + by, self.highest + by) if self.are_bounded else Differences(*[told] * 3)

    def rank(self, level: float, resolution: float) -> Centre:
        """As `signed_rank` has it. If bounds allow several differences, the interval holds what any of them would not
        reject, and p is the largest."""
        found = signed_rank(self.told, level, resolution)
        if not self.are_bounded:
            return found
        low, high = (signed_rank(ends, level, resolution) for ends in (self.lowest, self.highest))
        if low.interval is None or high.interval is None or low.p is None or high.p is None:
            return found
        # No effect may lie between both: then nothing speaks against it.
        p = max(low.p, high.p) if low.estimate > 0 or high.estimate < 0 else 1.0
        return Centre(found.estimate, (low.interval[0], high.interval[1]), p)


def find_differences(sides: Sides, kind: ResponseKind) -> Differences:
    """Treatment less reference, block by block."""
    treatment, reference = ([pair[side] for pair in sides] for side in (0, 1))
    bounds = {value.censored for side in (treatment, reference) for value in side if value is not None}
    told = _subtract(_values(treatment, kind), _values(reference, kind), treatment, reference, kind.better)
    if bounds <= {None}:
        return Differences(told, told, told)
    (least, most), (others_least, others_most) = (_bounds(side, kind) for side in (treatment, reference))
    lowest, highest = (
        _subtract(mine, others, treatment, reference, kind.better)
        for mine, others in ((least, others_most), (most, others_least))
    )
    return Differences(told, lowest, highest)


def _subtract(
    mine: Floats, others: Floats, treatment: Sequence[Value | None], reference: Sequence[Value | None], better: Better
) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):  # infinite less infinite: both are zero, which is alike
        differences = mine - others
    differences[np.isnan(differences)] = 0.0
    worse = -math.inf if better == "higher" else math.inf
    gaps, others_gaps = (np.array([value is None for value in side], dtype=bool) for side in (treatment, reference))
    differences[gaps] = worse
    differences[others_gaps] = -worse
    differences[gaps & others_gaps] = 0.0
    return differences


def _values(side: Sequence[Value | None], kind: ResponseKind) -> Floats:
    return _on_scale(np.array([0.0 if value is None else value.value for value in side]), kind)


def _bounds(side: Sequence[Value | None], kind: ResponseKind) -> tuple[Floats, Floats]:
    """The least and the most that each value may be."""
    values = _values(side, kind)
    bounds = [None if value is None else value.censored for value in side]
    is_left, is_right = (np.array([bound in (end, "both") for bound in bounds]) for end in ("left", "right"))
    return np.where(is_left, -math.inf, values), np.where(is_right, math.inf, values)


def _on_scale(values: Floats, kind: ResponseKind) -> Floats:
    if kind.scale == "difference":
        return values
    return portable_math.log(values)
