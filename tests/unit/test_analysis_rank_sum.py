"""Two samples: by how much they are apart, and whether that is more than chance."""

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy import stats

from nearmetal.analysis.rank_sum import BoundedValues, rank_sum, rank_sum_of_bounds


def test_p_of_a_few_values_is_that_by_hand() -> None:
    """Of the 252 splits of ten values 2 have no pair out of order, 2 have one, 4 two, 6 three and 10 four."""
    first, second = np.array([1.0, 2.0, 3.0, 4.0, 9.5]), np.array([6.0, 7.0, 8.0, 9.0, 10.0])
    # Placements 0 0 0 0 4 and 4 4 4 4 5 have variances 3.2 and 0.2; mean ranks are 3.8 and 7.2.
    statistic, freedom = 25 * 3.4 / (10 * math.sqrt(16 + 1)), math.floor((16 + 1) ** 2 / (16**2 / 4 + 1**2 / 4))
    studentised = 2 * stats.t.sf(statistic, freedom)
    assert studentised > 24 / 252
    assert rank_sum(first, second, 0.05, 1e-9).p == pytest.approx(studentised)


def test_values_wholly_apart_have_the_p_of_the_exact_test() -> None:
    """They show no spread, and nothing can be more extreme."""
    found = rank_sum(np.arange(4.0), np.arange(4.0) + 10, 0.05, 1e-9)
    assert found.p == pytest.approx(2 / math.comb(8, 4))
    assert found.interval == (7.0, 13.0)


def count_above(first: Sequence[float], second: Sequence[float]) -> int:
    return sum(other > one for one in first for other in second)


@lru_cache
def find_exact_counts(first: int, second: int) -> list[int]:
    """For each way to split so many ranks, how many pairs have the second sample's above."""
    ranks = range(first + second)
    return [count_above([one for one in ranks if one not in split], split) for split in combinations(ranks, second)]


def find_p_here(first: Sequence[float], second: Sequence[float]) -> float:
    """The larger p of both tests if no two values are equal, by their definitions."""
    sizes, pairs = (len(first), len(second)), len(first) * len(second)
    far = abs(count_above(first, second) - pairs / 2)
    exact = statistics.mean(abs(count - pairs / 2) >= far for count in find_exact_counts(*sizes))
    every = sorted((*first, *second))
    placements = [[count_above(own, [one]) for one in other] for own, other in ((second, first), (first, second))]
    spreads = [size * statistics.variance(of) for size, of in zip(sizes, placements, strict=True)]
    if not any(spreads):
        return exact
    freedom = sum(spreads) ** 2 / sum(spread**2 / (size - 1) for spread, size in zip(spreads, sizes, strict=True))
    ranks = [statistics.mean(every.index(one) for one in own) for own in (first, second)]
    statistic = pairs * (ranks[1] - ranks[0]) / len(every) / math.sqrt(sum(spreads))
    return max(exact, 2 * float(stats.t.sf(abs(statistic), math.floor(freedom))))


def scan(first: Sequence[float], second: Sequence[float], level: float) -> tuple[tuple[float, float], float]:
    """Interval and p from every shift there is, each with the largest p of those that are as far out."""
    shifts = sorted(other - one for one in first for other in second)
    gaps = [shifts[0] - 1, *(statistics.mean(both) for both in pairwise(shifts)), shifts[-1] + 1]
    ps = [find_p_here(first, [other - gap for other in second]) for gap in gaps]
    half = len(shifts) / 2
    outermost = [
        max(ps[: below + 1]) if below < half else max(ps[below:]) if below > half else 1.0 for below in range(len(ps))
    ]
    kept = [below for below, p in enumerate(outermost) if p > level]
    return (shifts[kept[0] - 1], shifts[kept[-1]]), outermost[sum(shift < 0 for shift in shifts)]


@pytest.mark.parametrize("seed", range(12))
def test_interval_and_p_are_those_of_every_shift(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = ((4, 4), (5, 5), (4, 7), (6, 5))[seed % 4]
    first, second = (random.normal(size=size).tolist() for size in sizes)
    second = [one * (1, 8, 0.1)[seed % 3] + seed / 6 for one in second]
    interval, p = scan(first, second, 0.1)
    found = rank_sum(np.array(first), np.array(second), 0.1, 1e-12)
    assert found.p == pytest.approx(p)
    assert found.interval == pytest.approx(interval)
    assert (interval[0] > 0 or interval[1] < 0) == (p <= 0.1)


@pytest.mark.parametrize(("fewer", "more"), [(4, 4), (5, 9), (12, 8), (40, 40), (80, 70)])
def test_p_is_no_less_than_that_of_either_test(fewer: int, more: int) -> None:
    random = np.random.default_rng(fewer)
    for shift in (0.0, 0.7, 1.0):
        first, second = random.normal(size=fewer), random.normal(size=more) + shift
        found = rank_sum(first, second, 0.05, 1e-12)
        exact = stats.mannwhitneyu(first, second, method="exact").pvalue
        studentised = stats.brunnermunzel(first, second).pvalue
        assert found.interval is not None and found.p is not None
        # Degrees of freedom are whole numbers here, and many values have a normal approximation.
        assert max(exact, studentised) * 0.98 <= found.p <= max(exact, studentised) * 1.02 + 0.01
        assert (found.interval[0] > 0 or found.interval[1] < 0) == (found.p <= 0.05)
        assert found.estimate == pytest.approx(np.median(second[:, None] - first[None, :]))


def test_ties_count_against_a_verdict() -> None:
    """Whole numbers, of which many are equal, have the larger p of both ways to break all ties."""
    random = np.random.default_rng(3)
    for _ in range(20):
        first, second = random.integers(0, 6, 8).astype(float), random.integers(1, 9, 8).astype(float)
        broken = [rank_sum(first, second + by, 0.05, 1e-9).p for by in (-1e-3, 1e-3)]
        found = rank_sum(first, second, 0.05, 1e-9)
        assert found.p is not None and found.interval is not None
        is_balanced = found.interval[0] < 0 < found.interval[1] and found.p == 1.0
        assert is_balanced or found.p == pytest.approx(max(p for p in broken if p is not None))
        assert (found.interval[0] > 0 or found.interval[1] < 0) == (found.p <= 0.05)


def test_a_failure_is_as_a_value_beyond_all_others() -> None:
    first, second = np.array([5.0, 6.1, 7.2, 8.3, 9.4]), np.array([1.0, 2.1, 3.2, 4.3, -math.inf])
    found = rank_sum(first, second, 0.05, 1e-9)
    assert found.p == rank_sum(first, np.where(np.isinf(second), -1e6, second), 0.05, 1e-9).p
    assert found.interval is not None and math.isinf(found.interval[0]) and found.interval[1] < 0


def test_values_known_by_bounds_alone_have_the_p_of_those_nearest_to_no_shift() -> None:
    """Which is no less than the exact test's of any value within them."""
    first, second = np.arange(8.0), np.arange(8.0) + 5.6
    low, high = second - np.array([0, 0, 3, 0, 0, 0, 2, 0]), second + 1
    found = rank_sum_of_bounds(BoundedValues.of(first), BoundedValues(second, low, high), 0.05, 1e-9)
    assert found.p is not None and found.interval is not None
    assert found.p == rank_sum(first, low, 0.05, 1e-9).p
    ends = [rank_sum(first, bound, 0.05, 1e-9).interval for bound in (low, high)]
    assert ends[0] is not None and ends[1] is not None
    assert found.interval == (ends[0][0], ends[1][1])
    random = np.random.default_rng(1)
    for within in random.uniform(low, high, size=(50, 8)):
        assert stats.mannwhitneyu(first, within, method="exact").pvalue <= found.p + 1e-12


def test_fewer_values_that_scatter_more_are_seldom_called_different() -> None:
    """The exact test alone finds 12 % where nothing is."""
    random = np.random.default_rng(7)
    found = [rank_sum(random.normal(size=20), random.normal(size=8) * 3, 0.05, 1e-12).p for _ in range(2_000)]
    assert np.mean([p is not None and p <= 0.05 for p in found]) <= 0.08


def test_too_few_values_have_an_estimate_and_no_interval() -> None:
    found = rank_sum(np.array([1.0, 2.0]), np.array([5.0, 7.0]), 0.05, 1e-9)
    assert (found.interval, found.p) == (None, None)
    assert found.estimate == pytest.approx(4.5)
    with pytest.raises(ValueError, match="no values"):
        rank_sum(np.array([]), np.array([1.0]), 0.05, 1e-9)


def test_values_that_are_all_alike_are_no_shift() -> None:
    found = rank_sum(np.full(8, 3.0), np.full(8, 3.0), 0.05, 1e-9)
    assert (found.estimate, found.interval, found.p) == (0.0, (0.0, 0.0), 1.0)


def test_two_samples_that_do_not_differ_are_seldom_called_different() -> None:
    """Coarse values tie, and then the test errs on the other side."""
    random = np.random.default_rng(5)
    for decimals, most in ((12, 0.075), (0, 0.05)):
        samples = np.round(random.normal(size=(1_000, 2, 10)), decimals)
        found = [rank_sum(one, other, 0.05, 1e-12).p for one, other in samples]
        assert np.mean([p is not None and p <= 0.05 for p in found]) <= most
