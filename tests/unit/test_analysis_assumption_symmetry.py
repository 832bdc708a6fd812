"""Differences that are found only if blocks are symmetric about their centre: a second p, and a caveat."""

import numpy as np
import pytest
from scipy import stats

from nearmetal.analysis.assumptions import find_lopsided_p, is_lopsided, warn_of_assumptions
from nearmetal.analysis.results import Verdict
from nearmetal.analysis.signed_rank import signed_rank
from nearmetal.report import words
from tests.contrast_examples import contrast

RESOLUTION = 1e-12
LOPSIDED = np.array([*(-1.0 - 0.01 * block for block in range(10)), 8.0, 9.0])
"""Ten blocks lie a little below, two far above: another two modes would move the balance."""


def by_pairs(differences: list[float]) -> float:
    """The same by its definition: a U-statistic of the signs of sums, and its jackknife."""
    n = len(differences)
    signs = [
        np.mean([np.sign(one + other) for place, other in enumerate(differences) if place != at])
        for at, one in enumerate(differences)
    ]
    spread = 2 * np.std(signs, ddof=1) / np.sqrt(n)
    return float(2 * stats.t.sf(abs(np.mean(signs)) / spread, n - 1))


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_studentised_signed_rank(seed: int) -> None:
    differences = np.round(np.random.default_rng(seed).normal(0.3, size=12), 1)  # with ties, and perhaps 0
    assert find_lopsided_p(differences, 0.0, RESOLUTION) == pytest.approx(by_pairs(differences.tolist()), rel=1e-6)


def test_it_is_never_less_than_the_p_of_the_test() -> None:
    assert find_lopsided_p(np.arange(1.0, 13.0), 0.0005, RESOLUTION) == 0.0005  # all agree: nothing varies
    assert find_lopsided_p(np.zeros(12), 1.0, RESOLUTION) == 1.0
    assert find_lopsided_p(np.arange(1.0, 4.0), None, RESOLUTION) is None


def test_failures_count_as_the_largest() -> None:
    failed = np.array([-np.inf, np.inf, -np.inf, *np.linspace(0.5, 1.5, 9)])
    far = np.array([-1e6, 1e6, -1e6, *np.linspace(0.5, 1.5, 9)])
    assert find_lopsided_p(failed, 0.0, RESOLUTION) == pytest.approx(find_lopsided_p(far, 0.0, RESOLUTION))


def test_two_modes_of_one_side_have_a_larger_p() -> None:
    p = signed_rank(LOPSIDED, 0.05, RESOLUTION).p
    lopsided = find_lopsided_p(LOPSIDED, p, RESOLUTION)
    assert p is not None and lopsided is not None and lopsided > p


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"p_lopsided": 0.02}, True),
        ({"p_lopsided": 0.0125}, False),
        ({"p_lopsided": None}, False),
        ({"p_lopsided": 0.02, "look": 1, "look_level": 0.03}, False),
        ({"p_lopsided": 0.02, "verdict": Verdict.EQUIVALENT}, False),
    ],
)
def test_the_word_has_the_caveat_at_the_level_of_the_verdict(changes: dict[str, object], expected: bool) -> None:
    one = contrast(**changes)
    assert is_lopsided(one) == expected
    assert ("if blocks are symmetric" in words.small_print(one)) == expected
    codes = [warning.code for warning in warn_of_assumptions(one)]
    assert ("depends-on-symmetry" in codes) == expected
