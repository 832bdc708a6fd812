"""A difference that only independent blocks bear out says so."""

import math

import numpy as np
import pytest

from nearmetal.analysis import assumptions
from nearmetal.analysis.assumptions import (
    ON_INDEPENDENCE,
    estimate_autocorrelation,
    find_dependent_p,
    find_inflation,
    is_dependent,
)
from nearmetal.analysis.differences import Differences
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.analysis.signed_rank import signed_rank
from nearmetal.report import words
from tests.analysis_inputs import codes, manifest, ratio, record, run, wobble
from tests.contrast_examples import contrast

LEVEL = 0.05
RESOLUTION = 1e-12
WAVES = np.sin(np.arange(16) * math.pi / 8)
"""Differences of which each resembles the one before."""


def p_of(values: np.ndarray) -> tuple[float | None, float | None]:
    centre = signed_rank(values, LEVEL, RESOLUTION)
    return centre.p, find_dependent_p(Differences(values, values, values), centre, LEVEL, RESOLUTION)


def test_inflation_is_that_of_the_mean_of_an_autoregression() -> None:
    blocks, rho = 12, 0.4
    lags = np.abs(np.subtract.outer(np.arange(blocks), np.arange(blocks)))
    covariance = rho**lags
    of_mean = covariance.mean()
    scatter = (np.trace(covariance) - blocks * of_mean) / (blocks - 1)
    assert find_inflation(rho, blocks) == pytest.approx(of_mean / (scatter / blocks))
    assert find_inflation(0.0, blocks) == 1.0


def test_differences_that_alternate_keep_their_p() -> None:
    values = np.array([-0.2, 2.2] * 8)
    p, dependent = p_of(values)
    assert estimate_autocorrelation(values) == 0.0
    assert p == dependent


def test_the_same_values_in_an_order_say_less_in_waves() -> None:
    waves = WAVES + 0.6
    shuffled = waves.reshape(2, 8).T.ravel()
    p, in_waves = p_of(waves)
    same, scattered = p_of(shuffled)
    assert p is not None and p == same and p <= LEVEL
    assert in_waves is not None and in_waves > LEVEL
    assert scattered is not None and scattered < in_waves


def test_a_difference_beyond_all_scatter_is_found_in_any_order() -> None:
    p, dependent = p_of(WAVES + 20)
    assert p == dependent == 2.0**-15


@pytest.mark.parametrize("failures", [1, 4, 9, 16])
def test_failures_have_a_p_too(failures: int) -> None:
    values = WAVES + 0.6
    values[:failures] = -math.inf
    p, dependent = p_of(values)
    assert p is not None and dependent is not None and p <= dependent <= 1


@pytest.mark.parametrize("values", [np.zeros(8), np.full(8, 3.0), np.full(8, 1e300), np.arange(8) * 1e300])
def test_values_of_any_size_have_a_p(values: np.ndarray) -> None:
    p, dependent = p_of(values) if values.max() < 1e12 else p_of(values / 1e300)
    assert p is not None and dependent is not None and p <= dependent
    assert math.isfinite(estimate_autocorrelation(values))


@pytest.mark.parametrize("size", [0.0, 0.1, 0.14])
def test_many_blocks_have_nearly_the_exact_p(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    values = np.random.default_rng(1).normal(size, 1, 501)
    _, approximate = p_of(values)
    monkeypatch.setattr(assumptions, "_EXACT", 501)
    _, exact = p_of(values)
    assert approximate == pytest.approx(exact, abs=1e-3)


def test_too_few_blocks_have_none() -> None:
    values = np.arange(1.0, 6.0)
    centre = signed_rank(values, 0.5, RESOLUTION)
    assert centre.p is not None
    assert find_dependent_p(Differences(values, values, values), centre, 0.5, RESOLUTION) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"p_dependent": 0.02}, True),
        ({"p_dependent": 0.0125}, False),
        ({"p_dependent": None}, False),
        ({"p_dependent": 0.02, "look": 1, "look_level": 0.03}, False),
        ({"p_dependent": 0.02, "verdict": Verdict.EQUIVALENT}, False),
    ],
)
def test_the_small_print_has_the_condition_at_its_level(changes: dict[str, object], expected: bool) -> None:
    one = contrast(**changes)
    assert is_dependent(one) == expected
    assert ("if blocks are independent" in words.small_print(one)) == expected


def concluded(size: float) -> tuple[Contrast, Contrast]:
    """Of 16 blocks that come in waves of 1 %: the primary contrast, and one of the same values that is exploratory."""
    of = manifest(blocks=16, margin=0.001)
    values = {
        ("docker", block): 100 * math.exp(size + 0.01 * WAVES[block] + wobble(block, 0.001)) for block in range(16)
    }
    records = [
        record(
            environment, block, {name: ratio(values.get((environment, block), 100.0)) for name in ("throughput", "b")}
        )
        for block in range(16)
        for environment in ("host", "docker")
    ]
    primary, other = run(of, records).contrasts
    return primary, other


def test_a_run_whose_blocks_come_in_waves_is_warned_of() -> None:
    primary, other = concluded(0.006)
    assert primary.verdict is other.verdict is Verdict.DIFFERENT
    assert ON_INDEPENDENCE in codes(primary) and words.list_conditions(primary) == ["if blocks are independent"]
    assert words.badge_verdict(primary).text == "different, better"
    assert other.p_dependent is None and ON_INDEPENDENCE not in codes(other)


def test_a_difference_beyond_the_waves_is_not_warned_of() -> None:
    primary, _ = concluded(0.06)
    assert primary.verdict is Verdict.DIFFERENT and primary.p_dependent == primary.p
    assert ON_INDEPENDENCE not in codes(primary) and not words.list_conditions(primary)
