"""How much a verdict says, and what an undecided one lacks."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmetal.analysis.analyse import find_pace
from nearmetal.analysis.results import Verdict
from nearmetal.analysis.signed_rank import Centre, enough, signed_rank
from nearmetal.analysis.verdict_rules import count_disagreeing, find_least_blocks, find_needed_blocks, judge
from nearmetal.model import Better, Response
from nearmetal.report import words
from nearmetal.units import show_elapsed
from tests.analysis_inputs import manifest, only, plain, record, run, whole_run, wobble


@pytest.mark.parametrize(
    ("interval", "better", "verdict"),
    [
        ((0.99, 1.03), "higher", Verdict.NOT_WORSE),
        ((0.97, 1.01), "higher", Verdict.UNDECIDED),
        ((0.97, 1.01), "lower", Verdict.NOT_WORSE),
        ((0.99, 1.03), "lower", Verdict.UNDECIDED),
        ((0.99, 1.01), "higher", Verdict.EQUIVALENT),
        ((1.01, 1.03), "higher", Verdict.DIFFERENT),
        ((0.985, 0.999), "lower", Verdict.EQUIVALENT),
        ((0.99, float("inf")), "higher", Verdict.NOT_WORSE),
        ((0.0, 1.01), "higher", Verdict.UNDECIDED),
    ],
)
def test_not_worse_is_an_interval_whose_worse_end_lies_within_the_margin(
    interval: tuple[float, float], better: Better, verdict: Verdict
) -> None:
    assert judge(interval, (1 / 1.02, 1.02), 1.0, better) == (verdict, None)
    if verdict is Verdict.NOT_WORSE:
        assert judge(interval, (1 / 1.02, 1.02), 1.0) == (Verdict.UNDECIDED, None)
        assert judge(interval, None, 1.0, better) == (Verdict.UNDECIDED, "no-margin")


@pytest.mark.parametrize("level", [0.05, 0.0125, 0.5])
@pytest.mark.parametrize("blocks", [3, 6, 8, 9, 12, 14])
def test_k_blocks_may_disagree_and_one_more_may_not(blocks: int, level: float) -> None:
    k = count_disagreeing(blocks, level)
    assert (k is None) == (not enough(blocks, level))
    if k is None:
        return
    for count, is_found in ((k, True), (k + 1, False)):
        values = np.arange(1.0, blocks + 1)
        values[:count] *= -1
        p = signed_rank(values, level, 1.0).p
        assert p is not None and (p <= level) == is_found


def test_k_of_many_blocks_is_near_the_exact_one() -> None:
    found = [count_disagreeing(blocks, 0.05) for blocks in range(6, 200)]
    steps = [(after or 0) - (before or 0) for before, after in itertools.pairwise(found)]
    assert set(steps) <= {0, 1}


def test_what_an_undecided_contrast_needs() -> None:
    wide = Centre(0.01, (-0.01, 0.03), 0.2)
    assert find_needed_blocks(wide, 0.02, 8, 0.05) == 32  # either way half the width is twice the room
    assert find_needed_blocks(wide, 0.05, 8, 0.05) == 9  # 8 x (0.02 / 0.04)^2 are fewer than it has already
    assert find_needed_blocks(Centre(0.0, (-0.04, 0.04), 1.0), 0.02, 10, 0.05) == 40
    assert find_needed_blocks(Centre(0.0, (-0.04, 0.04), 1.0), None, 10, 0.05) is None
    assert find_needed_blocks(Centre(0.0, (-float("inf"), 0.04), 1.0), 0.02, 10, 0.05) is None
    assert find_needed_blocks(Centre(0.3, None, None), 0.02, 3, 0.0125) == find_least_blocks(0.0125) == 8
    assert find_needed_blocks(Centre(1e-9, (-1.0, 1.0), 1.0), None, 10, 0.05) is None


@given(st.floats(1e-6, 0.9))
def test_the_least_blocks_are_enough_and_one_fewer_are_not(level: float) -> None:
    least = find_least_blocks(level)
    assert enough(least, level) and not enough(least - 1, level)


def test_a_contrast_tells_its_degree() -> None:
    half = only(run(manifest(), whole_run(manifest(), lambda block, arm, _: 100 * (0.5 if arm == "docker" else 1))))
    assert (half.beyond_margin, half.needs, half.k) == (True, None, 2)
    assert words.small_print(half).endswith("beyond the margin")
    of = manifest(margin="60%")
    near = only(run(of, whole_run(of, lambda block, arm, _: 100.0 * (1 + wobble(block, 0.9) * (arm == "docker")))))
    assert near.verdict is Verdict.UNDECIDED and near.needs is not None and near.needs > 8
    assert words.small_print(near).endswith(f"about {near.needs} blocks would decide it")
    few = manifest(blocks=3)
    short = only(run(few, whole_run(few, lambda block, arm, _: 100.0)))
    assert words.small_print(short) == "3 blocks, too few blocks to tell, at least 6 are needed"


def test_what_would_decide_it_has_a_time_at_the_runs_pace() -> None:
    of = manifest(margin="60%")
    records = [
        one.model_copy(update={"phases_ns": {"create": 10**9, "measure": 4 * 10**9}})
        for one in whole_run(of, lambda block, arm, _: 100.0 * (1 + wobble(block, 0.9) * (arm == "docker")))
    ]
    near = only(run(of, records))
    assert near.needs is not None and near.needs_seconds == near.needs * 10.0
    assert f"about {near.needs} blocks, some {show_elapsed(near.needs * 10)}, would" in words.small_print(near)
    assert find_pace([]) is None


Of = Callable[[int], float]


@pytest.mark.parametrize(
    ("reference", "verdict", "reason"),
    [
        (lambda block: 10.0, Verdict.EQUIVALENT, None),
        (lambda block: (2.0, 18.0)[block % 2], Verdict.UNDECIDED, "margin-varies"),
    ],
)
def test_a_margin_of_a_reference_that_varies_is_no_fixed_one(reference: Of, verdict: Verdict, reason: str) -> None:
    """Half a unit apart either way, 10 % of the reference's median and of 2 far more."""
    of = manifest(margin="10%", blocks=12)
    records = whole_run(
        of, lambda block, arm, _: reference(block) + (wobble(block, 1.6) if arm == "docker" else 0.0), plain
    )
    contrast = only(run(of, records))
    assert (contrast.verdict, contrast.reason) == (verdict, reason)


def test_a_difference_beyond_the_margin_is_so_by_shares_too() -> None:
    of = manifest(margin="10%")
    far = only(run(of, whole_run(of, lambda block, arm, _: 0.25 if arm == "docker" else 0.20, plain)))
    assert far.beyond_margin
    wide = only(
        run(of, whole_run(of, lambda b, arm, _: (0.2, 4.0, 0.2)[b % 3] + (0.1 if arm == "docker" else 0), plain))
    )
    assert (wide.verdict, wide.beyond_margin) == (Verdict.DIFFERENT, False)


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_not_worse_stands_in_an_analysis(better: Better) -> None:
    of = manifest(blocks=8)
    sign = 1 if better == "higher" else -1
    records = [
        record(
            arm,
            block,
            {
                "throughput": Response(
                    value=100 * (1 + (sign * (-0.015, -0.01, 0.04, 0.08)[block % 4] if arm == "docker" else 0)),
                    unit="1/s",
                    better=better,
                )
            },
        )
        for block in range(8)
        for arm in ("host", "docker")
    ]
    contrast = only(run(of, records))
    assert contrast.verdict is Verdict.NOT_WORSE
    assert (words.badge_verdict(contrast).text, words.choose_tone(contrast)) == ("not worse", "no-worse")
