"""A boot that failed is the worst outcome there can be: of statistics, of verdicts, and of what is told of them."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearmetal.analysis.analyse import analyse
from nearmetal.analysis.faults import mcnemar_p
from nearmetal.analysis.responses import arms_of
from nearmetal.analysis.results import Analysis, Contrast, Failures, Verdict
from nearmetal.analysis.signed_rank import enough, signed_rank
from nearmetal.model import Better, Blame, Response, TrialRecord, TrialStatus
from nearmetal.report import words
from nearmetal.report.sections.validity import describe_use
from nearmetal.report.words import Labels
from tests.analysis_inputs import PAIR, PRIMARIES, codes, manifest, only, plain, ratio, record, run, whole_run, wobble

FAILED = TrialStatus.FAILED
LABELS = Labels(("environment",))


def broken(arm: str, block: int, blame: Blame | None = "treatment", **more: Any) -> TrialRecord:
    causes = {"treatment": "service-died", "host": "suspended", "instrument": "generator-died", None: None}
    one = record(arm, block, {}, status=FAILED, **more)
    return one.model_copy(update={"blame": blame, "cause": causes.get(blame, "cancelled")})


def failing(
    blocks: int,
    failed: Mapping[str, Sequence[int]],
    better: Better = "higher",
    effect: float = 1.0,
) -> list[TrialRecord]:
    """A run of both arms in which some blocks of either failed by its own fault."""
    return [
        broken(arm, block)
        if block in failed.get(arm, ())
        else record(
            arm,
            block,
            {
                "throughput": Response(
                    value=100 * (1 + wobble(block + 3 * (arm == "docker"), 0.001)) * (effect if arm == "docker" else 1),
                    unit="1/s",
                    better=better,
                )
            },
        )
        for block in range(blocks)
        for arm in PAIR
    ]


def conclude(blocks: int, failed: Mapping[str, Sequence[int]], **more: Any) -> Contrast:
    return only(run(manifest(blocks=blocks), failing(blocks, failed, **more)))


def test_a_treatment_that_fails_in_a_third_of_its_boots_is_worse_and_not_equivalent() -> None:
    contrast = conclude(30, {"docker": range(0, 30, 3)})
    assert contrast.verdict is Verdict.DIFFERENT
    assert contrast.interval is not None and contrast.interval[0] == 0 and contrast.interval[1] < 1
    assert contrast.failures == Failures(blocks=30, treatment=10, reference=0, both=0, p=2**-9)
    assert contrast.worked is not None and contrast.worked.blocks == 20
    assert contrast.worked.estimate == pytest.approx(1, abs=0.01)
    assert (contrast.blocks, len(contrast.pairs)) == (30, 20)
    assert "blocks-missing" not in codes(contrast) and "blocks-repeated" not in codes(contrast)


@pytest.mark.parametrize(("better", "ends"), [("higher", (0.0, 0.0)), ("lower", (math.inf, math.inf))])
def test_what_fails_always_is_worse_without_bound(better: Better, ends: tuple[float, float]) -> None:
    contrast = conclude(8, {"docker": range(8)}, better=better)
    assert (contrast.verdict, contrast.p, contrast.interval, contrast.ratio) == (
        Verdict.DIFFERENT,
        2**-7,
        ends,
        ends[0],
    )
    assert contrast.worked is None
    assert words.choose_tone(contrast) == "worse"
    assert words.write_sentence(contrast, LABELS) == (
        "docker has no typical ratio to host in throughput (unbounded to unbounded)"
    )


def test_a_difference_that_failures_leave_without_a_number_has_no_unit_either() -> None:
    of_ratio = conclude(8, {"docker": range(8)}, better="lower")
    contrast = of_ratio.model_copy(update={"scale": "difference", "ratio": None, "difference": math.inf})
    assert words.format_estimate(contrast) == "unbounded (unbounded to unbounded)"
    assert words.write_sentence(contrast, LABELS) == (
        "docker has no typical difference from host in throughput (unbounded to unbounded)"
    )


def test_only_what_others_are_to_blame_for_is_told_not_to_count() -> None:
    own, others = broken("docker", 0), broken("docker", 1, "host")
    assert describe_use([own]).endswith("no reason to repeat the block.")
    assert "never counted" not in describe_use([own])
    assert "1 trial failed by the treatment's own fault" in describe_use([own, others])
    assert "The others are kept and never counted" in describe_use([own, others])
    assert describe_use([others]).startswith(" Those are kept and never counted")


def test_a_reference_that_fails_makes_the_treatment_better() -> None:
    contrast = conclude(8, {"host": range(8)})
    assert (contrast.verdict, contrast.interval, words.choose_tone(contrast)) == (
        Verdict.DIFFERENT,
        (math.inf, math.inf),
        "better",
    )


@pytest.mark.parametrize("blocks", [1, 8, 40])
def test_both_sides_failing_everywhere_is_no_equivalence(blocks: int) -> None:
    contrast = conclude(blocks, {arm: range(blocks) for arm in PAIR})
    assert (contrast.verdict, contrast.reason, contrast.p) == (Verdict.UNDECIDED, "all-failed", None)
    assert contrast.failures == Failures(blocks=blocks, treatment=0, reference=0, both=blocks, p=1.0)


def test_equivalence_needs_enough_blocks_in_which_both_worked() -> None:
    contrast = conclude(12, {arm: range(7) for arm in PAIR})
    assert (contrast.verdict, contrast.reason) == (Verdict.UNDECIDED, "too-few-worked")
    assert conclude(14, {arm: range(7) for arm in PAIR}).verdict is Verdict.EQUIVALENT


@pytest.mark.parametrize(("blocks", "failed"), [(16, 1), (40, 1), (40, 7)])
def test_few_failures_within_the_interval_are_not_equivalent_either(blocks: int, failed: int) -> None:
    for arm in PAIR:
        contrast = conclude(blocks, {arm: range(failed)})
        assert (contrast.verdict, contrast.reason) == (Verdict.UNDECIDED, "failures-unlike")
        assert contrast.interval is not None and all(0.98 < end < 1.02 for end in contrast.interval)
    assert conclude(blocks, {"host": [0], "docker": [1]}).verdict is Verdict.EQUIVALENT


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=16), st.floats(0.5, 2))
def test_failures_never_end_in_a_number_that_is_none(sides: list[tuple[bool, bool]], effect: float) -> None:
    failed = {arm: [block for block, one in enumerate(sides) if one[side]] for side, arm in enumerate(PAIR)}
    contrast = conclude(len(sides), failed, effect=effect)
    numbers = [contrast.ratio, contrast.p, *(contrast.interval or ()), contrast.worked and contrast.worked.estimate]
    assert not any(isinstance(number, float) and math.isnan(number) for number in numbers)
    if not enough(len(sides), contrast.level):
        assert contrast.verdict is Verdict.UNDECIDED and contrast.interval is None
    if contrast.interval is not None and contrast.p is not None:
        assert (not contrast.interval[0] <= 1 <= contrast.interval[1]) == (contrast.p <= contrast.level)
    said = (
        words.write_sentence(contrast, LABELS),
        *words.list_failures(contrast, LABELS),
        words.format_estimate(contrast),
    )
    assert not any(raw in one.replace("info", "") for one in said for raw in ("nan", "inf"))


@settings(max_examples=40)
@given(
    st.lists(st.one_of(st.integers(-9, 9), st.sampled_from([math.inf, -math.inf])), min_size=1, max_size=12),
    st.sampled_from([0.05, 0.0125, 0.5]),
)
def test_infinite_differences_rank_as_any_that_lie_beyond_all_others(values: list[float], level: float) -> None:
    """Of finite ones a thousand times as large, whatever is not among these is the same."""
    large = [math.copysign(1e6, value) if math.isinf(value) else value for value in values]
    found, expected = (signed_rank(np.array(one, dtype=float), level, 1.0) for one in (values, large))
    assert found.p == expected.p
    ends = zip((found.estimate, *(found.interval or ())), (expected.estimate, *(expected.interval or ())), strict=True)
    for end, other in ends:
        assert end == (math.copysign(math.inf, other) if abs(other) > 1e5 else other)


@given(st.integers(0, 40), st.integers(0, 40))
@example(1200, 1000)
def test_mcnemar_is_the_two_sided_binomial_test(one: int, other: int) -> None:
    from scipy import stats

    expected = stats.binomtest(one, one + other).pvalue if one + other else 1.0
    assert mcnemar_p(one, other) == pytest.approx(expected)


# ── Which attempt counts ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_failure_counts_although_the_block_was_repeated() -> None:
    """For another treatment's sake, say: what failed is not measured again until it works."""
    records = [one for one in whole_run(manifest(), lambda *_: 1.0) if one.trial.block != 3]
    records += [
        record("host", 3, {"throughput": ratio(1.0)}),
        broken("docker", 3),
        record("host", 3, {"throughput": ratio(1.0)}, attempt=1),
        record("docker", 3, {"throughput": ratio(1.0)}, attempt=1),
    ]
    contrast = only(run(manifest(), records))
    assert contrast.failures is not None
    assert (contrast.failures.treatment, contrast.blocks, len(contrast.pairs)) == (1, 8, 7)


@pytest.mark.parametrize("blame", ["instrument", "host", "controller", None])
@pytest.mark.parametrize("side", PAIR)
def test_an_attempt_that_others_spoilt_does_not_count_whatever_failed_in_it(side: str, blame: Blame | None) -> None:
    records = [one for one in whole_run(manifest(), lambda *_: 1.0) if one.trial.block != 3]
    (other,) = {*PAIR} - {side}
    records += [broken(side, 3, blame), broken(other, 3)]
    records += [record(arm, 3, {"throughput": ratio(2.0)}, attempt=1) for arm in PAIR]
    contrast = only(run(manifest(), records))
    assert contrast.failures is None
    assert [pair.attempt for pair in contrast.pairs] == [0, 0, 0, 1, 0, 0, 0, 0]


def test_one_bad_repeat_is_a_failed_boot() -> None:
    of = manifest(repeats=2)
    records = whole_run(of, lambda *_: 1.0)
    records[2] = broken("docker", 0)
    contrast = only(run(of, records))
    assert contrast.failures is not None and contrast.failures.treatment == 1
    # Others to blame for one of them: nobody knows what the other's failure came of.
    records[3] = broken("docker", 0, "host", repeat=1)
    assert only(run(of, records)).failures is None


def test_tables_of_one_arm_hold_what_worked_and_count_what_did_not() -> None:
    analysis = run(manifest(), failing(8, {"docker": [1, 2]}))
    host, docker = analysis.cells
    assert (host.failed, len(host.values), docker.failed, len(docker.values)) == (0, 8, 2, 6)


def test_runs_of_version_1_are_judged_by_their_rule_and_that_is_told() -> None:
    records = [*whole_run(manifest(), lambda *_: 1.0)[:-1], broken("docker", 7, None)]
    analysis = run(manifest(), records)
    contrast = only(analysis)
    assert (contrast.failures, contrast.blocks) == (None, 7)
    (text,) = [warning.text for warning in analysis.warnings if warning.code == "judged-as-version-1"]
    assert text.startswith("1 trial that is not ok names nobody who is to blame, as in all runs of version 1")
    assert "judged-as-version-1" not in {one.code for one in run(manifest(), failing(8, {"docker": [1]})).warnings}


# ── Others' faults, and what was withdrawn ────────────────────────────────────────────────────────────────────────


def spoilt(sides: Iterable[str], blame: Blame = "host") -> Analysis:
    """Each of these blocks was repeated, because others' fault befell a side in its first attempt."""
    of = manifest(blocks=12)
    records = [
        record(arm, block, {"throughput": ratio(100 + block if arm == "host" else 50 + block / 2)}, attempt=1)
        for block in range(12)
        for arm in PAIR
    ]
    for block, side in enumerate(sides):
        (other,) = {*PAIR} - {side}
        records += [broken(side, block, blame), record(other, block, {"throughput": ratio(1.0)})]
    return run(of, records)


def test_faults_of_others_that_befall_one_side_leave_no_verdict() -> None:
    contrast = only(spoilt(["docker"] * 6))
    assert (contrast.verdict, contrast.reason) == (Verdict.UNDECIDED, "faults-not-alike")
    assert contrast.p is not None and contrast.p < 0.05
    assert words.explain_undecided(contrast) == "faults of others befell one side more often than the other"
    for sides in (["docker"] * 5, ["docker", "host"] * 5):
        assert only(spoilt(sides)).verdict is Verdict.DIFFERENT


def withdraw(side: str, records: list[TrialRecord]) -> Contrast:
    event = {"event": "Withdrawn", "treatment": {"environment": side}, "reason": "web: the service ended"}
    ended = {"event": "RunEnded", "interrupted": False}
    return only(analyse(manifest(), records, [{"event": "RunStarted"}, event, ended], PRIMARIES))


@pytest.mark.parametrize("side", PAIR)
def test_what_was_withdrawn_has_a_verdict_of_its_own(side: str) -> None:
    contrast = withdraw(side, failing(8, {side: range(8)}))
    assert (contrast.verdict, contrast.p, contrast.interval, contrast.reason) == (Verdict.WITHDRAWN, None, None, None)
    assert contrast.failures is not None
    assert words.badge_verdict(contrast).text == "withdrawn"


def test_a_withdrawal_of_version_1_leaves_the_verdict_as_it_was() -> None:
    records = [*whole_run(manifest(), lambda block, arm, _: 100.0 + block), broken("docker", 8, None)]
    assert withdraw("docker", records).verdict is Verdict.EQUIVALENT


# ── Zeros and bounds ──────────────────────────────────────────────────────────────────────────────────────────────


def odd(response: Response, arm: str = "docker", blocks: int = 40, effect: float = 2.0) -> Contrast:
    """One odd value in 40 blocks."""
    of = manifest(blocks=blocks)
    records = whole_run(of, lambda block, side, _: (effect if side == "docker" else 1) * (100 + wobble(block, 1)))
    place = next(index for index, one in enumerate(records) if one.trial.treatment == {"environment": arm})
    records[place] = record(arm, 0, {"throughput": response})
    return only(run(of, records))


@pytest.mark.parametrize("response", [ratio(0.0), ratio(300.0, censored="right"), ratio(50.0, censored="left")])
@pytest.mark.parametrize("arm", PAIR)
def test_one_value_without_a_number_decides_nothing_by_itself(response: Response, arm: str) -> None:
    contrast = odd(response, arm)
    assert contrast.verdict is Verdict.DIFFERENT
    assert contrast.ratio == pytest.approx(2, rel=0.01)
    assert {"zero", "censored"} & codes(contrast)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.floats(1, 100), st.sampled_from([None, "left", "right"]), st.floats(0.01, 100)),
        min_size=6,
        max_size=12,
    )
)
def test_bounds_allow_whatever_lies_within_them(values: list[tuple[float, Any, float]]) -> None:
    """No values that the bounds allow give an interval that leaves theirs, nor a larger p."""
    of = manifest(blocks=len(values))

    def conclude_of(values: Iterable[tuple[float, Any]]) -> Contrast:
        sides = [(record("docker", b, {"throughput": ratio(v, censored=c)})) for b, (v, c) in enumerate(values)]
        return only(run(of, [*sides, *(record("host", b, {"throughput": ratio(10.0 + b)}) for b in range(len(sides)))]))

    def allowed(value: float, bound: str | None, factor: float) -> float:
        return {None: value, "left": value / max(1, factor), "right": value * max(1, factor)}[bound]

    bounded = conclude_of((value, bound) for value, bound, _ in values)
    exact = conclude_of((allowed(value, bound, factor), None) for value, bound, factor in values)
    assert bounded.interval is not None and exact.interval is not None
    tolerance = 1 + 1e-9
    assert bounded.interval[0] <= exact.interval[0] * tolerance
    assert exact.interval[1] <= bounded.interval[1] * tolerance
    if not any(bound for _, bound, _ in values):
        assert bounded.p == exact.p


def test_a_ramp_that_never_saw_the_end_is_undecided_for_that_reason() -> None:
    of = manifest()
    records = whole_run(of, lambda *_: 100.0, lambda value: ratio(value, censored="right"))
    contrast = only(run(of, records))
    assert (contrast.verdict, contrast.reason, contrast.interval) == (Verdict.UNDECIDED, "censored", (0.0, math.inf))


def test_zeros_on_both_sides_are_alike() -> None:
    of = manifest()
    contrast = only(run(of, whole_run(of, lambda *_: 0.0)))
    assert (contrast.ratio, contrast.interval) == (1.0, (1.0, 1.0))
    assert all(not math.isnan(end) for end in contrast.interval or ())


@pytest.mark.parametrize("values", [(0.0, 1.0), (1.0, 0.0)])
def test_zeros_of_one_side_alone_are_told_from_the_other(values: tuple[float, float]) -> None:
    of = manifest()
    contrast = only(run(of, whole_run(of, lambda block, arm, _: values[arm == "docker"])))
    assert contrast.verdict is Verdict.DIFFERENT
    assert contrast.ratio in (0.0, math.inf)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_what_has_no_place_on_the_scale_stays_a_problem(value: float) -> None:
    contrast = odd(ratio(value))
    assert contrast.verdict is Verdict.UNDECIDED
    assert (contrast.ratio, contrast.interval, contrast.p) == (None, None, None)


# ── How it is written ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("response", [ratio, plain])
@pytest.mark.parametrize("side", PAIR)
def test_what_is_unbounded_is_null_in_json_and_a_word_for_people(response: Any, side: str) -> None:
    of = manifest()
    records = [
        broken(arm, block) if arm == side and block % 2 else record(arm, block, {"throughput": response(0.5)})
        for block in range(8)
        for arm in PAIR
    ]
    contrast = only(run(of, records))
    assert contrast.interval is not None
    text = contrast.model_dump_json()
    json.loads(text, parse_constant=pytest.fail)
    assert "unbounded" in words.format_estimate(contrast)
    assert "Infinity" not in text and "nan" not in text.lower()


def test_how_often_each_side_failed_is_told_with_what_is_left() -> None:
    contrast = conclude(30, {"docker": range(0, 30, 3)})
    first, second = words.list_failures(contrast, LABELS)
    assert first == "docker failed in 10 of 30 blocks and host in none"
    assert second.endswith("in the 20 blocks in which both worked") and " × (" in second


def test_an_arm_tells_its_failures_apart_from_what_worked() -> None:
    (arm,) = arms_of([broken("docker", 0), record("docker", 1, {"throughput": ratio(1.0)})], 1).values()
    assert (arm.failed, len(arm.first), len(arm.counted), len(list(arm.replicates))) == (1, 1, 2, 1)
