"""Two samples: by how much they are apart, and whether that is more than chance."""

import numpy as np
import pytest
from scipy import stats

from nearmetal.analysis.rank_sum import rank_sum


@pytest.mark.parametrize(("fewer", "more"), [(4, 4), (5, 9), (12, 8), (40, 40)])
def test_p_is_that_of_the_exact_test(fewer: int, more: int) -> None:
    random = np.random.default_rng(fewer)
    for shift in (0.0, 0.7, 2.0):
        first, second = random.normal(size=fewer), random.normal(size=more) + shift
        found = rank_sum(first, second, 0.05, 1e-12)
        assert found.p == pytest.approx(stats.mannwhitneyu(first, second, method="exact").pvalue)
        assert found.interval is not None and found.p is not None
        assert (found.interval[0] > 0 or found.interval[1] < 0) == (found.p <= 0.05)
        assert found.estimate == pytest.approx(np.median(second[:, None] - first[None, :]))


def test_many_values_are_as_with_the_exact_test() -> None:
    random = np.random.default_rng(1)
    first, second = random.normal(size=80), random.normal(size=70) + 0.3
    exact = stats.mannwhitneyu(first, second, method="exact").pvalue
    assert rank_sum(first, second, 0.05, 1e-12).p == pytest.approx(exact, rel=0.02)


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
