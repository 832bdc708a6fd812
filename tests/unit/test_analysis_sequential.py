"""Looks of a sequential design: when they are, what they must see, and what they then say."""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from nearmetal.analysis.analyse import analyse
from nearmetal.analysis.early_stopping import adjust_for_looks, is_futile
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.analysis.sequential import correlation_of, looks
from nearmetal.analysis.signed_rank import signed_rank
from nearmetal.analysis.student_t import find_student_quantile
from nearmetal.run.plan_execution import take_look_after
from nearmetal.store.manifest import Manifest
from tests.analysis_inputs import PRIMARIES, codes, manifest, only, wobble
from tests.analysis_inputs import whole_run as made_up


def test_boundaries_of_the_usual_design() -> None:
    assert [(look.blocks, look.boundary) for look in looks(8, 40, 0.05)] == [
        (8, 36),
        (12, 64),
        (16, 100),
        (24, 168),
        (32, 250),
        (40, 340),
    ]


@pytest.mark.parametrize(
    ("first", "last", "level", "after"),
    [
        (8, 40, 0.0125, [12, 16, 24, 32, 40]),
        (6, 12, 0.05, [8, 12]),
        (10, 20, 0.05, [10, 12, 16, 20]),
        (8, 64, 0.05, [12, 16, 24, 32, 40, 50, 64]),
        (4, 5, 0.05, [5]),
    ],
)
def test_a_look_at_which_nothing_could_be_seen_is_none_but_the_last(
    first: int, last: int, level: float, after: list[int]
) -> None:
    planned = looks(first, last, level)
    assert [look.blocks for look in planned] == after
    unreachable = [look.blocks for look in planned if look.boundary is None]
    assert unreachable == ([5] if last == 5 else [])


@pytest.mark.parametrize("blocks", [8, 12, 24, 40])
def test_boundary_and_level_of_a_look_are_one_rule(blocks: int) -> None:
    """The whole number and the probability, by which intervals are made, reject the same outcomes."""
    look = next(look for look in looks(8, 40, 0.05) if look.blocks == blocks)
    assert look.boundary is not None
    total = blocks * (blocks + 1) // 2
    random = np.random.default_rng(blocks)
    for _ in range(200):
        signs = np.where(random.random(blocks) < 0.8, 1.0, -1.0)
        differences = np.asarray(signs * np.arange(1, blocks + 1) + 0.001, dtype=np.float64)
        reached = abs(2 * np.arange(1, blocks + 1)[signs > 0].sum() - total) >= look.boundary
        found = signed_rank(differences, look.level, 1e-6)
        assert found.p is not None and found.interval is not None
        excludes = found.interval[0] > 0 or found.interval[1] < 0
        assert (found.p <= look.level) == excludes == reached


def test_looks_resemble_each_other_as_simulated_ones_do() -> None:
    random = np.random.default_rng(1)
    differences = random.normal(size=(20_000, 24))

    def statistic(blocks: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        seen = differences[:, :blocks]
        ranks = np.argsort(np.argsort(np.abs(seen), axis=1), axis=1) + 1
        return np.asarray((np.sign(seen) * ranks).sum(axis=1), dtype=np.float64)

    for fewer, more in ((8, 12), (8, 24), (16, 24)):
        simulated = np.corrcoef(statistic(fewer), statistic(more))[0, 1]
        assert correlation_of(fewer, more) == pytest.approx(simulated, abs=0.015)


# ── What is concluded ─────────────────────────────────────────────────────────────────────────────────────────────

SEQUENTIAL = {"min": 8, "max": 40}
Of = Callable[[int], float]
"""A block's ratio of treatment to reference."""


def conclude(of: Manifest, ratio: Of, looked: int, ran: int | None = None) -> Contrast:
    """The verdict when so many blocks were looked at, of those that ran."""
    records = [
        record
        for record in made_up(of, lambda block, arm, _: 100 * (ratio(block) if arm == "docker" else 1.0))
        if record.trial.block < (looked if ran is None else ran)
    ]
    taken = [
        {"event": "LookTaken", "look": number, "blocks": look.blocks, "stops": False}
        for number, look in enumerate(of.plan.looks, 1)
        if look.blocks <= looked
    ]
    return only(analyse(of, records, taken, PRIMARIES))


def test_a_clear_difference_is_decided_at_the_first_look() -> None:
    contrast = conclude(manifest(blocks=SEQUENTIAL), lambda block: 0.5 + wobble(block, 0.01), 8)
    assert (contrast.verdict, contrast.look, contrast.blocks, contrast.level) == (Verdict.DIFFERENT, 1, 8, 0.05)
    assert contrast.look_level == manifest(blocks=SEQUENTIAL).plan.looks[0].level < 0.05
    assert contrast.naive is not None and contrast.interval is not None
    assert contrast.interval[0] <= contrast.naive[0] < contrast.naive[1] <= contrast.interval[1]


def test_a_verdict_stays_as_it_was_at_its_look() -> None:
    """Blocks that ran on for another contrast do not take it back."""
    of = manifest(blocks=SEQUENTIAL)
    ratio: Of = lambda block: (0.5 if block < 8 else 2.0) + wobble(block, 0.01)  # noqa: E731
    early, late = conclude(of, ratio, 8), conclude(of, ratio, 40)
    assert late.model_copy(update={"last_look": None}) == early
    assert late.verdict is Verdict.DIFFERENT and late.ratio == pytest.approx(0.5, rel=0.05)


def test_the_last_look_stands_beside_the_one_that_decided() -> None:
    of = manifest(blocks=SEQUENTIAL)
    ratio: Of = lambda block: (0.5 if block < 8 else 2.0) + wobble(block, 0.01)  # noqa: E731
    assert conclude(of, ratio, 8).last_look is None
    last = conclude(of, ratio, 24, ran=30).last_look
    assert last is not None and last.interval is not None
    at_24 = signed_rank(np.log([ratio(block) for block in range(24)]), of.plan.looks[3].level, 1e-12)
    assert at_24.interval is not None
    assert (last.look, last.blocks) == (4, 24)
    assert (last.estimate, *last.interval) == pytest.approx(np.exp([at_24.estimate, *at_24.interval]))


def test_an_early_estimate_is_corrected_towards_no_effect_and_a_clear_one_stays() -> None:
    of = manifest(blocks=SEQUENTIAL)
    early = conclude(of, lambda block: 0.97 + wobble(block, 0.035), 12)
    assert (early.verdict, early.look) == (Verdict.DIFFERENT, 2)
    assert early.ratio is not None and early.adjusted is not None and early.ratio < early.adjusted < 1
    clear = conclude(of, lambda block: 0.5 + wobble(block, 0.01), 8)
    assert clear.adjusted == pytest.approx(clear.ratio, rel=1e-6)


def test_the_corrected_estimate_is_what_studies_report_on_average() -> None:
    """Of a truth, normal noise and these looks: the mean of what is found, by simulation."""
    planned = looks(8, 40, 0.05)
    truth, random = 0.5, np.random.default_rng(2)
    sums = (random.normal(size=(40_000, 40)) + truth).cumsum(axis=1)
    found = np.full(len(sums), np.nan)
    for look in planned:
        estimates = sums[:, look.blocks - 1] / look.blocks
        boundary = -NormalDist().inv_cdf(look.level / 2) / math.sqrt(look.blocks)
        stops = np.isnan(found) & ((np.abs(estimates) >= boundary) | (look is planned[-1]))
        found[stops] = estimates[stops]
    half = find_student_quantile(1 - planned[1].level / 2, 11) / math.sqrt(12)  # of a spread of 1
    seen = contrast_of(float(found.mean()), half, scale="difference", look=2)
    adjusted = adjust_for_looks(seen, planned)
    assert found.mean() > truth + 0.03
    assert adjusted == pytest.approx(truth, abs=0.02)


def contrast_of(estimate: float, half: float, **update: Any) -> Contrast:
    """A contrast of the difference scale at a look, without a margin."""
    ends = (estimate - half, estimate + half)
    return Contrast.model_construct(difference=estimate, interval=ends, **update)


@pytest.mark.parametrize(
    ("estimate", "half", "margin", "is_hopeless"),
    [
        (0.0, 1.0, None, True),  # nothing but equivalence could be found, and there is no margin
        (0.0, 1.0, 0.2, True),  # the interval will be wider than the margin
        (0.0, 1.0, 1.0, False),
        (0.9, 1.0, None, False),
    ],
)
def test_looks_left_are_held_futile_if_they_will_hardly_decide(
    estimate: float, half: float, margin: float | None, is_hopeless: bool
) -> None:
    planned = looks(8, 40, 0.05)
    seen = contrast_of(estimate, half, scale="difference", look=4)
    seen = seen.model_copy(update={"equivalence": None if margin is None else (-margin, margin)})
    assert is_futile(seen, planned) is is_hopeless


def test_what_is_futile_is_not_waited_for_and_yet_judged_if_blocks_go_on() -> None:
    of = manifest(blocks=SEQUENTIAL)
    ratio: Of = lambda block: (1.0 if block < 24 else 3.0) + wobble(block, 0.2)  # noqa: E731
    noisy = made_up(of, lambda block, arm, _: 100 * (ratio(block) if arm == "docker" else 1.0))
    look = take_look_after(24, of, [record for record in noisy if record.trial.block < 24], [])
    assert look is not None and (look.decided, look.undecided, look.stops) == (0, 0, True)
    early = conclude(of, ratio, 24)
    assert (early.verdict, early.is_futile, early.adjusted) == (Verdict.UNDECIDED, True, None)
    late = conclude(of, ratio, 40)
    assert (late.verdict, late.is_futile) == (Verdict.DIFFERENT, False)


def test_noise_is_looked_at_to_the_end() -> None:
    contrast = conclude(manifest(blocks=SEQUENTIAL), lambda block: 1 + wobble(block, 0.1), 40)
    assert (contrast.verdict, contrast.reason, contrast.look, contrast.blocks) == (Verdict.UNDECIDED, None, 6, 40)
    assert contrast.p is not None and contrast.look_level is not None and contrast.p > contrast.look_level


def test_blocks_after_the_last_look_do_not_count() -> None:
    of = manifest(blocks=SEQUENTIAL)
    ratio: Of = lambda block: 1 + wobble(block, 0.1)  # noqa: E731
    assert conclude(of, ratio, 12, ran=15).pairs == conclude(of, ratio, 12).pairs


@pytest.mark.parametrize(("value", "stops"), [(-1.0, True), (0.0, False), (100.0, False)])
def test_what_no_more_blocks_could_decide_is_not_waited_for(value: float, stops: bool) -> None:
    """One negative value leaves a contrast undecided, however many follow."""
    of = manifest(blocks=SEQUENTIAL)
    noisy = made_up(
        of, lambda block, arm, _: value if (arm, block) == ("docker", 0) else 100 * (1 + wobble(block, 0.1))
    )
    look = take_look_after(8, of, [record for record in noisy if record.trial.block < 8], [])
    assert look is not None
    assert (look.decided, look.stops) == (0, stops)


def test_before_the_first_look_there_is_an_estimate_and_no_verdict() -> None:
    contrast = conclude(manifest(blocks=SEQUENTIAL), lambda _: 0.5, 0, ran=7)
    assert (contrast.verdict, contrast.reason, contrast.look) == (Verdict.UNDECIDED, "not-looked-yet", None)
    assert (contrast.interval, contrast.p) == (None, None)
    assert contrast.ratio == pytest.approx(0.5)


def test_blocks_that_a_look_lacks_are_told_of_that_look() -> None:
    of = manifest(blocks=SEQUENTIAL)
    assert "blocks-missing" not in codes(conclude(of, lambda block: 0.5 + wobble(block, 0.01), 16))


def test_the_same_number_twice_is_a_fixed_number() -> None:
    of = manifest(blocks={"min": 8, "max": 8})
    assert of.plan.looks == ()
    assert conclude(of, lambda block: 0.5 + wobble(block, 0.01), 0, ran=8).look is None
