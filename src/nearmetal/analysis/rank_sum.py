"""The rank-sum statistic of Wilcoxon, Mann and Whitney: how far two samples lie apart, with test and interval.

For values that are not in pairs, as those of two runs. docs/compare.md has the estimate, and the two tests that p and
interval are made of. The studentised one finds too much in short samples, which the exact one bounds; so it need not be
permuted, as K. Neubert and E. Brunner do (Computational Statistics and Data Analysis 51, 2007). As there, samples that
lie wholly apart are the most extreme there can be, though they show no spread.

The studentised p is not monotone in the shift. So p is the largest of any shift at least as far out, and p and interval
agree. Differences of exactly the shift count against a verdict. A value may be infinite, which is a rank below or above
all others. Of values known by bounds alone the studentised test takes the bounds nearest to no shift.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from nearmetal.analysis.signed_rank import Centre, Floats, Integers
from nearmetal.analysis.student_t import student_ps

MOST_EXACT = 60
"""Values of a sample up to which the null distribution is computed exactly; beyond, a normal one is as good."""

_MOST_FREEDOM = 100
"""Degrees of freedom beyond which Student's t hardly changes: as so many, which is cautious."""

_UNBOUNDED = 2**57
"""Whole steps that stand for an infinite value. No finite one has 2^52, and the sum of four still is an integer."""


@dataclass(frozen=True, slots=True)
class BoundedValues:
    """Values with what is known of each: arrays of one length, low <= value <= high, any of them infinite."""

    values: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, values: Floats) -> "BoundedValues":
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
    return rank_sum_of_bounds(BoundedValues.of(first), BoundedValues.of(second), level, resolution)


def rank_sum_of_bounds(first: BoundedValues, second: BoundedValues, level: float, resolution: float) -> Centre:
    """`rank_sum` of values of which some are known by bounds alone.

    Estimate and ends of the interval are infinite where nothing bounds them. ValueError where a sample has none.
    """
    sizes = len(first.values), len(second.values)
    if not all(sizes):
        raise ValueError("no values")
    shifts = np.sort(_find_shifts(first.values, second.values, resolution), axis=None)
    middle = (int(shifts[(len(shifts) - 1) // 2]) + int(shifts[len(shifts) // 2])) / 2
    estimate = _in_unit(middle, resolution)
    if not are_enough(*sizes, level):
        return Centre(estimate, None, None)
    low, p_below = _find_low_end(_find_shifts(first.high, second.low, resolution), level)
    high, p_above = _find_low_end(_find_shifts(-first.low, -second.high, resolution), level)
    return Centre(estimate, (_in_unit(low, resolution), _in_unit(-high, resolution)), min(p_below, p_above))


def _find_shifts(first: Floats, second: Floats, resolution: float) -> Integers:
    """All differences between both samples in whole steps: a row for each of `first`, falling, and rising columns."""
    steps = [
        np.sort(np.where(np.isinf(sample), np.sign(sample) * _UNBOUNDED, np.rint(sample / resolution)).astype(np.int64))
        for sample in (first, second)
    ]
    return np.asarray(steps[1][None, :] - steps[0][::-1, None])


def _find_low_end(shifts: Integers, level: float) -> tuple[int, float]:
    """The lowest shift that is not rejected, and p of no shift: 1 unless most shifts lie above 0.

    Between two neighbouring shifts neither test changes, and so it is enough to look there. With ties p is that on the
    side that is farther in.
    """
    first, second = shifts.shape
    order = np.argsort(shifts, axis=None, kind="stable")
    ascending = shifts.ravel()[order]
    # How many shifts lie below: half of them at most, for the other end is that of the mirrored samples.
    below = np.arange((len(order) + 1) // 2)
    p = np.maximum(find_exact_ps(*sorted((first, second)))[: len(below)], _find_studentised_ps(order, first, second))
    p[1:][ascending[1 : len(below)] == ascending[: len(below) - 1]] = 0.0  # nothing lies between equals
    outermost = np.maximum.accumulate(p)
    end = int(ascending[int(np.searchsorted(outermost, level, side="right")) - 1])
    upto = int(np.searchsorted(ascending, 0, side="right"))
    return end, 1.0 if upto >= len(below) else float(outermost[upto])


def _find_studentised_ps(order: Integers, first: int, second: int) -> Floats:
    """Two-sided p of Brunner and Munzel's statistic if 0, 1, ... of the shifts lie below, fewer than half of them.

    `order` are the places of the ascending shifts in their table. `first` and `second` are its rows and columns.
    """
    pairs = first * second
    below = np.arange((pairs + 1) // 2)
    rows, columns = np.divmod(order[: len(below) - 1], second)
    # Each value's placement is how many of the other sample's it has passed: k before the next, and so the sum of the
    # squares grows by 2 k + 1. Rows fall and columns rise, so that k is the place in the other direction.
    spreads = [
        (size * np.append(0, np.cumsum(2 * passed + 1)) - below**2) / max(size - 1, 1)
        for size, passed in ((first, columns), (second, rows))
    ]
    both = spreads[0] + spreads[1]
    with np.errstate(divide="ignore", invalid="ignore"):  # none below: wholly apart, and so without spread
        statistic = (pairs / 2 - below) / np.sqrt(both)
        # Fewer degrees of freedom than the samples have, after Satterthwaite, and whole.
        freedom = both**2 / (spreads[0] ** 2 / max(first - 1, 1) + spreads[1] ** 2 / max(second - 1, 1))
    freedom[both == 0] = 1.0
    return student_ps(statistic, np.minimum(freedom, _MOST_FREEDOM).astype(np.int64))


def _in_unit(steps: float, resolution: float) -> float:
    """In the unit of the values. Half of what is unbounded is so too."""
    return math.copysign(math.inf, steps) if abs(steps) >= _UNBOUNDED / 4 else steps * resolution


def are_enough(first: int, second: int, level: float) -> bool:
    """Whether samples of so many values can differ at a level at all."""
    return min(first, second) > 0 and bool(find_exact_ps(*sorted((first, second)))[0] <= level)


@lru_cache(maxsize=8)
def find_exact_ps(fewer: int, more: int) -> Floats:
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
