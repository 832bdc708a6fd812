"""The signed-rank machinery against brute force, a second implementation and the properties verdicts rest on."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nearmetal.analysis import signed_rank as module
from nearmetal.analysis.signed_rank import (
    _exact_p,
    _two_sided,
    counted,
    enough,
    inverted,
    signed_rank,
    two_sided_distinct,
)

THOROUGH = settings(max_examples=2 * settings().max_examples)
LEVELS = st.sampled_from([0.5, 0.25, 0.125, 0.1, 0.0625, 0.05, 0.03125, 0.0125, 0.01])
TIED = st.lists(st.integers(-4, 4), min_size=1, max_size=9)
DISTINCT = st.lists(st.integers(-30, 30), min_size=1, max_size=9, unique=True)


def by_flipping_signs(differences: list[int]) -> float:
    """Two-sided p of a zero centre by enumerating every sign vector: mid-ranks, zeros ranked and left out."""
    ranks = [int(2 * rank) for rank in stats.rankdata(np.abs(differences))]
    free = [rank for rank, value in zip(ranks, differences, strict=True) if value]
    observed = sum(rank for rank, value in zip(ranks, differences, strict=True) if value > 0)
    extreme = min(observed, sum(free) - observed)
    sums = [sum(itertools.compress(free, signs)) for signs in itertools.product((0, 1), repeat=len(free))]
    return min(1.0, 2 * sum(one <= extreme for one in sums) / len(sums))


def by_scanning(
    steps: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    sums: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    level: float,
) -> tuple[tuple[int, int], float]:
    """Interval and p from every centre: the outermost not rejected, and p at 0 without any dip towards the estimate."""
    outside = 2.0 ** (1 - len(steps))
    centres, counts = np.unique(sums, return_counts=True)
    upto = np.cumsum(counts)
    between = np.concatenate([[outside], _exact_p(steps, centres[:-1] + centres[1:]), [outside]])
    p = np.maximum.reduce([between[:-1], between[1:], _exact_p(steps, 2 * centres)])
    p[(2 * (upto - counts) <= len(sums)) & (len(sums) <= 2 * upto)] = 1.0
    kept = centres[p > level]
    sides = (p[centres <= 0], p[centres >= 0])
    return (int(kept[0]), int(kept[-1])), min(float(side.max(initial=outside)) for side in sides)


def array(values: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.asarray(values, dtype=np.float64)


@given(TIED)
def test_exact_p_is_the_share_of_sign_flips(values: list[int]) -> None:
    exact = _exact_p(np.asarray(values, dtype=np.int64), np.asarray([0], dtype=np.int64))
    assert exact[0] == by_flipping_signs(values)


@given(DISTINCT, LEVELS)
def test_short_way_for_distinct_differences_gives_the_same(values: list[int], level: float) -> None:
    steps = np.asarray(values, dtype=np.int64)
    sums = np.sort([one + other for one, other in itertools.combinations_with_replacement(values, 2)])
    if enough(len(values), level):
        assert counted(sums, two_sided_distinct(len(values)), level) == inverted(steps, sums, level)


@THOROUGH
@given(st.one_of(TIED, st.lists(st.integers(-12, 12), min_size=1, max_size=16)), LEVELS)
def test_bisection_finds_what_a_scan_of_every_centre_finds(values: list[int], level: float) -> None:
    steps = np.asarray(values, dtype=np.int64)
    sums = np.sort([one + other for one, other in itertools.combinations_with_replacement(values, 2)])
    if enough(len(values), level):
        assert inverted(steps, sums, level) == by_scanning(steps, sums, level)


@THOROUGH
@given(st.one_of(TIED, DISTINCT), LEVELS)
def test_interval_excludes_zero_exactly_when_p_is_at_most_the_level(values: list[int], level: float) -> None:
    result = signed_rank(array(values), level, 1.0)
    if not enough(len(values), level):
        assert result.interval is None and result.p is None
        return
    assert result.interval is not None and result.p is not None
    low, high = result.interval
    assert (low > 0 or high < 0) == (result.p <= level)


@given(st.one_of(TIED, DISTINCT), LEVELS)
def test_p_is_never_below_the_exact_one(values: list[int], level: float) -> None:
    result = signed_rank(array(values), level, 1.0)
    assert result.p is None or result.p >= by_flipping_signs(values)


@given(st.one_of(TIED, DISTINCT))
def test_estimate_is_the_median_of_the_walsh_averages(values: list[int]) -> None:
    walsh = [(one + other) / 2 for one, other in itertools.combinations_with_replacement(values, 2)]
    assert signed_rank(array(values), 0.05, 1.0).estimate == np.median(walsh)


@given(st.one_of(TIED, DISTINCT), LEVELS)
def test_interval_contains_the_estimate(values: list[int], level: float) -> None:
    result = signed_rank(array(values), level, 1.0)
    if result.interval is not None:
        assert result.interval[0] <= result.estimate <= result.interval[1]


@given(st.one_of(TIED, DISTINCT), st.sampled_from([(0.25, 0.1), (0.125, 0.05), (0.05, 0.0125)]))
def test_a_stricter_level_gives_a_wider_interval(values: list[int], levels: tuple[float, float]) -> None:
    loose, strict = (signed_rank(array(values), level, 1.0).interval for level in levels)
    if loose is not None and strict is not None:
        assert strict[0] <= loose[0] and loose[1] <= strict[1]


@given(st.one_of(TIED, DISTINCT), LEVELS, st.integers(-50, 50))
def test_shifting_and_mirroring_carry_through(values: list[int], level: float, shift: int) -> None:
    plain = signed_rank(array(values), level, 1.0)
    shifted = signed_rank(array([value + shift for value in values]), level, 1.0)
    mirrored = signed_rank(array([-value for value in values]), level, 1.0)
    assert shifted.estimate == plain.estimate + shift
    assert mirrored.estimate == -plain.estimate
    assert mirrored.p == plain.p
    if plain.interval is not None:
        low, high = plain.interval
        assert shifted.interval == (low + shift, high + shift)
        assert mirrored.interval == (-high, -low)


@pytest.mark.parametrize("n", [6, 8, 10, 15, 25, 40])
def test_untied_p_agrees_with_scipy(n: int) -> None:
    values = np.random.default_rng(n).normal(0.4, 1.0, n)
    ours = signed_rank(values, 0.05, 1e-12)
    assert ours.p == pytest.approx(stats.wilcoxon(values, method="exact").pvalue, rel=1e-12)


def test_interval_is_the_textbook_one() -> None:
    # Hollander & Wolfe, table 3.1 (Hamilton depression scale factor): the 96.1 % interval and the estimate.
    x = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    y = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    result = signed_rank(np.asarray(y) - np.asarray(x), 0.04, 1e-9)
    assert result.estimate == pytest.approx(-0.46)
    assert result.p == pytest.approx(0.0390625)
    assert result.interval == pytest.approx((-0.786, -0.010))


def test_fewest_blocks_that_can_decide() -> None:
    for family, fewest in ((1, 6), (2, 7), (4, 8), (18, 10)):
        assert enough(fewest, 0.05 / family)
        assert not enough(fewest - 1, 0.05 / family)


def test_all_equal_differences_leave_one_centre() -> None:
    result = signed_rank(array([3] * 8), 0.05, 1.0)
    assert (result.estimate, result.interval, result.p) == (3.0, (3.0, 3.0), 2**-7)


def test_all_zero_is_no_evidence() -> None:
    result = signed_rank(array([0] * 8), 0.05, 1.0)
    assert (result.estimate, result.interval, result.p) == (0.0, (0.0, 0.0), 1.0)


def test_rounding_in_the_last_bits_does_not_break_ties() -> None:
    exact = signed_rank(array([1, 3, -3, 2, 1, 4, 5, 6]), 0.05, 1.0)
    noisy = array([1, 3, -3, 2, 1, 4, 5, 6]) * 0.1 + np.array([0, 1, -1, 1, 1, 0, 1, 0]) * 2e-17
    scaled = signed_rank(noisy, 0.05, 1e-12)
    assert scaled.p == exact.p


def test_many_tied_blocks_stay_affordable() -> None:
    values = np.random.default_rng(1).integers(-3, 9, 200).astype(np.float64)
    result = signed_rank(values, 0.05, 1.0)
    assert result.interval is not None and result.interval[0] > 0


def test_a_tie_among_200_blocks_takes_few_distributions_and_keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).normal(0.1, 1.0, 200)
    values[1] = values[0]
    lengths: list[int] = []

    def counted(ranks: "np.ndarray[tuple[int], np.dtype[np.int64]]", most: int) -> object:
        lengths.append(most + 1)
        return _two_sided(ranks, most)

    monkeypatch.setattr(module, "_two_sided", counted)
    tracemalloc.start()
    try:
        result = signed_rank(values, 0.05, 1e-9)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    centres = 200 * 401 // 2
    assert 0 < len(lengths) <= 3 * (2 * centres.bit_length() + 1)
    assert max(lengths) <= centres + 1  # half the doubled ranks' sum
    assert peak < 32 * 2**20 and kept < 4 * 2**20
    assert result.p == pytest.approx(stats.wilcoxon(values, method="approx").pvalue, rel=0.03)
    untied = signed_rank(values + np.linspace(0, 1e-6, 200), 0.05, 1e-9)
    assert result.interval == pytest.approx(untied.interval, abs=1e-2)


@pytest.mark.parametrize("are_tied", [False, True])
def test_many_differences_are_ranked_as_fewer_are(monkeypatch: pytest.MonkeyPatch, are_tied: bool) -> None:
    """Their pairs counted and their statistic normal, against all pairs and the exact distribution."""
    values = np.random.default_rng(3).normal(0.2, 1.0, 240)
    values[:3] = (-math.inf, -math.inf, math.inf) if are_tied else values[:3]
    exact = signed_rank(values, 0.05, 1e-9)
    monkeypatch.setattr(module, "_PAIRED", 200)
    monkeypatch.setattr(module, "_TIED", 200)
    many = signed_rank(values, 0.05, 1e-9)
    assert many.estimate == exact.estimate
    assert many.interval == pytest.approx(exact.interval, abs=2e-3)
    assert many.p == pytest.approx(exact.p, rel=0.06)
    assert many.p is not None and many.interval is not None
    assert (many.p <= 0.05) == (not many.interval[0] <= 0 <= many.interval[1])


def test_a_hundred_thousand_differences_have_a_result() -> None:
    values = np.random.default_rng(4).normal(0.01, 1.0, 100_000)
    found = signed_rank(values, 0.05, 1e-9)
    assert found.interval is not None and found.p is not None
    assert found.interval[0] <= found.estimate <= found.interval[1] and found.p < 0.05
    half = 1.96 * math.sqrt(math.pi / 3 / len(values))  # of a normal distribution's pseudomedian
    assert found.interval[1] - found.interval[0] == pytest.approx(2 * half, rel=0.02)


def test_many_that_are_all_equal_agree() -> None:
    found = signed_rank(np.full(5_000, 2.0), 0.05, 1e-9)
    assert (found.estimate, found.interval) == (2.0, (2.0, 2.0)) and found.p is not None and found.p < 1e-9
    nothing = signed_rank(np.zeros(5_000), 0.05, 1e-9)
    assert (nothing.interval, nothing.p) == ((0.0, 0.0), 1.0)


def test_nothing_to_analyse_is_an_error() -> None:
    with pytest.raises(ValueError, match="no differences"):
        signed_rank(np.empty(0), 0.05, 1.0)


@pytest.mark.parametrize("ranks", [range(1, 33), range(1, 34), range(1, 71), [2, 2, 2, 5, 5, 40, 41, 41] * 9, [7]])
@pytest.mark.parametrize("share", [0, 3, 2, 1])
def test_the_null_distribution_is_that_of_counting_with_whole_numbers(ranks: "list[int]", share: int) -> None:
    """Python's integers have no end: every count of sign vectors is exact."""
    most = sum(ranks) // share if share else 0
    counts = [1] + [0] * most
    for rank in ranks:
        counts = [count + (counts[at - rank] if at >= rank else 0) for at, count in enumerate(counts)]
    exact = [min(1.0, 2 * total / 2 ** len(ranks)) for total in itertools.accumulate(counts)]
    assert _two_sided(np.asarray(ranks), most) == pytest.approx(exact, rel=1e-12)


def test_pairs_of_many_differences_are_those_of_few() -> None:
    steps = np.random.default_rng(1).integers(-50, 50, module._FEW + 1)
    first, second = np.triu_indices(len(steps))
    assert sorted(module._pairwise_sums(steps)) == sorted(steps[first] + steps[second])


@given(st.lists(st.integers(-9, 9) | st.integers(-(2**57), 2**57), min_size=1, max_size=40), st.data())
def test_a_place_among_the_pairwise_sums_is_found_without_all_of_them(values: list[int], data: st.DataObject) -> None:
    ordered = np.sort(np.array(values, dtype=np.int64))
    sums = np.sort(module._pairwise_sums(ordered))
    place = data.draw(st.integers(0, len(sums) - 1))
    assert module._find_pairwise_sum(ordered, place) == sums[place]
