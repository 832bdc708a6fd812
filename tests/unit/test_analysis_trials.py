"""Which trials of a run count, and as what."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from nearmetal.analysis.responses import arms_of
from nearmetal.analysis.results import Verdict
from nearmetal.model import (
    Response,
    TrialStatus,
)
from tests.analysis_inputs import codes, manifest, only, plain, ratio, record, run, whole_run


def test_repeats_of_a_boot_are_averaged_geometrically_on_the_ratio_scale() -> None:
    of = manifest(repeats=2)
    records = whole_run(of, lambda block, environment, repeat: (100.0, 400.0)[repeat])
    contrast = only(run(of, records))
    assert contrast.pairs[0].treatment == pytest.approx(200.0)
    assert contrast.blocks == 8


def test_repeats_are_averaged_plainly_on_the_difference_scale() -> None:
    of = manifest(repeats=2)
    records = whole_run(of, lambda block, environment, repeat: (0.1, 0.4)[repeat], plain)
    assert only(run(of, records)).pairs[0].reference == pytest.approx(0.25)


def test_a_boot_short_of_a_repeat_does_not_count() -> None:
    of = manifest(repeats=2)
    records = whole_run(of, lambda *_: 1.0)[:-1]
    contrast = only(run(of, records))
    assert contrast.blocks == 7
    assert "blocks-missing" in codes(contrast)


@pytest.mark.parametrize("status", [TrialStatus.INVALID, TrialStatus.FAILED, TrialStatus.LOST])
def test_what_is_not_ok_is_counted_and_never_used(status: TrialStatus) -> None:
    of = manifest()
    records = whole_run(of, lambda *_: 1.0)
    records[5] = record("docker", 2, {"throughput": ratio(1e9)}, status=status)
    analysis = run(of, records)
    assert analysis.trials.model_dump() == {"ok": 15, "invalid": 0, "failed": 0, "lost": 0, status.value: 1}
    assert [pair.block for pair in only(analysis).pairs] == [0, 1, 3, 4, 5, 6, 7]
    assert all(1e9 not in cell.values for cell in analysis.cells)


def test_a_contrast_takes_the_first_attempt_in_which_both_arms_are_ok() -> None:
    of = manifest()
    records = [one for one in whole_run(of, lambda *_: 1.0) if one.trial.block != 3]
    bad = TrialStatus.FAILED
    records += [
        record("host", 3, {"throughput": ratio(10)}, attempt=0),
        record("docker", 3, {"throughput": ratio(11)}, attempt=0, status=bad),
        record("host", 3, {"throughput": ratio(20)}, attempt=1, status=bad),
        record("docker", 3, {"throughput": ratio(21)}, attempt=1),
        record("host", 3, {"throughput": ratio(30)}, attempt=2),
        record("docker", 3, {"throughput": ratio(31)}, attempt=2),
    ]
    analysis = run(of, records)
    pair = next(pair for pair in only(analysis).pairs if pair.block == 3)
    assert (pair.attempt, pair.reference, pair.treatment) == (2, 30, 31)
    assert "blocks-repeated" in codes(only(analysis))
    host = next(cell for cell in analysis.cells if cell.treatment == {"environment": "host"})
    assert host.values[3] == 10  # a table of one arm shows the first attempt in which that arm is ok


def test_blocks_come_in_planned_order_whatever_finished_first() -> None:
    of = manifest()
    records = whole_run(of, lambda block, *_: 1.0 + block)
    forwards, backwards = run(of, records), run(of, records[::-1])
    assert forwards == backwards
    assert [pair.block for pair in only(forwards).pairs] == list(range(8))


def test_true_and_one_are_different_treatments() -> None:
    odd = record("docker", 0, {"throughput": ratio(5)})
    treatment = {**odd.trial.treatment, "offload": True}
    other = odd.model_copy(update={"trial": replace(odd.trial, treatment=treatment)})
    same = odd.model_copy(update={"trial": replace(odd.trial, treatment={**treatment, "offload": 1}, id="x")})
    assert len(arms_of([odd, other, same], 1)) == 3


@pytest.mark.parametrize("sizes", [(float("inf"), -float("inf")), (1e308, 1e308), (1e200, -1e200), (float("nan"), 1.0)])
@pytest.mark.parametrize("response", [ratio, plain])
@pytest.mark.parametrize("repeats", [1, 2])
def test_values_that_no_mean_can_hold_are_told_and_decide_nothing(
    sizes: tuple[float, float], response: Callable[[float], Response], repeats: int
) -> None:
    """A damaged journal may have them; it is no reason for the analysis to fail."""
    of = manifest(repeats=repeats)
    records = whole_run(of, lambda block, environment, repeat: sizes[(block + repeat) % 2], response)
    contrast = only(run(of, records))
    assert contrast.verdict is not Verdict.DIFFERENT
