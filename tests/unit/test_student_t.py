"""Student's t, held against a library that has it."""

from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

import nearmetal
from nearmetal.analysis.student_t import find_student_quantile, student_p, student_ps

FREEDOM = [1, 2, 3, 4, 5, 6, 7, 10, 11, 19, 34, 35, 99, 500, 999, 4849, 10_000]


@pytest.mark.parametrize("freedom", FREEDOM)
@pytest.mark.parametrize("t", [0.0, 0.1, 1.0, 1.96, 2.7, 6.0, 40.0])
def test_the_tail_is_that_of_the_library(t: float, freedom: int) -> None:
    assert student_p(t, freedom) == pytest.approx(2 * special.stdtr(freedom, -t), rel=1e-9, abs=1e-12)


def test_tails_of_many_are_those_of_each() -> None:
    pairs = [(t, freedom) for t in (0.0, 0.1, 1.96, 6.0, float("inf")) for freedom in (1, 2, 3, 4, 7, 34, 99)]
    found = student_ps(np.array([t for t, _ in pairs]), np.array([freedom for _, freedom in pairs]))
    assert found == pytest.approx([student_p(*pair) for pair in pairs], rel=1e-9, abs=1e-12)
    assert not len(student_ps(np.array([]), np.array([], dtype=np.int64)))


@pytest.mark.parametrize(
    "freedom", [pytest.param(one, marks=pytest.mark.long if one == max(FREEDOM) else ()) for one in FREEDOM]
)
def test_the_quantile_is_that_of_the_library(freedom: int) -> None:
    for probability in (0.5, 0.5001, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 0.9999, 1 - 1e-6):
        expected = stats.t.ppf(probability, freedom)
        assert find_student_quantile(probability, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-12), probability


def test_the_quantile_is_the_inverse_of_the_tail() -> None:
    for freedom in FREEDOM:
        assert student_p(find_student_quantile(0.975, freedom), freedom) == pytest.approx(0.05, rel=1e-9)


def test_no_module_needs_the_library() -> None:
    """It is 113 MB, and a dependency of the tests alone."""
    files = list(Path(nearmetal.__file__).parent.rglob("*.py"))
    assert files
    assert not [file for file in files if "scipy" in file.read_text()]
