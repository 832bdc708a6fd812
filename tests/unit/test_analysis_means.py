"""What the typical boot leaves out is told, and warned of where it would change the answer."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from nearmetal.analysis.means import UNLIKE, compare_means, is_unlike_typical
from nearmetal.analysis.responses import Value, kind_of
from nearmetal.analysis.results import Means, Verdict
from nearmetal.model import Better
from nearmetal.report import words
from nearmetal.report.words import Labels
from tests.analysis_inputs import codes, manifest, only, plain, run, whole_run, wobble
from tests.contrast_examples import contrast

LEVEL = 0.05


def compare(treatment: Sequence[float], reference: Sequence[float], better: Better = "higher") -> Means | None:
    kind = kind_of("1/s", better, "ratio")
    sides = [(Value(one, kind), Value(other, kind)) for one, other in zip(treatment, reference, strict=True)]
    return compare_means(sides, kind, LEVEL)


def test_the_ratio_is_that_of_arithmetic_means_and_its_interval_a_jackknife() -> None:
    treatment, reference = [90.0, 110.0, 50.0, 105.0, 98.0], [100.0, 101.0, 99.0, 103.0, 97.0]
    found = compare(treatment, reference)
    assert found is not None and found.interval is not None and found.spread is not None
    assert found.ratio == pytest.approx(np.mean(treatment) / np.mean(reference))
    without = [
        math.log(np.mean(np.delete(treatment, index)) / np.mean(np.delete(reference, index))) for index in range(5)
    ]
    half = 2.7764451051977987 * math.sqrt(4 / 5 * sum((one - np.mean(without)) ** 2 for one in without))
    assert found.interval == pytest.approx((found.ratio * math.exp(-half), found.ratio * math.exp(half)))
    spreads = [np.std(side, ddof=1) / np.mean(side) for side in (treatment, reference)]
    assert found.spread == pytest.approx(spreads[0] / spreads[1])


@pytest.mark.parametrize(("better", "worse"), [("higher", 2), ("lower", 1)])
def test_boots_worse_than_the_reference_s_worst_are_counted(better: Better, worse: int) -> None:
    found = compare([90.0, 80.0, 100.0, 95.0, 120.0], [95.0, 100.0, 99.0, 98.0, 101.0], better)
    assert found is not None and found.worse == worse


def test_the_interval_does_not_depend_on_the_unit() -> None:
    treatment, reference = np.array([9.0, 11.0, 5.0, 10.0]), np.array([10.0, 12.0, 9.0, 10.0])
    one = compare(treatment.tolist(), reference.tolist())
    huge = compare((treatment * 1e306).tolist(), (reference * 1e306).tolist())
    assert one is not None and huge is not None and one.interval is not None and huge.interval is not None
    assert huge.ratio == pytest.approx(one.ratio) and huge.interval == pytest.approx(one.interval)


@pytest.mark.parametrize(
    ("treatment", "reference"),
    [
        ([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]),
        ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]),
        ([1.0, math.nan, 3.0], [1.0, 2.0, 3.0]),
        ([1e308, 1e308, 1e308], [1e-308, 1e-308, 1e-308]),
        ([], []),
    ],
)
def test_what_has_no_ratio_has_none(treatment: list[float], reference: list[float]) -> None:
    assert compare(treatment, reference) is None


def test_a_single_boot_that_is_not_zero_has_a_ratio_without_interval() -> None:
    found = compare([0.0, 0.0, 3.0], [1.0, 2.0, 3.0])
    assert found is not None and found.ratio == pytest.approx(0.5) and found.interval is None
    alone = compare([2.0], [1.0])
    assert alone is not None and (alone.ratio, alone.interval, alone.spread) == (2.0, None, None)


def test_bounds_and_differences_have_none() -> None:
    kind = kind_of("1/s", "higher", "ratio")
    assert compare_means([(Value(1.0, kind, "censored", "right"), Value(1.0, kind))], kind, LEVEL) is None
    of = manifest()
    assert only(run(of, whole_run(of, lambda block, _, __: 1 + wobble(block, 0.01), plain))).means is None


def test_one_boot_in_ten_at_half_speed_is_equivalent_and_warned_of() -> None:
    of = manifest(blocks=20)

    def value(block: int, environment: str, repeat: int) -> float:
        stalls = environment == "docker" and block in (4, 13)
        return (500.0 if stalls else 1000.0) * (1 + wobble(block + len(environment), 0.004))

    one = only(run(of, whole_run(of, value)))
    assert one.verdict is Verdict.EQUIVALENT
    assert one.means is not None and one.means.ratio == pytest.approx(0.95, abs=0.003) and one.means.worse >= 2
    assert UNLIKE in codes(one)
    (told,) = words.list_means(one, Labels(("environment",)))
    assert (
        told.startswith("mean of boots 0.95 × (") and f"{one.means.worse} of 20 boots worse than the worst of" in told
    )


def test_alike_boots_are_not_warned_of() -> None:
    of = manifest(blocks=20)
    one = only(run(of, whole_run(of, lambda block, name, _: 1000 * (1 + wobble(block + len(name), 0.004)))))
    assert one.means is not None and UNLIKE not in codes(one)


@pytest.mark.parametrize(("mean", "expected"), [(1.019, False), (1.021, True), (0.981, False), (0.979, True)])
def test_the_warning_begins_at_the_margin(mean: float, expected: bool) -> None:
    found = Means(blocks=8, ratio=mean, interval=None, worse=0, spread=None)
    one = contrast(ratio=1.0, interval=(0.99, 1.01), equivalence=(1 / 1.02, 1.02), means=found)
    assert is_unlike_typical(one) == expected
    assert not is_unlike_typical(one.model_copy(update={"ratio": math.inf}))


@pytest.mark.parametrize(("blocks", "expected"), [(2, False), (5, False), (6, True)])
def test_so_few_boots_show_none_that_is_far_from_the_others(blocks: int, expected: bool) -> None:
    found = Means(blocks=blocks, ratio=1.5, interval=None, worse=0, spread=None)
    one = contrast(ratio=1.0, interval=(0.99, 1.01), equivalence=(1 / 1.02, 1.02), means=found)
    assert is_unlike_typical(one) == expected
