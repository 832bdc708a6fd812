"""From a run's records to its verdicts and tables."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmetal.analysis.analyse import analyse
from nearmetal.analysis.results import Verdict
from nearmetal.analysis.summary import summary
from nearmetal.analysis.verdict_rules import judge
from nearmetal.model import (
    Response,
    Study,
    TrialStatus,
)
from nearmetal.planning import plan as planning
from nearmetal.report import words
from tests.analysis_inputs import PAIR, codes, manifest, only, plain, ratio, record, run, whole_run, wobble


def test_a_clear_difference() -> None:
    of = manifest()
    contrast = only(
        run(of, whole_run(of, lambda block, arm, _: 100 * (1 + wobble(block, 0.01)) * (0.5 if arm == "docker" else 1)))
    )
    assert contrast.verdict is Verdict.DIFFERENT
    assert contrast.ratio == pytest.approx(0.5)
    assert contrast.interval == (contrast.ratio, contrast.ratio)
    assert contrast.p == 2**-7
    assert contrast.equivalence == (1 / 1.02, 1.02)
    assert contrast.level == 0.05


def test_equivalence_comes_before_difference() -> None:
    """Half a percent, surely there and surely within the margin of two."""
    of = manifest()
    contrast = only(run(of, whole_run(of, lambda block, arm, _: 100.5 if arm == "docker" else 100.0)))
    assert contrast.verdict is Verdict.EQUIVALENT
    assert contrast.interval is not None and contrast.interval[0] > 1


def test_noise_is_undecided() -> None:
    of = manifest()
    noisy = whole_run(of, lambda block, arm, _: 100 * (1 + (wobble(block, 0.1) if arm == "docker" else 0)))
    contrast = only(run(of, noisy))
    assert (contrast.verdict, contrast.reason) == (Verdict.UNDECIDED, None)


@given(st.floats(0.5, 1), st.floats(1e-3, 0.5), st.floats(0.01, 0.2))
def test_verdicts_follow_their_order(low: float, width: float, margin: float) -> None:
    interval, bounds = (low, low + width), (1 / (1 + margin), 1 + margin)
    verdict, _ = judge(interval, bounds, 1.0)
    inside = bounds[0] <= interval[0] and interval[1] <= bounds[1]
    excludes = interval[0] > 1 or interval[1] < 1
    expected = Verdict.EQUIVALENT if inside else Verdict.DIFFERENT if excludes else Verdict.UNDECIDED
    assert verdict is expected


@pytest.mark.parametrize(("contrasts", "blocks"), [(1, 6), (2, 7), (4, 8)])
def test_too_few_blocks_for_the_family(contrasts: int, blocks: int) -> None:
    environments = [f"e{number}" for number in range(contrasts + 1)]
    for count, reason in ((blocks - 1, "too-few-blocks"), (blocks, None)):
        of = manifest(environments, blocks=count)
        records = [
            record(name, block, {"throughput": ratio(100.0 * (number + 1) + block)})
            for block in range(count)
            for number, name in enumerate(environments)
        ]
        analysis = run(of, records)
        assert {contrast.reason for contrast in analysis.contrasts} == {reason}
        verdict = Verdict.DIFFERENT if reason is None else Verdict.UNDECIDED
        assert {contrast.verdict for contrast in analysis.contrasts} == {verdict}
        assert all((contrast.p is None) == (reason is not None) for contrast in analysis.contrasts)
        assert all(contrast.ratio is not None for contrast in analysis.contrasts)


def test_a_planned_contrast_without_a_single_trial_is_still_told() -> None:
    contrast = only(run(manifest(), []))
    assert (contrast.verdict, contrast.reason, contrast.blocks) == (Verdict.UNDECIDED, "no-blocks", 0)
    assert contrast.response == "throughput" and contrast.ratio is None


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (ratio(-1.0), "not-positive"),
        (ratio(float("inf")), "not-finite"),
        (Response(value=1.0, unit="B", better="higher"), "units-differ"),
    ],
)
def test_a_value_that_the_scale_cannot_hold_leaves_it_undecided(response: Response, reason: str) -> None:
    of = manifest()
    records = whole_run(of, lambda block, arm, _: 200.0 if arm == "docker" else 100.0)
    records[4] = record("host", 2, {"throughput": response})
    contrast = only(run(of, records))
    assert (contrast.verdict, contrast.reason) == (Verdict.UNDECIDED, reason)
    assert (contrast.ratio, contrast.interval, contrast.p) == (None, None, None)
    assert reason in codes(contrast)
    assert contrast.blocks == 8


def test_differences_are_held_against_a_share_of_the_reference() -> None:
    of = manifest(margin="10%")
    near = only(run(of, whole_run(of, lambda block, arm, _: 0.21 if arm == "docker" else 0.20, plain)))
    far = only(run(of, whole_run(of, lambda block, arm, _: 0.25 if arm == "docker" else 0.20, plain)))
    assert near.equivalence == pytest.approx((-0.02, 0.02))
    assert (near.verdict, far.verdict) == (Verdict.EQUIVALENT, Verdict.DIFFERENT)
    assert near.difference == pytest.approx(0.01) and near.ratio is None


def test_without_a_margin_there_is_no_equivalence() -> None:
    of = manifest()
    zeros = only(run(of, whole_run(of, lambda *_: 0.0, plain)))
    assert (zeros.verdict, zeros.reason, zeros.equivalence) == (Verdict.UNDECIDED, "no-margin", None)
    lossy = only(run(of, whole_run(of, lambda block, arm, _: 0.1 + block / 99 if arm == "docker" else 0.0, plain)))
    assert lossy.verdict is Verdict.DIFFERENT


def test_the_primary_response_comes_first_and_the_rest_is_exploratory() -> None:
    of = manifest(["host", "docker", "qemu"])
    records = [
        record(
            environment,
            block,
            {
                "errors": plain(0.01 * (1 + block)),
                "throughput": ratio(100.0 + block),
                **({} if environment == "qemu" else {"connect_p50": ratio(1.0 + block)}),
            },
        )
        for block in range(8)
        for environment in ("host", "docker", "qemu")
    ]
    analysis = run(of, records)
    found = [(one.treatment["environment"], one.response, one.primary, one.level) for one in analysis.contrasts]
    assert found == [
        ("docker", "throughput", True, 0.025),
        ("docker", "connect_p50", False, 0.05),
        ("docker", "errors", False, 0.05),
        ("qemu", "throughput", True, 0.025),
        ("qemu", "errors", False, 0.05),
    ]


def test_what_belongs_to_a_boot_that_workloads_share_is_told_once() -> None:
    study = manifest(share_boot=True).study.model_dump(mode="json")
    workloads = [{"name": name, "kind": "http"} for name in ("web", "again")]
    shared = Study.model_validate({**study, "workloads": workloads})
    of = manifest().model_copy(update={"study": shared, "plan": planning.make_plan(shared)})
    seconds = {"host": 1.0, "docker": 3.0}
    records = []
    for block in range(8):
        for arm in PAIR:
            for position, workload in enumerate(("web", "again") if block % 2 else ("again", "web")):
                values = {"throughput": ratio(100.0), "ready": Response(value=seconds[arm], unit="s", better="lower")}
                one = record(arm, block, values, position=position)
                records.append(one.model_copy(update={"trial": replace(one.trial, workload=workload)}))
    bad = records[0].model_copy(update={"status": TrialStatus.FAILED, "responses": {}})
    analysis = analyse(of, [bad, *records[1:]], [], {"web": "throughput", "again": "throughput"})
    assert [(one.workload, one.response) for one in analysis.contrasts] == [
        ("web", "throughput"),
        ("again", "throughput"),
        ("", "ready"),
    ]
    ready = analysis.contrasts[-1]
    assert ready.ratio == pytest.approx(3.0)
    assert (ready.blocks, ready.primary) == (8, False)
    cells = [(cell.workload, cell.treatment["environment"], len(cell.values)) for cell in analysis.cells[-2:]]
    assert cells == [("", "host", 8), ("", "docker", 8)]
    assert {cell.response for cell in analysis.cells if cell.workload} == {"throughput"}


def test_boots_of_their_own_tell_their_own_time_to_ready() -> None:
    values = {"throughput": ratio(100.0), "ready": Response(value=1.0, unit="s", better="lower")}
    analysis = run(manifest(), [record(arm, block, values) for block in range(8) for arm in PAIR])
    assert [(one.workload, one.response) for one in analysis.contrasts] == [("web", "throughput"), ("web", "ready")]


def test_a_response_missing_in_some_blocks_is_warned_of() -> None:
    of = manifest()
    records = whole_run(of, lambda *_: 1.0)
    records[0] = record("host", 0, {})
    contrast = only(run(of, records))
    assert contrast.blocks == 7
    told = {warning.code: warning.text for warning in contrast.warnings}
    assert told["response-missing"] == "throughput is missing in 1 of the blocks that are ok"
    assert told["blocks-missing"] == "7 of 8 planned blocks have it on both sides"


def test_a_response_that_one_side_never_has_is_the_reason_and_not_its_trials_which_are_good() -> None:
    of = manifest()
    records = [
        record(arm, block, {"throughput": ratio(1.0)} if arm == "host" else {}) for block in range(8) for arm in PAIR
    ]
    contrast = only(run(of, records))
    assert (contrast.verdict, contrast.reason, contrast.blocks) == (Verdict.UNDECIDED, "response-missing", 0)
    assert words.explain_undecided(contrast) == "no block has it on both sides"


def test_a_margin_that_is_none_is_told_of_the_median_which_alone_is_0() -> None:
    of = manifest()
    lossy = only(run(of, whole_run(of, lambda block, arm, _: wobble(block, 0.1) if block > 5 else 0.0, plain)))
    assert (lossy.reason, lossy.equivalence) == ("no-margin", None)
    assert any(pair.reference for pair in lossy.pairs)
    assert (
        words.explain_undecided(lossy) == "the median of the reference is 0, so a margin in percent of it means nothing"
    )


def test_cells_hold_what_a_table_shows() -> None:
    of = manifest(blocks=4)
    values = {"host": (1.0, 2.0, 3.0, 10.0), "docker": (5.0, 5.0, 5.0, 5.0)}
    analysis = run(of, whole_run(of, lambda block, arm, _: values[arm][block]))
    host, docker = analysis.cells
    assert host.values == (1.0, 2.0, 3.0, 10.0) and host.blocks == (0, 1, 2, 3)
    assert (host.mean, host.median, host.minimum, host.maximum) == (4.0, 2.5, 1.0, 10.0)
    assert host.stddev == pytest.approx(4.0824829)
    assert docker.stddev == 0.0


def test_summary_has_the_fields_that_scripts_rely_on() -> None:
    of = manifest()
    analysis = run(of, whole_run(of, lambda block, arm, _: 2.0 if arm == "docker" else 1.0))
    document = summary(analysis, "DIR", "trial", "ended").model_dump(mode="json")
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert (document["schema"], document["run"], document["study"], document["state"]) == (
        "summary.v1",
        "DIR",
        "trial",
        "ended",
    )
    assert document["trials"] == {"ok": 16, "invalid": 0, "failed": 0, "lost": 0}
    (contrast,) = document["contrasts"]
    fixed = {
        "workload", "response", "unit", "scale", "primary", "treatment", "reference", "blocks", "look", "level",
        "ratio", "difference", "interval", "p", "verdict", "warnings",
    }  # fmt: skip
    assert fixed <= contrast.keys()
    assert contrast["verdict"] == "different" and contrast["look"] is None


def test_the_same_store_gives_the_same_bytes() -> None:
    of = manifest()
    records = whole_run(of, lambda block, arm, _: 100 + wobble(block, 3) + (arm == "docker"))
    assert run(of, records).model_dump_json() == run(of, iter(records)).model_dump_json()


@pytest.mark.parametrize(
    ("repeats", "mark"),
    [((None, None), None), (("right", None), "right"), (("left", "left"), "left"), (("left", "right"), "both")],
)
def test_a_pair_says_of_which_side_only_a_bound_is_known(repeats: tuple[str | None, ...], mark: str | None) -> None:
    of = manifest(repeats=2)
    records = [
        record(arm, block, {"throughput": ratio(100.0, censored=end if arm == "docker" else None)}, repeat=repeat)
        for block in range(8)
        for arm in ("host", "docker")
        for repeat, end in enumerate(repeats)
    ]
    analysis = run(of, records)
    assert {(pair.treatment_censored, pair.reference_censored) for pair in only(analysis).pairs} == {(mark, None)}
    marks = {str(cell.treatment["environment"]): set(cell.censored) for cell in analysis.cells}
    assert marks == {"host": {None}, "docker": {mark}}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("response", "docker", "host"),
    [
        (plain, -1e308, 1e308),
        (plain, 1.7e308, -1.7e308),
        (plain, 1.7e308, 1.7e308),  # their difference is 0, but two of them have no median: their sum is none
        (ratio, 1.7e308, 5e-324),
        (ratio, 5e-324, 1.7e308),
    ],
)
def test_what_leaves_the_numbers_decides_nothing(
    response: Callable[[float], Response], docker: float, host: float
) -> None:
    of = manifest()
    contrast = only(run(of, whole_run(of, lambda block, arm, _: docker if arm == "docker" else host, response)))
    assert (contrast.verdict, contrast.reason) == (Verdict.UNDECIDED, "not-finite")
    found = (contrast.ratio, contrast.difference, contrast.interval, contrast.equivalence, contrast.p)
    assert found == (None,) * 5
    (text,) = [warning.text for warning in contrast.warnings if warning.code == "not-finite"]
    assert text == "a difference, ratio or median of values is beyond all numbers, so the contrast is left undecided"


@pytest.mark.filterwarnings("error")
def test_values_next_to_nothing_are_compared_as_any_others() -> None:
    of = manifest()
    contrast = only(run(of, whole_run(of, lambda block, arm, _: 1e-320 if arm == "docker" else 2e-320, plain)))
    assert contrast.verdict is Verdict.DIFFERENT
    assert contrast.difference == pytest.approx(-1e-320, rel=0.01)
