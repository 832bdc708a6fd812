"""The Wilcoxon signed-rank statistic: estimate, exact test and interval, all three from the one statistic.

The differences of n blocks are taken to be symmetric about an unknown centre. For every possible centre the exact
test flips the signs of what is left after subtracting it; its null distribution is that of the sum of positive
ranks. The interval holds the centres which that test does not reject, the estimate is the median of the Walsh
averages (Hodges and Lehmann 1963), where the statistic is in balance.

*Ties* get mid-ranks, and the null distribution is computed for those very ranks (doubled, so that they are whole).

*Zeros*, differences equal to the centre, follow Pratt: they are ranked with the others, then their ranks are left
out of the sum and of the flips. Dropping them before ranking, as Wilcoxon did, can turn an effect insignificant by
making every difference larger, and then the centres not rejected need not form an interval (J. W. Pratt, "Remarks
on zeros and ties in the Wilcoxon signed rank procedures", JASA 54, 1959).

*Agreement*: a published interval is closed, so where the test jumps (at a Walsh average) both the interval and p take
the larger of the p-values on either side and at the jump, 1 where the jump passes the balance of signs; and should p
dip between two centres that are not rejected, both ignore the dip. Ties and zeros are so resolved against a verdict,
never for it, and the interval excludes 0 exactly when p <= level.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")

_CHUNK = 2**20
"""Matrix elements at once: bounds the memory for many tied blocks."""


@dataclass(frozen=True, slots=True)
class SignedRank:
    """What n differences say of their centre, in their unit. `interval` and `p` are None when n is too small."""

    estimate: float
    interval: tuple[float, float] | None
    p: float | None


def signed_rank(differences: Floats, level: float, resolution: float) -> SignedRank:
    """Estimate, interval of confidence 1 - level, and two-sided p for a centre of 0.

    Differences closer than `resolution` (> 0, in their unit) are one value: it keeps rounding in the last bits from
    breaking ties. ValueError when there is no difference at all.
    """
    if not len(differences):
        raise ValueError("no differences")
    n = len(differences)
    steps = np.rint(differences / resolution).astype(np.int64)
    sums = np.sort(_pairwise_sums(steps))
    estimate = float(sums[(len(sums) - 1) // 2] + sums[len(sums) // 2]) / 4 * resolution
    if not enough(n, level):
        return SignedRank(estimate, None, None)
    distinct = len(set(steps.tolist())) == n
    (low, high), p = inverted_distinct(sums, n, level) if distinct else inverted(steps, sums, level)
    return SignedRank(estimate, (low / 2 * resolution, high / 2 * resolution), p)


def enough(blocks: int, level: float) -> bool:
    """Whether the most extreme outcome of this many blocks, p = 2^(1 - n), can be significant at all."""
    return blocks > 0 and 2.0 ** (1 - blocks) <= level


def inverted(steps: Integers, sums: Integers, level: float) -> tuple[tuple[int, int], float]:
    """Interval (doubled) and p for any differences: rank them anew about every centre and between every two.

    `sums` are the Walsh averages, doubled and ascending. p can change at these centres only; at each it is the
    largest of its values just below, at and just above.
    """
    outside = min(1.0, 2.0 ** (1 - len(steps)))
    if sums[0] == sums[-1]:  # often so: no errors in either arm
        return (int(sums[0]), int(sums[0])), 1.0 if sums[0] == 0 else outside
    centres, counts = np.unique(sums, return_counts=True)
    at = _exact_p(steps, 2 * centres)
    between = _exact_p(steps, centres[:-1] + centres[1:])
    p = np.maximum(at, np.maximum(np.append(outside, between), np.append(between, outside)))
    upto = np.cumsum(counts)
    p[(2 * (upto - counts) <= len(sums)) & (len(sums) <= 2 * upto)] = 1.0
    kept = centres[p > level]
    from_below = float(p[centres <= 0].max(initial=outside))
    from_above = float(p[centres >= 0].max(initial=outside))
    return (int(kept[0]), int(kept[-1])), min(from_below, from_above)


def inverted_distinct(sums: Integers, n: int, level: float) -> tuple[tuple[int, int], float]:
    """The same, sooner, for n differences of which no two are equal.

    Next to every centre their ranks are then 1 to n, so that one null distribution serves for all, the interval's
    ends are order statistics of the Walsh averages, and p comes from how many of these lie on either side of 0.
    """
    two_sided = _two_sided(tuple(range(1, n + 1)))
    rejected = int(np.searchsorted(two_sided, level, side="right"))
    below, upto = (int(np.searchsorted(sums, 0, side=side)) for side in _SIDES)
    total = len(sums)
    balanced = 2 * below <= total <= 2 * upto
    p = 1.0 if balanced else float(max(two_sided[min(below, total - below)], two_sided[min(upto, total - upto)]))
    return (int(sums[rejected - 1]), int(sums[total - rejected])), p


def _pairwise_sums(steps: Integers) -> Integers:
    """Walsh averages, doubled so that they are whole: x_i + x_j for i <= j."""
    first, second = _pairs(len(steps))
    return np.asarray(steps[first] + steps[second])


@lru_cache(maxsize=256)
def _pairs(n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    first, second = np.triu_indices(n)
    return first, second


@lru_cache(maxsize=8192)
def _two_sided(ranks: tuple[int, ...]) -> Floats:
    """At index t: the probability, doubled and at most 1, that a random half of the signs sums up to t or less.

    Dynamic programming over the ranks (whole numbers). Exact to 53 ranks, since every probability is then a multiple
    of 2^-53; beyond that to double precision.
    """
    probability = np.zeros(sum(ranks) + 1)
    probability[0] = 1.0
    reached = 0
    for rank in ranks:
        reached += rank
        probability[: reached + 1] *= 0.5
        probability[rank : reached + 1] += probability[: reached + 1 - rank].copy()
    cumulative = np.minimum(1.0, 2.0 * np.cumsum(probability))
    cumulative.flags.writeable = False
    return cumulative


def _exact_p(steps: Integers, centres: Integers) -> Floats:
    """Two-sided p of each centre (times 4), from the sign flips of the doubled mid-ranks about it."""
    rows = max(1, _CHUNK // len(steps))
    chunks = [
        _exact_p_of_rows(4 * steps[None, :] - centres[start : start + rows, None])
        for start in range(0, len(centres), rows)
    ]
    return np.concatenate(chunks) if chunks else np.empty(0)


def _exact_p_of_rows(residuals: Integers) -> Floats:
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
        p[mine] = _two_sided(tuple(int(rank) for rank in pattern if rank))[extreme[mine]]
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
