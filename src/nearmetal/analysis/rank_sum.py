"""The rank-sum statistic of Wilcoxon, Mann and Whitney: how far two samples lie apart, with exact test and interval.

For values that are not in pairs, as those of two runs. The estimate is the median of all differences between a value of
one sample and one of the other (Hodges and Lehmann 1963); the interval holds the shifts that the exact test does not
reject. Differences of exactly the shift count against a verdict: with ties the test errs on the cautious side.
A value may be infinite, which is a rank below or above all others. It may be known by bounds alone: the interval then
holds the shifts that the test does not reject for any values within them, and p is the largest of theirs.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from nearmetal.analysis.signed_rank import Centre, Floats, Integers

MOST_EXACT = 60
"""Values of a sample up to which the null distribution is computed exactly; beyond, a normal one is as good."""

_UNBOUNDED = 2**57
"""Whole steps that stand for an infinite value. No finite one has 2^52, and the sum of four still is an integer."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Values with what is known of each: arrays of one length, low <= value <= high, any of them infinite."""

    values: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, values: Floats) -> "Ranked":
        """Values that are known."""
        return cls(values, values, values)

    @property
    def is_known(self) -> bool:
        """Whether no value is known by bounds alone."""
        return self.low is self.high or bool((self.low == self.high).all())

    @property
    def is_bounded(self) -> bool:
        """Whether none is infinite, nor may be."""
        return bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())


def rank_sum(first: Floats, second: Floats, level: float, resolution: float) -> Centre:
    """By how much `second` lies above `first`: estimate, interval of confidence 1 - level, and two-sided p of no shift.

    Differences closer than `resolution` (> 0, in their unit) are one value. Interval and p are None with too few
    values. ValueError where a sample has none.
    """
    return rank_sum_of_bounds(Ranked.of(first), Ranked.of(second), level, resolution)


def rank_sum_of_bounds(first: Ranked, second: Ranked, level: float, resolution: float) -> Centre:
    """The same of values of which some are known by bounds alone. Estimate and ends are infinite where unbounded."""
    sizes = len(first.values), len(second.values)
    if not all(sizes):
        raise ValueError("no values")
    shifts = _shifts(first.values, second.values, resolution)
    middle = (int(shifts[(len(shifts) - 1) // 2]) + int(shifts[len(shifts) // 2])) / 2
    estimate = _in_unit(middle, resolution)
    if not are_enough(*sizes, level):
        return Centre(estimate, None, None)
    two_sided = _two_sided(*sorted(sizes))
    lows = highs = shifts
    if not (first.is_known and second.is_known):
        lows, highs = _shifts(first.high, second.low, resolution), _shifts(first.low, second.high, resolution)
    rejected = int(np.searchsorted(two_sided, level, side="right"))
    ends = int(lows[rejected - 1]), int(highs[len(highs) - rejected])
    interval = _in_unit(ends[0], resolution), _in_unit(ends[1], resolution)
    return Centre(estimate, interval, _largest_p(lows, highs, two_sided))


def _shifts(first: Floats, second: Floats, resolution: float) -> Integers:
    """All differences between both samples in whole steps, ascending."""
    steps = [
        np.where(np.isinf(sample), np.sign(sample) * _UNBOUNDED, np.rint(sample / resolution)).astype(np.int64)
        for sample in (first, second)
    ]
    return np.asarray(np.sort((steps[1][:, None] - steps[0][None, :]).ravel()))


def _in_unit(steps: float, resolution: float) -> float:
    """In the unit of the values. Half of what is unbounded is so too."""
    return math.copysign(math.inf, steps) if abs(steps) >= _UNBOUNDED / 4 else steps * resolution


def _largest_p(lows: Integers, highs: Integers, two_sided: Floats) -> float:
    """Two-sided p of no shift: the largest of all values within the bounds, with ties counted to either side."""
    total = len(lows)
    below, upto = int(np.searchsorted(highs, 0, side="left")), int(np.searchsorted(lows, 0, side="right"))
    if 2 * below <= total <= 2 * upto:
        return 1.0
    return float(max(two_sided[min(below, total - below)], two_sided[min(upto, total - upto)]))


def are_enough(first: int, second: int, level: float) -> bool:
    """Whether samples of so many values can differ at a level at all."""
    return min(first, second) > 0 and bool(_two_sided(*sorted((first, second)))[0] <= level)


@lru_cache(maxsize=8)
def _two_sided(fewer: int, more: int) -> Floats:
    """At u: the chance, doubled and at most 1, that u or fewer of all pairs have the first sample's value above."""
    pairs = fewer * more
    if more > MOST_EXACT:
        spread = math.sqrt(pairs * (fewer + more + 1) / 12)
        chances = [math.erfc((pairs / 2 - u - 0.5) / spread / math.sqrt(2)) for u in range(pairs // 2 + 1)]
        return np.minimum(1.0, np.array(chances, dtype=np.float64))
    # How often so many of the smallest ranks, in which one sample's values lie, make such a number of pairs.
    counts = np.zeros((fewer + 1, pairs + 1))
    counts[0, 0] = 1.0
    for rank in range(1, fewer + more + 1):
        for chosen in range(min(rank, fewer), 0, -1):
            above = rank - chosen
            if above <= more:
                counts[chosen, above:] += counts[chosen - 1, : pairs + 1 - above]
    cumulative = np.cumsum(counts[fewer, : pairs // 2 + 1]) / math.comb(fewer + more, fewer)
    return np.asarray(np.minimum(1.0, 2.0 * cumulative))
