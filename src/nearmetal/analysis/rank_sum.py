"""The rank-sum statistic of Wilcoxon, Mann and Whitney: how far two samples lie apart, with exact test and interval.

For values that are not in pairs, as those of two runs. The estimate is the median of all differences between a value of
one sample and one of the other (Hodges and Lehmann 1963); the interval holds the shifts that the exact test does not
reject. Differences of exactly the shift count against a verdict: with ties the test errs on the cautious side.
"""

import math
from functools import lru_cache

import numpy as np

from nearmetal.analysis.signed_rank import Centre, Floats, counted

MOST_EXACT = 60
"""Values of a sample up to which the null distribution is computed exactly; beyond, a normal one is as good."""


def rank_sum(first: Floats, second: Floats, level: float, resolution: float) -> Centre:
    """By how much `second` lies above `first`: estimate, interval of confidence 1 - level, and two-sided p of no shift.

    Differences closer than `resolution` (> 0, in their unit) are one value. Interval and p are None with too few
    values. ValueError where a sample has none.
    """
    if not len(first) or not len(second):
        raise ValueError("no values")
    steps = [np.rint(sample / resolution).astype(np.int64) for sample in (first, second)]
    shifts = np.sort((steps[1][:, None] - steps[0][None, :]).ravel())
    estimate = float(shifts[(len(shifts) - 1) // 2] + shifts[len(shifts) // 2]) / 2 * resolution
    two_sided = _two_sided(*sorted((len(first), len(second))))
    if not are_enough(len(first), len(second), level):
        return Centre(estimate, None, None)
    (low, high), p = counted(shifts, two_sided, level)
    return Centre(estimate, (low * resolution, high * resolution), p)


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
