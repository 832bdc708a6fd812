"""Two runs of a study: what changed, what else was not the same, and whether a gate is met."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from nearmetal.analysis.apart import apart
from nearmetal.analysis.rank_sum import rank_sum
from nearmetal.analysis.results import Verdict
from nearmetal.analysis.two_runs import Change, Compared, Ran, compare, is_worse
from nearmetal.commands import compare as compare_commands
from nearmetal.commands import run as run_commands
from nearmetal.errors import BadInput
from nearmetal.model import Response
from nearmetal.store.folder import RunFolder
from tests.analysed import manifest, plain, ratio, whole_run, wobble

GOLDEN = Path(__file__).parents[1] / "golden" / "run"

# ── The statistic ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("fewer", "more"), [(4, 4), (5, 9), (12, 8), (40, 40)])
def test_p_is_that_of_the_exact_test(fewer: int, more: int) -> None:
    random = np.random.default_rng(fewer)
    for shift in (0.0, 0.7, 2.0):
        first, second = random.normal(size=fewer), random.normal(size=more) + shift
        found = rank_sum(first, second, 0.05, 1e-12)
        assert found.p == pytest.approx(stats.mannwhitneyu(first, second, method="exact").pvalue)
        assert found.interval is not None and found.p is not None
        assert (found.interval[0] > 0 or found.interval[1] < 0) == (found.p <= 0.05)
        assert found.estimate == pytest.approx(np.median(second[:, None] - first[None, :]))


def test_many_values_are_as_with_the_exact_test() -> None:
    random = np.random.default_rng(1)
    first, second = random.normal(size=80), random.normal(size=70) + 0.3
    exact = stats.mannwhitneyu(first, second, method="exact").pvalue
    assert rank_sum(first, second, 0.05, 1e-12).p == pytest.approx(exact, rel=0.02)


def test_too_few_values_have_an_estimate_and_no_interval() -> None:
    found = rank_sum(np.array([1.0, 2.0]), np.array([5.0, 7.0]), 0.05, 1e-9)
    assert (found.interval, found.p) == (None, None)
    assert found.estimate == pytest.approx(4.5)
    with pytest.raises(ValueError, match="no values"):
        rank_sum(np.array([]), np.array([1.0]), 0.05, 1e-9)


def test_values_that_are_all_alike_are_no_shift() -> None:
    found = rank_sum(np.full(8, 3.0), np.full(8, 3.0), 0.05, 1e-9)
    assert (found.estimate, found.interval, found.p) == (0.0, (0.0, 0.0), 1.0)


def test_two_samples_that_do_not_differ_are_seldom_called_different() -> None:
    """Coarse values tie, and then the test errs on the other side."""
    random = np.random.default_rng(5)
    for decimals, most in ((12, 0.075), (0, 0.05)):
        samples = np.round(random.normal(size=(1_000, 2, 10)), decimals)
        found = [rank_sum(one, other, 0.05, 1e-12).p for one, other in samples]
        assert np.mean([p is not None and p <= 0.05 for p in found]) <= most


# ── Two runs ──────────────────────────────────────────────────────────────────────────────────────────────────────

Value = Callable[[int, str], float]


def ran(value: Value, response: Callable[[float], Response] = ratio, **design: Any) -> Ran:
    of = manifest(**design)
    return Ran(of, whole_run(of, lambda block, arm, _: value(block, arm), response))


def steady(block: int, arm: str) -> float:
    return 100.0 * (0.5 if arm == "docker" else 1.0) * (1 + wobble(block + (17 if arm == "docker" else 0), 0.002))


def changes(before: Ran, after: Ran) -> dict[str, Change]:
    found = compare(before, after, ("one", "two"))
    return {
        f"{change.treatment['environment']}" + (" vs host" if change.of == "contrast" else ""): change
        for change in found.changes
    }


def test_what_the_whole_host_did_is_a_change_of_treatments_and_none_of_what_they_cost() -> None:
    slower = changes(ran(steady), ran(lambda block, arm: 0.8 * steady(block, arm)))
    assert set(slower) == {"host", "docker", "docker vs host"}
    assert {slower[name].verdict for name in ("host", "docker")} == {Verdict.DIFFERENT}
    assert slower["host"].ratio == pytest.approx(0.8, rel=0.01)
    assert slower["docker vs host"].verdict is Verdict.EQUIVALENT
    assert slower["docker vs host"].ratio == pytest.approx(1.0, rel=0.01)
    assert [is_worse(slower[name]) for name in ("host", "docker", "docker vs host")] == [True, True, False]


def test_what_became_dearer_is_told_of_the_treatment_and_against_its_reference() -> None:
    dearer = changes(ran(steady), ran(lambda block, arm: steady(block, arm) * (0.9 if arm == "docker" else 1.0)))
    assert dearer["host"].verdict is Verdict.EQUIVALENT
    assert is_worse(dearer["docker"]) and is_worse(dearer["docker vs host"])
    assert dearer["docker vs host"].ratio == pytest.approx(0.9, rel=0.01)


def test_better_is_not_worse() -> None:
    quicker = changes(ran(steady), ran(lambda block, arm: 1.2 * steady(block, arm)))
    assert not any(is_worse(change) for change in quicker.values())


def test_the_level_is_shared_and_blocks_need_not_be_as_many() -> None:
    found = changes(ran(steady), ran(steady, blocks=12, alpha=0.03))
    assert {change.level for change in found.values()} == {0.01}
    assert {(change.blocks_before, change.blocks) for change in found.values()} == {(8, 12)}


def test_differences_have_a_margin_of_what_was() -> None:
    """Shares of errors: 10 points more is far beyond 2 % of what they were."""
    before = ran(lambda block, arm: 0.2 + wobble(block, 0.001), plain)
    after = ran(lambda block, arm: 0.3 + wobble(block + 3, 0.001), plain)
    found = changes(before, after)
    assert found["host"].difference == pytest.approx(0.1, abs=0.01)
    assert found["host"].equivalence == pytest.approx((-0.004, 0.004), abs=1e-4)
    assert is_worse(found["host"]) and not is_worse(found["docker vs host"])


def test_what_has_no_ratio_is_left_undecided() -> None:
    found = changes(ran(steady), ran(lambda block, arm: 0.0 if arm == "docker" else 100.0))
    assert (found["docker"].verdict, found["docker"].reason) == (Verdict.UNDECIDED, "not-positive")
    assert not is_worse(found["docker"])


def test_runs_without_anything_in_common() -> None:
    other = manifest(["vm", "metal"])
    assert compare(ran(steady), Ran(other, []), ("one", "two")).changes == ()


def test_what_else_is_not_the_same_is_told_but_for_what_cannot_matter() -> None:
    before, after = ran(steady), ran(steady, blocks=12, seed=7, repeats=1)
    study = after.manifest.study
    slower = study.model_copy(update={"machine": study.machine.model_copy(update={"vcpus": 2})})
    update = {"study": slower, "versions": {"qemu": "9"}, "host": {"kernel": {"release": "6.12"}}}
    later = Ran(after.manifest.model_copy(update=update), after.records)
    earlier = Ran(before.manifest.model_copy(update={"host": {"kernel": {"release": "6.1"}}}), before.records)
    rows = compare(earlier, later, ("one", "two")).apart
    told = {(row.group, row.fact): dict(row.values) for row in rows}
    assert told == {
        ("study", "machine.vcpus"): {"before": "1", "after": "2"},
        ("software", "qemu"): {"after": "9"},
        ("kernel", "release"): {"before": "6.1", "after": "6.12"},
    }


# ── The command ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """The golden run, and the same where the machines that are not the reference do a tenth less."""
    before, after = (Path(shutil.copytree(GOLDEN, tmp_path / name)) for name in ("before", "after"))
    made(after, "2026-11-22T22:19:46+00:00")
    scale(after, lambda environment: 0.9 if environment == "slow" else 1.0)
    return before, after


def made(run: Path, created: str) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "created": created}))


def scale(run: Path, factor: Callable[[str], float]) -> None:
    lines = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    for line in lines:
        if line["schema"] == "record.v1" and "throughput" in line["responses"]:
            line["responses"]["throughput"]["value"] *= factor(line["trial"]["treatment"]["environment"])
    (run / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_a_gate_is_for_what_is_surely_worse(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = runs
    assert compare_commands.compare(before, after, None, gate=False, as_json=False) == 0
    text = told(capsys)
    assert "nothing else is known to differ between the two" in text
    assert "▼ different, worse slow: throughput 0.9" in text
    assert "▼ different, worse slow vs base: throughput 0.90 × what it was (0.8" in text
    assert "! the run named second is the older of the two" not in text
    assert compare_commands.compare(before, after, None, gate=True, as_json=False) == 5
    assert "gate not met: 1 comparison surely worse than before, by more than the margin" in told(capsys)
    assert compare_commands.compare(before, after, 0.2, gate=True, as_json=False) == 0
    assert compare_commands.compare(after, before, None, gate=True, as_json=False) == 0
    text = told(capsys)
    assert "gate met: no comparison is surely worse than before, by more than the margin" in text


def change_records(run: Path, change: Callable[[dict[str, Any]], object], environment: str = "slow") -> None:
    lines = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    for line in lines:
        if line["schema"] == "record.v1" and line["trial"]["treatment"]["environment"] == environment:
            change(line)
    (run / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_gate_that_is_met_tells_what_is_undecided(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs

    def scatter(line: dict[str, Any]) -> None:
        line["responses"]["throughput"]["value"] *= 0.5 if line["trial"]["block"] % 2 else 2.0

    change_records(after, scatter)
    assert compare_commands.compare(before, after, None, gate=True, as_json=False) == 0
    assert "by more than the margin; 1 of 1 is undecided" in told(capsys)


def test_what_has_no_good_trial_any_more_fails_a_gate(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs
    change_records(after, lambda line: line.update(status="failed", reason="it broke", responses={}))
    assert compare_commands.compare(before, after, None, gate=True, as_json=False) == 5
    text = told(capsys)
    assert "16 trials ok after: " in text and "8 trials ok, 8 failed" in text
    assert "slow vs base: throughput cannot be compared; no good trial of the run after has it" in text
    assert "8 and 8 blocks; in brackets" in text
    assert "gate not met: 1 comparison without a good trial after" in text
    assert compare_commands.compare(after, before, None, gate=True, as_json=False) == 0
    text = told(capsys)
    assert "slow vs base: throughput cannot be compared; no good trial of the run before has it" in text
    assert "by more than the margin; of 1 comparison nothing can be said" in text


# ── What a gate cannot judge ──────────────────────────────────────────────────────────────────────────────────────


def lower(value: float, **more: Any) -> Response:
    return Response(value=value, unit="s", better="lower", **more)


@pytest.mark.parametrize("better", [ratio, lower], ids=["higher", "lower"])
@pytest.mark.parametrize(("value", "reason"), [(0.0, "not-positive"), (-1.0, "not-positive"), (np.nan, "not-finite")])
@pytest.mark.parametrize("of", ["docker", "host"])
def test_values_without_a_ratio_do_not_pass_a_gate(
    better: Callable[[float], Response], value: float, reason: str, of: str
) -> None:
    """A throughput of 0 is the worst there is, a time of 0 was not measured; and so with what all is held against."""
    good = ran(steady, better)
    bad = ran(lambda block, arm: value if (block, arm) == (3, of) else steady(block, arm), better)
    found = compare(good, bad, ("one", "two"))
    assert (found.worse, found.gone, found.unjudged) == (0, 0, 1)
    costs = next(change for change in found.changes if change.of == "contrast")
    assert (costs.reason, costs.because_of) == (reason, "after")
    assert compare(bad, good, ("one", "two")).unjudged == 0, "what was not known before is no fault of the run after"
    assert compare(bad, bad, ("one", "two")).unjudged == 0


def test_on_a_difference_scale_zero_is_a_value_like_others() -> None:
    some = ran(lambda block, arm: 0.2 + wobble(block, 0.001) if arm == "docker" else 0.0, plain)
    none = ran(lambda block, arm: 0.0, plain)
    better, worse = compare(some, none, ("one", "two")), compare(none, some, ("one", "two"))
    assert (better.worse, better.unjudged, worse.worse, worse.unjudged) == (0, 0, 1, 0)


@pytest.mark.parametrize(
    ("of", "response", "censored", "unjudged"),
    [
        ("docker", ratio, "right", 0),
        ("docker", ratio, "left", 1),
        ("docker", lower, "right", 1),
        ("docker", lower, "left", 0),
        ("host", ratio, "right", 1),
        ("host", ratio, "left", 0),
    ],
)
def test_what_lies_beyond_what_was_tried_passes_a_gate_where_it_can_but_be_better(
    of: str, response: Callable[..., Response], censored: str, unjudged: int
) -> None:
    before = ran(steady, response)
    records = [
        record.model_copy(update={"responses": {"throughput": response(100.0, censored=censored)}})
        if record.trial.treatment["environment"] == of
        else record
        for record in before.records
    ]
    found = compare(before, Ran(before.manifest, records), ("one", "two"))
    assert found.unjudged == unjudged
    assert {change.reason for change in found.changes if change.treatment["environment"] == "docker"} >= {"censored"}


def test_another_unit_does_not_pass_a_gate() -> None:
    percent = ran(steady, lambda value: Response(value=value, unit="%", better="higher"))
    found = compare(ran(steady), percent, ("one", "two"))
    assert ({change.reason for change in found.changes}, found.unjudged) == ({"units-differ"}, 1)


def without(ran_: Ran, blocks: int) -> Ran:
    """So many blocks have no value of docker's, although their trials are ok."""
    records = [
        record.model_copy(update={"responses": {}})
        if record.trial.treatment["environment"] == "docker" and record.trial.block < blocks
        else record
        for record in ran_.records
    ]
    return Ran(ran_.manifest, records)


def test_values_that_are_not_there_do_not_pass_a_gate() -> None:
    found = compare(ran(steady), without(ran(steady), 8), ("one", "two"))
    assert (found.gone, found.unjudged) == (1, 0)
    few = compare(ran(steady), without(ran(steady), 6), ("one", "two"))
    assert (few.gone, few.unjudged) == (0, 1)
    costs = next(change for change in few.changes if change.of == "contrast")
    assert (costs.reason, costs.because_of, costs.blocks) == ("too-few-blocks", "after", 2)
    assert [warning.text for warning in costs.warnings] == ["2 of 8 blocks of the run after have it"]
    some = compare(ran(steady), without(ran(steady), 1), ("one", "two"))
    costs = next(change for change in some.changes if change.of == "contrast")
    assert (some.unjudged, costs.verdict, len(costs.warnings)) == (0, Verdict.EQUIVALENT, 1)


@pytest.mark.parametrize(("scatter", "missing", "is_told"), [(4, 2, True), (4, 0, False), (1, 2, False)])
def test_fewer_blocks_that_scatter_more_are_warned_of(scatter: float, missing: int, is_told: bool) -> None:
    before = ran(lambda block, arm: 100 + (block % 4 - 1.5) * (arm == "docker"))
    after = without(ran(lambda block, arm: 100 + (block % 4 - 1.5) * scatter * (arm == "docker")), missing)
    costs = next(one for one in compare(before, after, ("one", "two")).changes if one.of == "contrast")
    found = [warning.text for warning in costs.warnings if warning.code == "scatter-unlike"]
    assert bool(found) == is_told
    assert all("the run after has fewer blocks, and they scatter" in text for text in found)


def test_few_blocks_that_were_planned_so_pass_a_gate() -> None:
    """As they show little, and say so."""
    found = compare(ran(steady, blocks=2), ran(steady, blocks=2), ("one", "two"))
    assert ({change.reason for change in found.changes}, found.unjudged) == ({"too-few-blocks"}, 0)
    assert compare(without(ran(steady), 6), ran(steady), ("one", "two")).unjudged == 0


def test_why_a_gate_cannot_judge_is_told(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = runs
    change_records(after, lambda line: line["responses"]["throughput"].update(value=0.0))
    assert compare_commands.compare(before, after, None, gate=True, as_json=False) == 5
    text = told(capsys)
    assert "slow vs base: throughput cannot be compared; a value of the run after is zero or negative, so it" in text
    assert "gate not met: 1 comparison that cannot be judged any more: a value of the run after is zero or neg" in text
    assert compare_commands.compare(after, before, None, gate=True, as_json=False) == 0
    text = told(capsys)
    assert "throughput cannot be compared; a value of the run before is zero or negative" in text
    assert "of 1 comparison nothing can be said" in text


def test_blocks_that_lack_it_are_told(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = runs
    shutil.copy(before / "journal.jsonl", after / "journal.jsonl")
    change_records(after, lambda line: line["trial"]["block"] or line["responses"].pop("throughput"))
    assert compare_commands.compare(before, after, None, gate=True, as_json=False) == 0
    assert "; 7 of 8 blocks of the run after have it" in told(capsys)


def test_runs_without_one_good_trial_are_told_so(runs: tuple[Path, Path]) -> None:
    for run in runs:
        for environment in ("base", "slow"):
            change_records(run, lambda line: line.update(status="invalid", reason="late", responses={}), environment)
    with pytest.raises(BadInput, match="no good trial of what both runs were to measure"):
        compare_commands.compare(*runs, None, gate=True, as_json=False)


def test_names_do_not_steer_a_terminal_and_an_older_run_is_told(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs
    hostile = after.rename(tmp_path / "after\x1b[31m\u202e[red]")
    made(hostile, "2020-01-01T00:00:00+00:00")
    assert compare_commands.compare(before, hostile, None, gate=False, as_json=False) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\u202e" not in out and "[red]" in out
    assert "! the run named second is the older of the two" in out


def test_differences_are_told_as_changes(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    as_difference = {"value": 0.0, "unit": "", "scale": "difference"}
    for run in runs:
        for environment in ("base", "slow"):
            change_records(run, lambda line: line["responses"]["throughput"].update(as_difference), environment)
    assert compare_commands.compare(*runs, None, gate=False, as_json=False) == 0
    text = told(capsys)
    assert (
        "slow: throughput changed by 0 (0 to 0); its median was 0, so a margin in percent of it means nothing" in text
    )
    assert "slow vs base: throughput changed by 0 (0 to 0); the median of the reference is 0, so a margin" in text


def test_a_host_that_is_slower_as_a_whole_does_not_fail_a_gate(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs
    shutil.copy(before / "journal.jsonl", after / "journal.jsonl")
    scale(after, lambda environment: 0.8)
    assert compare_commands.compare(before, after, None, gate=True, as_json=False) == 0
    assert "▼ different, worse base: throughput 0.80" in told(capsys)


def test_where_no_reference_is_shared_a_gate_goes_by_treatments_alone() -> None:
    before, after = ran(steady), ran(lambda block, arm: 0.8 * steady(block, arm))
    lone = after.manifest.model_copy(update={"plan": after.manifest.plan.model_copy(update={"contrasts": ()})})
    found = compare(before, Ran(lone, after.records), ("one", "two"))
    assert {change.of for change in found.changes} == {"treatment"}
    assert found.worse == 2


def without_slow(run: Path, left_out: bool) -> None:
    """As if the study had one level less, or a host had lacked what it takes."""
    manifest = json.loads((run / "manifest.json").read_text())
    plan = manifest["plan"]
    plan["treatments"] = [one for one in plan["treatments"] if one["environment"] != "slow"]
    plan["contrasts"] = [one for one in plan["contrasts"] if one["treatment"]["environment"] != "slow"]
    if left_out:
        manifest |= {"left_out": [{"environment": "slow"}], "left_out_why": ["mock thing: as the study asked"]}
    (run / "manifest.json").write_text(json.dumps(manifest))
    lines = (run / "journal.jsonl").read_text().splitlines(keepends=True)
    (run / "journal.jsonl").write_text("".join(one for one in lines if '"environment":"slow"' not in one))


@pytest.mark.parametrize("left_out", [True, False])
def test_what_the_run_after_was_not_even_to_measure_fails_a_gate(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str], left_out: bool
) -> None:
    before, after = runs
    shutil.copy(before / "journal.jsonl", after / "journal.jsonl")
    without_slow(after, left_out)
    assert compare_commands.compare(before, after, None, gate=True, as_json=False) == 5
    text = told(capsys)
    why = "; left out of the other, mock thing: as the study asked" if left_out else ""
    assert f"Only one of the runs was to measure it before: slow: web{why} " in text
    assert "that the run after was not even to measure" in text
    # What is new was not there to be held against.
    assert compare_commands.compare(after, before, None, gate=True, as_json=False) == 0
    assert "after: slow: web" in told(capsys)


def test_another_primary_response_is_told_by_its_name(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs
    shutil.copy(before / "journal.jsonl", after / "journal.jsonl")
    manifest = json.loads((after / "manifest.json").read_text())
    workload = manifest["study"]["workloads"][0]
    manifest["study"]["workloads"] = [workload, {**workload, "name": "more"}]
    manifest["plan"]["primaries"] = {"web": "latency_p50", "more": "throughput"}
    (after / "manifest.json").write_text(json.dumps(manifest))
    earlier = json.loads((before / "manifest.json").read_text())
    earlier["study"]["workloads"] = manifest["study"]["workloads"]
    earlier["plan"]["primaries"] = {"web": "throughput", "more": "throughput"}
    (before / "manifest.json").write_text(json.dumps(earlier))
    lines = (before / "journal.jsonl").read_text()
    more = lines.replace('"workload":"web"', '"workload":"more"').replace('"trial":{"id":"', '"trial":{"id":"more-')
    both = lines + more
    for run in runs:
        (run / "journal.jsonl").write_text(both)
    compare_commands.compare(before, after, None, gate=True, as_json=False)
    text = told(capsys)
    assert "before: base: web (throughput)" in text and "after: base: web (median latency)" in text


def test_a_run_that_has_not_come_to_its_end_is_called_so(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs
    lines = (after / "journal.jsonl").read_text().splitlines(keepends=True)
    (after / "journal.jsonl").write_text("".join(lines[: len(lines) // 2]))
    compare_commands.compare(before, after, None, gate=False, as_json=False)
    text = told(capsys)
    assert "; interrupted, " in text and text.count("were planned") == 1


def resumed_with(run: Path, **changed: tuple[str, str]) -> None:
    """As if it had been interrupted after its first block, and resumed after an upgrade."""
    *others, end = (run / "journal.jsonl").read_text().splitlines(keepends=True)
    event = {"schema": "event.v1", "event": "RunResumed", "at_ns": 1, "finished": 2, "changed": changed}
    (run / "journal.jsonl").write_text("".join([*others, json.dumps(event) + "\n", end]))


def test_a_run_that_was_measured_by_two_versions_is_told(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs
    resumed_with(after, QEMU=("7.2.0", "7.2.1"))
    text = "the trials after it was resumed were made with another QEMU: 7.2.1 instead of 7.2.0"
    compare_commands.compare(before, after, None, gate=False, as_json=False)
    said = told(capsys)
    assert f"! after: {text}" in said and "! before:" not in said
    compare_commands.compare(after, before, None, gate=False, as_json=True)
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert warnings == [{"code": "versions-changed", "run": "before", "text": text}]
    run_commands.show(after, as_json=False)
    assert f"! {text}" in told(capsys)


def test_scripts_get_the_whole(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare_commands.compare(*runs, None, gate=True, as_json=True) == 5
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["worse"]) == ("compare.v1", 1)
    assert len(Compared.model_validate(document).changes) == 3


def test_runs_that_cannot_be_compared_are_refused(runs: tuple[Path, Path], tmp_path: Path) -> None:
    before, after = runs
    (tmp_path / "link").symlink_to(before)
    with pytest.raises(BadInput, match="both are the same run"):
        compare_commands.compare(before, tmp_path / "link", None, gate=False, as_json=False)
    with pytest.raises(BadInput, match="not a run's folder"):
        compare_commands.compare(before, tmp_path, None, gate=False, as_json=False)
    (after / "journal.jsonl").write_text("")
    assert compare_commands.compare(before, after, None, gate=True, as_json=False) == 5
    with pytest.raises(BadInput, match="no good trial of what both runs were to measure") as refused:
        compare_commands.compare(after, before, None, gate=True, as_json=False)
    assert (refused.value.where, RunFolder.open(after).manifest().study.name) == (str(after), "golden")


def test_a_copy_of_a_run_is_that_run(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(GOLDEN, tmp_path / "copy"))
    with pytest.raises(BadInput, match=r"both are the same run: they share 16 trials") as refused:
        compare_commands.compare(GOLDEN, copy, None, gate=True, as_json=False)
    assert refused.value.where == str(copy)
    lines = (copy / "journal.jsonl").read_text().splitlines(keepends=True)
    (copy / "journal.jsonl").write_text("".join(lines[: len(lines) // 2]))  # taken while the run went on
    with pytest.raises(BadInput, match=r"both are the same run: they share 8 trials"):
        compare_commands.compare(copy, GOLDEN, None, gate=True, as_json=False)


def test_runs_that_began_in_the_same_second_are_two(runs: tuple[Path, Path]) -> None:
    """As of two hosts whose timers start them; what ended before it was measured may be told alike."""
    before, after = runs
    made(after, RunFolder(before).manifest().created)
    for environment in ("base", "slow"):
        change_records(after, lambda line: line["phases_ns"].update(measure=1), environment)
    lost: dict[str, Any] = {
        "status": "lost",
        "reason": "it never came up",
        "boot": None,
        "responses": {},
        "phases_ns": {},
    }
    for run in runs:
        change_records(run, lambda line: line["trial"]["block"] or line.update(lost, machines=[]))
    assert compare_commands.compare(before, after, None, gate=False, as_json=False) == 0


def test_what_is_the_same_is_not_among_what_is_not() -> None:
    known = RunFolder.open(GOLDEN).manifest()
    programs = {"binaries": {"/usr/sbin/lighttpd": "0c" * 32, "/usr/bin/sysbench": "1d" * 32}}
    with_programs = [facts.model_copy(update={"facts": {**facts.facts, **programs}}) for facts in known.fairness]
    same = known.model_copy(update={"fairness": tuple(with_programs)})
    assert with_programs and list(apart(same, same)) == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("before", "after", "response", "because_of"),
    [
        ((-1e308, 1e308), (1.0, 1.0), plain, "before"),
        ((1.0, 1.0), (1e308, -1e308), plain, "after"),
        ((-1e308, 0.0), (1e308, 0.0), plain, "after"),
        ((5e-324, 1.0), (1.7e308, 1.0), ratio, "after"),
    ],
)
def test_a_change_that_leaves_the_numbers_is_undecided(
    before: tuple[float, float], after: tuple[float, float], response: Callable[[float], Response], because_of: str
) -> None:
    """Of docker and of the host, whose difference or ratio is what may change."""

    def of(sides: tuple[float, float]) -> Ran:
        return ran(lambda block, arm: sides[arm != "docker"], response)

    found = compare(of(before), of(after), ("one", "two"))
    (change,) = [change for change in found.changes if change.of == "contrast"]
    assert (change.verdict, change.reason, change.because_of) == (Verdict.UNDECIDED, "not-finite", because_of)
    assert (change.ratio, change.difference, change.interval, change.equivalence, change.p) == (None,) * 5
    assert found.unjudged == (because_of == "after")
