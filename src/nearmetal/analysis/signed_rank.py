"""The Wilcoxon signed-rank statistic: estimate, exact test and interval, all three from the one statistic, as
docs/validity.md has them.

*Ties* get mid-ranks, and the null distribution is computed for those very ranks (doubled, so that they are whole).

*Zeros*, differences equal to the centre, follow Pratt: they are ranked with the others, then their ranks are left
out of the sum and of the flips. Dropping them before ranking, as Wilcoxon did, can turn an effect insignificant by
making every difference larger, and then the centres not rejected need not form an interval (J. W. Pratt, "Remarks
on zeros and ties in the Wilcoxon signed rank procedures", JASA 54, 1959).

*Infinite* differences lie beyond all finite ones, and are tied among themselves: failures, which have no size. An end
of the interval, or the estimate, is infinite if it falls among them.

*Agreement*: a published interval is closed, so where the test jumps (at a Walsh average) both the interval and p take
the larger of the p-values on either side and at the jump, 1 where the jump passes the balance of signs. Ties and zeros
are so resolved against a verdict, never for it, and the interval excludes 0 exactly when p <= level.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_BEYOND = 2**57
"""Steps that stand for infinity: far beyond any finite difference, and eight times as many still fit into an int64."""

_FEW = 256
"""Up to so many differences their pairs are looked up at once, beyond it one row after the other."""

_PAIRED = 1_000
"""Beyond so many differences their pairs are counted and not written down, and the statistic is taken to be normal."""

_TIED = 250
"""What _PAIRED is for differences without ties: with ties, each centre has a null distribution of its own."""

_HALVINGS = 32
"""Ranks after which probabilities are scaled once: powers of two are exact, and the array is long."""

_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


@dataclass(frozen=True, slots=True)
class Centre:
    """What values say of where they lie, in their unit. `interval` and `p` are None when n is too small.

    Infinite differences may make the estimate infinite, and each end of the interval.
    """

    estimate: float
    interval: tuple[float, float] | None
    p: float | None


def signed_rank(differences: Floats, level: float, resolution: float) -> Centre:
    """Estimate, interval of confidence 1 - level, and two-sided p for a centre of 0.

    Differences closer than `resolution` (> 0, in their unit, more than 2^-54 of the largest) are one value: it keeps
    rounding in the last bits from breaking ties. ValueError when there is no difference at all, or one is not a number.
    """
    if not len(differences):
        raise ValueError("no differences")
    if np.isnan(differences).any():
        raise ValueError("a difference is not a number")
    n = len(differences)
    steps = _count_steps(differences, resolution)
    ordered = np.sort(steps)
    distinct = bool(np.diff(ordered).all())
    if n > (_PAIRED if distinct else _TIED):
        return _rank_many(ordered, level, resolution)
    sums = np.sort(_pairwise_sums(steps))
    estimate = _value_of(int(sums[(len(sums) - 1) // 2]) + int(sums[len(sums) // 2]), 4, resolution)
    if not enough(n, level):
        return Centre(estimate, None, None)
    # Next to every centre the ranks of distinct differences are 1 to n: one null distribution serves for all.
    (low, high), p = counted(sums, two_sided_distinct(n), level) if distinct else inverted(steps, sums, level)
    return Centre(estimate, (_value_of(low, 2, resolution), _value_of(high, 2, resolution)), p)


def _rank_many(ordered: Integers, level: float, resolution: float) -> Centre:
    """As `signed_rank` has it, of many differences in ascending steps: their pairs are counted, never written down, and
    the statistic is taken to be normal. Ties are resolved against a verdict, as everywhere."""
    n = len(ordered)
    total = n * (n + 1) // 2
    middle = [_find_pairwise_sum(ordered, place) for place in ((total - 1) // 2, total // 2)]
    estimate = _value_of(sum(middle), 4, resolution)
    if not enough(n, level):
        return Centre(estimate, None, None)
    rejected = max(math.floor(_approximate_null(n).inv_cdf(level / 2)) + 1, 1)
    ends = [_find_pairwise_sum(ordered, place) for place in (rejected - 1, total - rejected)]
    interval = _value_of(ends[0], 2, resolution), _value_of(ends[1], 2, resolution)
    return Centre(estimate, interval, _approximate_p(ordered))


def approximate_p(differences: Floats, resolution: float) -> float:
    """Two-sided p for a centre of 0 alone, of many differences. It takes no time to speak of."""
    return _approximate_p(np.sort(_count_steps(differences, resolution)))


def _approximate_p(ordered: Integers) -> float:
    n = len(ordered)
    total = n * (n + 1) // 2
    below, upto = (_count_pairwise_sums(ordered, most) for most in (-1, 0))
    if 2 * below <= total <= 2 * upto:
        return 1.0
    return max(min(1.0, 2 * _approximate_null(n).cdf(min(count, total - count))) for count in (below, upto))


def _approximate_null(n: int) -> NormalDist:
    """Of the sum of ranks of either sign, half a rank lower for continuity."""
    return NormalDist(n * (n + 1) / 4 - 0.5, math.sqrt(n * (n + 1) * (2 * n + 1) / 24))


def _count_steps(differences: Floats, resolution: float) -> Integers:
    return np.clip(np.rint(differences / resolution), -_BEYOND, _BEYOND).astype(np.int64)


def _find_pairwise_sum(ordered: Integers, place: int) -> int:
    """What would stand at this place among the ascending sums x_i + x_j, i <= j: by bisection, until those that are
    left are few enough to be written down."""
    low, high = 2 * int(ordered[0]), 2 * int(ordered[-1])
    below, upto = 0, len(ordered) * (len(ordered) + 1) // 2
    while low < high:
        if upto - below <= len(ordered):
            return int(np.partition(_list_pairwise_sums(ordered, low, high), place - below)[place - below])
        between = (low + high) // 2
        if (count := _count_pairwise_sums(ordered, between)) > place:
            high, upto = between, count
        else:
            low, below = between + 1, count
    return low


def _list_pairwise_sums(ordered: Integers, low: int, high: int) -> Integers:
    """Those from low to high, in any order."""
    own = np.arange(len(ordered))
    begin = np.maximum(np.searchsorted(ordered, low - ordered, side="left"), own)
    length = np.maximum(np.searchsorted(ordered, high - ordered, side="right") - begin, 0)
    first = np.repeat(own, length)
    second = np.arange(len(first)) + np.repeat(begin - np.cumsum(length) + length, length)
    return np.asarray(ordered[first] + ordered[second])


def _count_pairwise_sums(ordered: Integers, most: int) -> int:
    """How many of these are not larger."""
    both = int(np.searchsorted(ordered, most - ordered, side="right").sum())
    return (both + int(np.searchsorted(2 * ordered, most, side="right"))) // 2


def _value_of(steps: int, share: int, resolution: float) -> float:
    """So many steps over `share`, in the unit of the differences; infinite if one of the differences was."""
    return math.copysign(math.inf, steps) if abs(steps) > _BEYOND // 2 else steps / share * resolution


def enough(blocks: int, level: float) -> bool:
    """Whether the most extreme outcome of this many blocks, p = 2^(1 - n), can be significant at all."""
    return blocks > 0 and level > 0 and 2.0 ** (1 - blocks) <= level


def inverted(steps: Integers, sums: Integers, level: float) -> tuple[tuple[int, int], float]:
    """Interval (doubled) and p for any differences: rank them anew about the centres that matter.

    `sums` are the Walsh averages, doubled and ascending; `enough` must hold. p can change at these centres only, and
    falls to either side of the estimate (the tests hold it against a scan of every centre), so that bisection finds
    the interval's ends. It starts from 0, whose p is needed anyway: the two then agree even should p dip somewhere.
    """
    outside = min(1.0, 2.0 ** (1 - len(steps)))
    if sums[0] == sums[-1]:  # often so: no errors in either arm
        return (int(sums[0]), int(sums[0])), 1.0 if sums[0] == 0 else outside
    centres, counts = np.unique(sums, return_counts=True)
    upto = np.cumsum(counts)
    balanced = np.flatnonzero((2 * (upto - counts) <= len(sums)) & (len(sums) <= 2 * upto))
    first, last = int(balanced[0]), int(balanced[-1])
    low_from, low_to, high_from, high_to = 0, first, last + 1, len(centres)
    below, above = int(np.searchsorted(centres, 0, "right")) - 1, int(np.searchsorted(centres, 0, "left"))
    p = 1.0
    if below < first:
        p = _p_at(steps, centres, below) if below >= 0 else outside
        low_from, low_to = (0, below) if p > level else (below + 1, first)
    elif above > last:
        p = _p_at(steps, centres, above) if above < len(centres) else outside
        high_from, high_to = (above + 1, len(centres)) if p > level else (last + 1, above)
    positions = range(len(centres))
    low = bisect_left(positions, True, low_from, low_to, key=lambda i: _p_at(steps, centres, i) > level)
    end = bisect_left(positions, True, high_from, high_to, key=lambda i: _p_at(steps, centres, i) <= level)
    return (int(centres[low]), int(centres[end - 1])), p


def _p_at(steps: Integers, centres: Integers, position: int) -> float:
    """The largest p just below, at and just above one of the ascending centres."""
    near = centres[max(position - 1, 0) : position + 2]
    return float(_exact_p(steps, np.append(near[:-1] + near[1:], 2 * centres[position])).max())


def counted(averages: Integers, two_sided: Floats, level: float) -> tuple[tuple[int, int], float]:
    """Interval and p of a statistic that counts how many of these ascending numbers lie above the centre.

    `two_sided` tells at t how likely t or fewer lie on either side of the true centre, up to the balance of both. Its
    first entry must not be above the level.
    """
    rejected = int(np.searchsorted(two_sided, level, side="right"))
    below, upto = (int(np.searchsorted(averages, 0, side=side)) for side in _SIDES)
    total = len(averages)
    balanced = 2 * below <= total <= 2 * upto
    p = 1.0 if balanced else float(max(two_sided[min(below, total - below)], two_sided[min(upto, total - upto)]))
    return (int(averages[rejected - 1]), int(averages[total - rejected])), p


def _pairwise_sums(steps: Integers) -> Integers:
    """Walsh averages, doubled so that they are whole: x_i + x_j for i <= j."""
    n = len(steps)
    if n <= _FEW:
        first, second = _pairs(n)
        return np.asarray(steps[first] + steps[second])
    sums = np.empty(n * (n + 1) // 2, dtype=np.int64)
    filled = 0
    for index in range(n):
        np.add(steps[index:], steps[index], out=sums[filled : filled + n - index])
        filled += n - index
    return sums


@lru_cache(maxsize=8)
def _pairs(n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    first, second = np.triu_indices(n)
    return first, second


def two_sided_distinct(n: int) -> Floats:
    """At index t: the chance that the ranks of either sign sum to t or less, if no two of n differences are equal."""
    with _one_at_a_time:  # threads ask for the same one
        return _two_sided_distinct(n)


_one_at_a_time = Lock()


@lru_cache(maxsize=8)
def _two_sided_distinct(n: int) -> Floats:
    found = _two_sided(np.arange(1, n + 1), n * (n + 1) // 4)
    found.flags.writeable = False
    return found


def _two_sided(ranks: Integers, most: int) -> Floats:
    """At index t, 0 to `most`: the probability, doubled and at most 1, that a random half of the signs sums to <= t.

    Dynamic programming over the ranks (whole numbers). Exact to 53 ranks, since every probability is then a multiple
    of 2^-53; beyond that to double precision.
    """
    probability, sums = np.zeros(most + 1), np.zeros(most + 1)
    probability[0] = 1.0
    reached = 0
    for number, rank in enumerate(ranks.tolist(), 1):
        reached = min(reached + rank, most)
        sums[:rank] = probability[:rank]
        if rank <= reached:
            np.add(probability[rank : reached + 1], probability[: reached + 1 - rank], out=sums[rank : reached + 1])
        probability, sums = sums, probability
        if number % _HALVINGS == 0 or number == len(ranks):
            probability[: reached + 1] *= 0.5 ** ((number - 1) % _HALVINGS + 1)
    return np.minimum(1.0, 2.0 * np.cumsum(probability))


def _exact_p(steps: Integers, centres: Integers) -> Floats:
    """Two-sided p of each centre (times 4), from the sign flips of the doubled mid-ranks about it."""
    residuals = 4 * steps[None, :] - centres[:, None]
    order = np.argsort(np.abs(residuals), axis=1, kind="stable")
    ordered = np.take_along_axis(residuals, order, axis=1)
    ranks = _doubled_mid_ranks(np.abs(ordered))
    ranks[ordered == 0] = 0
    positive = np.where(ordered > 0, ranks, 0).sum(axis=1)
    extreme = np.minimum(positive, ranks.sum(axis=1) - positive)
    patterns, which = np.unique(ranks, axis=0, return_inverse=True)
    p = np.empty(len(residuals))
    for number, pattern in enumerate(patterns):
        mine = which.reshape(-1) == number
        p[mine] = _two_sided(pattern[pattern > 0], int(extreme[mine].max()))[extreme[mine]]
    return p


def _doubled_mid_ranks(ordered: Integers) -> Integers:
    """Twice the mid-rank of every element of rows that ascend: first plus last rank among its equals."""
    rows, n = ordered.shape
    rank = np.broadcast_to(np.arange(1, n + 1), (rows, n))
    new = np.ones((rows, n), dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    ends = np.ones((rows, n), dtype=bool)
    ends[:, :-1] = new[:, 1:]
    first = np.maximum.accumulate(np.where(new, rank, 0), axis=1)
    last = np.minimum.accumulate(np.where(ends, rank, n)[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(first + last)
