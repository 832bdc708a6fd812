"""Runs that hardly are any: each has a defined result, of numbers, and none has a verdict from too few blocks."""

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from nearmetal.analysis import contrasts
from nearmetal.analysis.contrasts import Criterion
from nearmetal.analysis.responses import Replicate, Value, kind_of
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.analysis.signed_rank import signed_rank
from nearmetal.model import ContrastPlan, Response, TrialRecord, TrialStatus
from tests.analysis_inputs import manifest, only, plain, ratio, record, run, whole_run

Make = Callable[[float], Response]


def numbers_of(document: Any) -> Iterable[float]:
    """Every number of a document, at any depth."""
    if isinstance(document, dict):
        document = list(document.values())
    if isinstance(document, list):
        for one in document:
            yield from numbers_of(one)
    elif isinstance(document, float):
        yield document


def conclude(records: Iterable[TrialRecord], **design: Any) -> Contrast:
    contrast = only(run(manifest(**design), list(records)))
    assert not any(math.isnan(number) for number in numbers_of(contrast.model_dump()))
    json.loads(contrast.model_dump_json(), parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    return contrast


@pytest.mark.parametrize("response", [ratio, plain])
@pytest.mark.parametrize(
    ("docker", "verdict"), [(100.0, Verdict.EQUIVALENT), (101.0, Verdict.EQUIVALENT), (150.0, Verdict.DIFFERENT)]
)
def test_blocks_that_do_not_vary(response: Make, docker: float, verdict: Verdict) -> None:
    same = conclude(whole_run(manifest(), lambda _, arm, __: docker if arm == "docker" else 100.0, response))
    assert (same.verdict, same.reason) == (verdict, None)
    assert same.interval is not None and same.interval[0] == same.interval[1]
    assert same.p == (1.0 if docker == 100.0 else 2 / 2**8)


@pytest.mark.parametrize("response", [ratio, plain])
def test_blocks_that_do_not_vary_end_a_study_with_looks_as_they_are(response: Make) -> None:
    from tests.unit.test_analysis_sequential import conclude as look

    contrast = look(manifest(blocks={"min": 8, "max": 40}), lambda _: 1.5, 8)
    assert (contrast.verdict, contrast.look) == (Verdict.DIFFERENT, 1)
    assert contrast.adjusted == pytest.approx(contrast.ratio, rel=1e-9)


@pytest.mark.parametrize(("response", "ends"), [(ratio, (80.0, 125.0)), (plain, (90.0, 110.0))])
def test_differences_that_are_all_tied_of_either_sign_decide_nothing(response: Make, ends: tuple[float, float]) -> None:
    tied = conclude(
        whole_run(manifest(), lambda block, arm, _: ends[block % 2] if arm == "docker" else 100.0, response)
    )
    assert tied.verdict is Verdict.UNDECIDED and tied.p == 1.0


@pytest.mark.parametrize("response", [ratio, plain])
def test_a_value_that_is_no_number_decides_nothing(response: Make) -> None:
    def value(block: int, arm: str, _: int) -> float:
        return math.nan if (arm, block) == ("docker", 3) else 100.0

    contrast = only(run(manifest(), whole_run(manifest(), value, response)))
    assert (contrast.verdict, contrast.reason) == (Verdict.UNDECIDED, "not-finite")
    assert (contrast.interval, contrast.p, contrast.ratio, contrast.difference) == (None,) * 4


@pytest.mark.parametrize("response", [ratio, plain])
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_blocks_that_cannot_reach_alpha_have_no_verdict(response: Make, blocks: int) -> None:
    """However far apart both sides are."""
    few = conclude(
        whole_run(manifest(blocks=blocks), lambda _, arm, __: 1000.0 if arm == "docker" else 1.0, response),
        blocks=blocks,
    )
    assert (few.verdict, few.reason) == (Verdict.UNDECIDED, "too-few-blocks")
    assert (few.interval, few.p, few.blocks) == (None, None, blocks)


@pytest.mark.parametrize("left", ["host", "docker"])
def test_a_side_that_is_missing_altogether(left: str) -> None:
    records = [one for one in whole_run(manifest(), lambda *_: 100.0) if one.trial.treatment["environment"] == left]
    missing = conclude(records)
    assert (missing.verdict, missing.reason, missing.blocks) == (Verdict.UNDECIDED, "no-blocks", 0)


def test_a_run_of_which_everything_failed() -> None:
    records = [
        record(arm, block, {}, status=TrialStatus.FAILED).model_copy(update={"blame": "treatment"})
        for block in range(8)
        for arm in ("host", "docker")
    ]
    failed = conclude(records)
    assert (failed.verdict, failed.reason, failed.interval, failed.p) == (Verdict.UNDECIDED, "all-failed", None, None)


def test_units_that_change_within_the_run() -> None:
    def response(value: float) -> Response:
        return Response(value=value, unit="1/s" if value < 105 else "B/s", better="higher")

    changed = conclude(whole_run(manifest(), lambda block, _, __: 100.0 + block, response))
    assert (changed.verdict, changed.reason, changed.p) == (Verdict.UNDECIDED, "units-differ", None)


@pytest.mark.long
@pytest.mark.parametrize("scale", ["ratio", "difference"])
def test_a_million_trials_of_two_sides(scale: Any) -> None:
    kind = kind_of("1/s", "higher", scale)
    values = np.random.default_rng(1).lognormal(0, 0.1, size=(500_000, 2))
    values[:, 0] *= 1.001
    records = tuple(whole_run(manifest(), lambda *_: 1.0, plain)[:1])  # whose site is every block's
    pairs = tuple(
        (
            Replicate(block, 0, 0.0, records, {"x": Value(one, kind)}),
            Replicate(block, 0, 0.0, records, {"x": Value(other, kind)}),
        )
        for block, (one, other) in enumerate(values.tolist())
    )
    planned = ContrastPlan(workload="web", treatment={"environment": "docker"}, reference={"environment": "host"})
    found = contrasts._contrast(planned, "x", kind, pairs, Criterion(0.05, 0.02, True)).contrast
    assert (found.verdict, found.blocks) == (Verdict.EQUIVALENT, 500_000)
    assert found.p is not None and found.p < 0.05
    assert found.p_dependent is not None and found.p_lopsided is not None


def test_a_long_run_that_no_look_was_taken_of_is_judged_by_none() -> None:
    """Before its first look a comparison's level is 0."""
    assert signed_rank(np.arange(1100.0) - 3, 0.0, 1e-12).interval is None
