"""Calibrations: what is known beforehand, what is said of it, and what `plan` makes of it."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nearmetal import schemas
from nearmetal.analysis.analyse import analyse
from nearmetal.analysis.calibrate import calibrate, find_known_difference
from nearmetal.analysis.responses import BOOT, arms_of_study
from nearmetal.analysis.results import Verdict
from nearmetal.analysis.sensitivity import Evidence, find_sensitivities
from nearmetal.model import Assignment, Response, Study, TrialRecord, TrialStatus
from nearmetal.planning import plan as planning
from nearmetal.planning import power_description
from nearmetal.report.blocks import Badge, Table
from nearmetal.report.report_input import ReportInput
from nearmetal.report.report_input import read_run_input as read_run
from nearmetal.report.sections.calibration import plugin as section
from nearmetal.report.words import Labels
from nearmetal.store import kept_calibrations
from nearmetal.store.calibration_document import Calibration, Noise, Sensitivity
from nearmetal.store.manifest import Manifest
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.study_file import read
from tests import calibration_examples
from tests.calibration_examples import manifest, records, sound

FIRST: Assignment = {"environment": "first", "amount": 2000}
AGAIN: Assignment = {"environment": "again", "amount": 2000}
MORE: Assignment = {"environment": "first", "amount": 2100}


def told(of: Manifest, values: calibration_examples.Values = sound, **more: Any) -> Calibration:
    found = read_off(of, records(of, values, **more))
    assert found is not None
    return found


def read_off(of: Manifest, kept: list[TrialRecord]) -> Calibration | None:
    return calibrate(of, kept, analyse(of, kept, [], of.plan.primaries), "run")


@cache
def plain() -> Calibration:
    return told(manifest())


# ── What is known beforehand ──────────────────────────────────────────────────────────────────────────────────────


def test_names_of_one_environment_are_alike_in_everything() -> None:
    plan = manifest().plan
    for workload in ("arithmetic", "replies", "waits", BOOT):
        found = find_known_difference(plan, AGAIN, FIRST, workload)
        assert found is not None and found.truth is None


def test_more_to_do_is_known_where_it_is_done_and_alike_elsewhere() -> None:
    plan = manifest().plan
    truths = {name: find_known_difference(plan, MORE, FIRST, name) for name in ("arithmetic", "replies", "waits", BOOT)}
    assert all(truths.values())
    arithmetic, replies, waits, boot = (one.truth for one in truths.values() if one)
    assert replies is None and boot is None
    assert arithmetic is not None and waits is not None
    assert (arithmetic.response, arithmetic.scale) == ("elapsed", "ratio")
    assert (arithmetic.low, arithmetic.high) == (1.05, 1.05)
    assert (waits.response, waits.scale) == ("latency_p50", "difference")
    assert [waits.low, waits.high] == pytest.approx([0.95e-3, 1.05e-3])


def test_other_machines_are_not_alike() -> None:
    faster = manifest(16, "environments.again.speed=1.1").plan
    assert find_known_difference(faster, AGAIN, FIRST, "replies") is None
    assert find_known_difference(faster, AGAIN, FIRST, BOOT) is None
    assert find_known_difference(faster, MORE, FIRST, "replies") is not None
    sized = manifest(16, "factors.vcpus=[1, 2]", "reference.vcpus=1").plan
    assert find_known_difference(sized, {**FIRST, "vcpus": 2}, {**FIRST, "vcpus": 1}, "replies") is None


def test_nothing_is_known_of_what_was_not_injected_or_has_other_effects() -> None:
    waits = ("workloads.waits.delay={wait}", 'factors.wait=["0ms", "5ms", "6ms"]')
    none, five, six = ({**FIRST, "wait": wait} for wait in ("0ms", "5ms", "6ms"))
    plan = manifest(16, *waits, "reference.wait=0ms").plan
    assert find_known_difference(plan, five, none, "waits") is None
    assert find_known_difference(plan, six, five, "waits") is not None
    assert find_known_difference(plan, five, six, "waits") is None
    bodies = manifest(16, "workloads.replies.body={amount}B").plan
    assert find_known_difference(bodies, MORE, FIRST, "replies") is None
    both = manifest(16, "workloads.arithmetic.max_prime={amount}").plan
    assert find_known_difference(both, MORE, FIRST, "arithmetic") is None


# ── What a run says ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sound_machine() -> None:
    found = plain()
    assert found.verdict == "sound"
    assert (found.environment, found.kernel, found.quick) == ("mock", "6.1-made-up", False)
    assert found.level == pytest.approx(0.05 / 6)
    alike = [(one.workload, dict(one.treatment) == dict(AGAIN)) for one in found.alike]
    assert sorted(alike) == [("arithmetic", True), ("replies", False), ("replies", True), ("waits", True)]
    assert {one.is_different for one in found.alike} == {False}
    arithmetic, waits = found.injected
    assert (arithmetic.truth, waits.unit) == ((1.05, 1.05), "s")
    assert arithmetic.estimate == pytest.approx(1.05, abs=0.01)
    assert waits.estimate == pytest.approx(1e-3, rel=0.01)
    assert [(one.is_covered, one.is_found) for one in found.injected] == [(True, True)] * 2


def test_what_is_alike_and_called_different_is_told() -> None:
    """Again is 8 % slower in arithmetic, which must not be."""

    def values(treatment: Assignment, workload: str, noise: float) -> dict[str, Response]:
        is_off = workload == "arithmetic" and treatment["environment"] == "again"
        return sound(treatment, workload, noise + (8.0 if is_off else 0.0))

    found = told(manifest(), values)
    assert found.verdict == "unsound"
    assert [one.is_different for one in found.alike if one.workload == "arithmetic"] == [True]
    assert not any(one.is_different for one in found.alike if one.workload != "arithmetic")
    assert all(one.is_covered for one in found.injected)


def test_what_is_alike_and_surely_apart_is_called_different_however_near_it_is() -> None:
    """1.5 % slower, known to half a percent: within the study's margin that is equivalent, and a fault all the same."""

    def values(treatment: Assignment, workload: str, noise: float) -> dict[str, Response]:
        is_off = workload == "arithmetic" and treatment["environment"] == "again"
        return sound(treatment, workload, noise / 10 + (1.5 if is_off else 0.0))

    of = manifest()
    kept = records(of, values)
    analysis = analyse(of, kept, [], of.plan.primaries)
    found = calibrate(of, kept, analysis, "run")
    assert found is not None
    assert {one.verdict for one in analysis.contrasts if one.primary and one.treatment == AGAIN} == {Verdict.EQUIVALENT}
    assert [one.is_different for one in found.alike if one.workload == "arithmetic"] == [True]
    assert not any(one.is_different for one in found.alike if one.workload != "arithmetic")
    assert found.verdict == "unsound"


@pytest.mark.parametrize(
    ("workload", "other"), [("arithmetic", "waits"), pytest.param("waits", "arithmetic", marks=pytest.mark.long)]
)
def test_an_injected_difference_that_is_missed_is_told(workload: str, other: str) -> None:
    """10 % too much of it arrives in arithmetic, 0.3 ms too much in waits."""

    def values(treatment: Assignment, of: str, noise: float) -> Mapping[str, Response]:
        found = sound(treatment, of, noise)
        if of != workload or treatment["amount"] != 2100:
            return found
        name, factor, added = ("elapsed", 1.1, 0.0) if of == "arithmetic" else ("latency_p50", 1.0, 0.3e-3)
        return {**found, name: calibration_examples.seconds(found[name].value * factor + added)}

    found = told(manifest(), values)
    assert found.verdict == "unsound"
    assert {one.workload: one.is_covered for one in found.injected} == {workload: False, other: True}


def test_what_is_injected_is_judged_by_the_response_of_which_the_size_is_known() -> None:
    """Whatever the study's primary response is; then as one of the exploratory ones."""
    found = told(manifest(16, "workloads.arithmetic.primary=events"))
    assert found.verdict == "sound"
    arithmetic = next(one for one in found.injected if one.workload == "arithmetic")
    assert arithmetic.response == "elapsed"
    assert arithmetic.estimate == pytest.approx(1.05, abs=0.01)
    assert "events" in {one.response for one in found.alike}


@pytest.mark.parametrize(
    "value", [math.nan, *(pytest.param(value, marks=pytest.mark.long) for value in (math.inf, -math.inf))]
)
def test_of_values_that_are_not_finite_nothing_is_known(value: float) -> None:
    def odd(treatment: Assignment, workload: str, noise: float) -> dict[str, Response]:
        is_odd = workload == "waits" and treatment == MORE and noise > 0
        return {
            name: replace(one, value=value) if is_odd else one
            for name, one in sound(treatment, workload, noise).items()
        }

    found = told(manifest(), odd)
    assert found.verdict == "unknown"
    (waits,) = [one for one in found.injected if one.workload == "waits"]
    assert (waits.estimate, waits.interval, waits.is_found, waits.is_right) == (None, None, None, None)
    assert waits.reason == "not-finite"
    assert {one.reason for one in found.compared if one is not waits} == {None}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"value": 0.0}, "not-positive"),
        pytest.param({"censored": "right"}, "censored", marks=pytest.mark.long),
        pytest.param({"unit": "h"}, "units-differ", marks=pytest.mark.long),
        (None, "response-missing"),
    ],
)
def test_why_nothing_can_be_told_of_a_comparison_is_told(change: dict[str, Any] | None, reason: str) -> None:
    """Of all blocks there are, in arithmetic: what is injected is odd, and what is alike with it is not."""

    def odd(treatment: Assignment, workload: str, noise: float) -> Mapping[str, Response]:
        found = sound(treatment, workload, noise)
        if workload != "arithmetic" or treatment != MORE:
            return found
        return {} if change is None else {**found, "elapsed": replace(found["elapsed"], **change)}

    found = told(manifest(), odd)
    assert found.verdict == "unknown"
    assert {one.reason for one in found.alike} == {None}
    assert {one.workload: (one.estimate, one.is_right, one.reason) for one in found.injected} == {
        "arithmetic": (None, None, reason),
        "waits": (pytest.approx(1e-3, rel=0.05), True, None),
    }


def test_where_no_known_difference_was_seen_a_fault_would_not_have_been_either() -> None:
    """As on a host that others have for themselves: all is alike, and nothing is told from anything."""

    def loud(treatment: Assignment, workload: str, noise: float) -> Mapping[str, Response]:
        found = sound({**treatment, "amount": 2000}, workload, 30 * noise)
        factor = 1.05 if workload == "arithmetic" and treatment["amount"] == 2100 else 1.0
        name, added = ("elapsed", 0.0) if workload == "arithmetic" else ("latency_p50", 0.01 * abs(noise))
        return {**found, name: calibration_examples.seconds(found[name].value * factor + added)}

    found = told(manifest(), loud)
    assert {one.is_right for one in found.compared} == {True}
    assert {one.is_found for one in found.injected} == {False}
    assert found.verdict == "unknown"


def test_what_is_alike_is_judged_by_its_interval_where_the_run_has_not_ended() -> None:
    """Contrasts of such a run have no verdict; what is alike is called different all the same."""

    def values(treatment: Assignment, workload: str, noise: float) -> Mapping[str, Response]:
        return sound(treatment, workload, noise + (8.0 if treatment["environment"] == "again" else 0.0))

    of = manifest()
    kept = [record for record in records(of, values) if record.trial.block < 12]
    begun = [{"schema": "event.v1", "event": "RunStarted"}]
    found = calibrate(of, kept, analyse(of, kept, begun, of.plan.primaries), "run")
    assert found is not None and "unfinished" in {warning.code for warning in found.warnings}
    assert found.verdict == "unsound"
    assert [one.is_different for one in found.alike if one.workload == "arithmetic"] == [True]


def test_with_few_blocks_nothing_is_known_of_verdicts_but_something_of_noise() -> None:
    found = told(manifest(7))
    assert found.verdict == "unknown"
    assert {one.is_different for one in found.alike} == {one.is_covered for one in found.injected} == {None}
    assert {one.reason for one in found.compared} == {"too-few-blocks"}
    assert found.injected[0].estimate == pytest.approx(1.05, abs=0.01)
    assert found.noise
    assert told(manifest(3)).noise == ()


def test_noise_is_that_of_alike_boots_and_injected_differences_are_none_of_it() -> None:
    found = told(manifest(400))
    noise = {(one.workload, one.response): one for one in found.noise}
    assert noise["arithmetic", "elapsed"].spread == pytest.approx(0.01, rel=0.08)
    assert noise["replies", "latency_p50"].spread == pytest.approx(0.01, rel=0.08)
    assert (noise["arithmetic", "elapsed"].arms, noise["replies", "latency_p50"].arms) == (2, 3)
    assert noise["waits", "latency_p50"].spread < 0.001
    assert ("replies", "errors") not in noise  # there were none, so that nothing varied
    variants = {one.workload: (one.kind, one.variant) for one in found.noise}
    assert variants["arithmetic"] == ("sysbench", "cpu")
    assert (variants["replies"], variants["waits"]) == (("http", "closed"), ("http", "closed, delayed"))
    finds = {one.blocks: one for one in noise["arithmetic", "elapsed"].finds}
    # As theory has it: 2.8 standard errors of differences, of 95 % of the blocks.
    assert finds[40].smallest == pytest.approx(2.8 * 0.01 * (2 / 38.2) ** 0.5, rel=0.15)
    assert finds[6].smallest > finds[12].smallest > finds[40].smallest
    assert all(one.high is not None and one.low < one.smallest < one.high for one in finds.values())


def test_trials_that_are_not_ok_are_counted_and_their_blocks_left_out() -> None:
    of = manifest()
    kept = records(of)
    kept[3] = kept[3].model_copy(update={"status": TrialStatus.FAILED, "reason": "it broke", "responses": {}})
    found = read_off(of, kept)
    assert found is not None
    assert (found.trials.ok, found.trials.failed) == (16 * 9 - 1, 1)
    assert "blocks-missing" in {warning.code for warning in found.warnings}


@pytest.mark.parametrize(("looked", "reason"), [(1, None), pytest.param(0, "not-looked-yet", marks=pytest.mark.long)])
def test_what_is_injected_is_judged_by_the_look_at_which_its_verdict_is(looked: int, reason: str | None) -> None:
    of = manifest(16, "design.blocks={min=10, max=24}")
    look = of.plan.looks[0]
    kept = [record for record in records(of) if record.trial.block < look.blocks]
    taken = [{"event": "LookTaken", "look": 1, "blocks": look.blocks, "stops": False}][:looked]
    analysis = analyse(of, kept, taken, of.plan.primaries)
    (contrast,) = (
        one for one in analysis.contrasts if one.treatment == MORE and one.workload == "arithmetic" and one.primary
    )
    found = calibrate(of, kept, analysis, "run")
    assert found is not None
    (arithmetic,) = (one for one in found.injected if one.workload == "arithmetic")
    assert (arithmetic.estimate, arithmetic.interval) == (contrast.ratio, contrast.interval)
    assert arithmetic.reason == reason
    assert (arithmetic.interval is None) == (reason is not None)


def test_noise_is_that_of_boots_of_one_attempt() -> None:
    """Block 3 is repeated because of one of two alike boots, on a host that is a tenth slower by then."""
    of = manifest(8)
    first = records(of)
    slower = records(of, lambda treatment, workload, noise: sound(treatment, workload, noise + 10.0))
    again = [later(one, 1) for one in slower if one.trial.block == 3]
    once = [one for one in first if one.trial.block != 3]
    failed = [
        one.model_copy(update={"status": TrialStatus.FAILED})
        if (one.trial.block, one.trial.workload, one.trial.treatment) == (3, "arithmetic", AGAIN)
        else one
        for one in first
    ]
    found, expected = read_off(of, [*failed, *again]), read_off(of, [*once, *again])
    assert found is not None and expected is not None

    def arithmetic(of: Calibration) -> list[Noise]:
        return [one for one in of.noise if one.workload == "arithmetic"]

    assert arithmetic(found) == arithmetic(expected) != []


def later(record: TrialRecord, attempt: int) -> TrialRecord:
    trial = replace(record.trial, attempt=attempt, id=f"{record.trial.id}-{attempt}")
    return record.model_copy(update={"trial": trial})


def test_who_else_had_the_cpus_is_told() -> None:
    contention = {"local": {"seconds": 2.0, "cpus": "0-1", "stolen": 0.01, "others": None, "pressure": None}}
    found = told(manifest(), observers={"contention": contention})
    (stolen,) = found.disturbances
    assert (stolen.what, stolen.median, stolen.most, stolen.trials) == ("stolen", 0.01, 0.01, 16 * 9)
    contention["local"]["seconds"] = 0.5
    assert told(manifest(), observers={"contention": contention}).disturbances == ()


def test_who_had_the_cpus_of_trials_that_do_not_count_is_not_told() -> None:
    of = manifest()
    contention = {"local": {"seconds": 2.0, "cpus": "0-1", "stolen": 0.01, "others": None, "pressure": None}}
    kept = records(of, observers={"contention": contention})
    loud = {"contention": {"local": {**contention["local"], "stolen": 0.9}}}
    bad = [
        one.model_copy(update={"status": TrialStatus.INVALID, "reason": "late", "observers": loud})
        for one in kept
        if one.trial.block == 3
    ]
    found = read_off(of, [*bad, *(later(one, 1) if one.trial.block == 3 else one for one in kept)])
    assert found is not None
    (stolen,) = found.disturbances
    assert (stolen.median, stolen.most, stolen.trials) == (0.01, 0.01, 16 * 9)


def test_nothing_is_said_of_a_run_of_which_nothing_is_known() -> None:
    text = 'name = "x"\n[factors]\nenvironment = ["host", "docker"]\n[[workloads]]\nname = "w"\nkind = "http"\n'
    study = read(text, "x")
    other = manifest().model_copy(update={"study": study, "plan": planning.make_plan(study)})
    assert read_off(other, []) is None


def test_it_is_as_its_schema_says() -> None:
    import jsonschema

    document = plain().model_dump(mode="json")
    jsonschema.validate(document, schemas.list_documents()["calibrate.v1"])
    assert Calibration.from_json(json.loads(json.dumps(document))).model_dump(mode="json") == document


def test_its_chapter_has_every_answer_and_other_runs_have_none() -> None:
    of = manifest()
    kept = tuple(records(of))
    arms = arms_of_study(kept, of.study.design)
    analysis = analyse(of, kept, [], of.plan.primaries, arms)
    chapter = section.render(ReportInput(of, analysis, kept, RunFolder(Path("r")), arms, analysis.cells))
    assert chapter is not None
    assert chapter.lead.startswith("Nothing that is alike was called different")
    answers, smallest = (block for block in chapter.blocks if isinstance(block, Table))
    told = [[cell.text if isinstance(cell, Badge) else cell for cell in row] for row in answers.rows]
    assert sorted((row[0], row[2], row[-1]) for row in told if isinstance(row[0], str)) == [
        ("arithmetic", "again vs first", "not called different"),
        ("arithmetic", "amount 2100 vs amount 2000", "in the interval"),
        ("replies", "again vs first", "not called different"),
        ("replies", "amount 2100 vs amount 2000", "not called different"),
        ("waits", "again vs first", "not called different"),
        ("waits", "amount 2100 vs amount 2000", "in the interval"),
    ]
    assert len(smallest.rows) == len(plain().noise)
    golden = read_run(RunFolder(Path(__file__).parents[1] / "golden" / "run"))
    assert section.render(golden) is None


# ── What is kept, and what a plan sees by it ──────────────────────────────────────────────────────────────────────

STUDY = """
name = "later"
reference = { workers = 1 }
[factors]
environment = ["mock"]
workers = [1, 4]
[clients]
environment = "mock"
[[workloads]]
name = "web"
kind = "http"
mode = "{mode}"
workers = "{workers}"
[[workloads]]
name = "primes"
kind = "sysbench"
test = "cpu"
threads = "{workers}"
[design]
blocks = 12
"""


def seen_by(study: Study, *found: Calibration) -> list[Sensitivity]:
    return list(find_sensitivities(planning.make_plan(study), Evidence(calibrations=found), study.design))


def seen(found: Calibration, mode: str = "closed", *overrides: str) -> list[Sensitivity]:
    text = STUDY.replace('"{mode}"', f'"{mode}"' + ("\nrate = 100" if mode == "open" else ""))
    study = read(text, "later", overrides)
    return seen_by(study, found)


def test_the_last_of_each_environment_is_kept(tmp_path: Path) -> None:
    first, later = plain(), told(manifest(), seed=2)
    slow = told(manifest(16, "environments.first.speed=0.5", "environments.again.speed=0.5"))
    kept_calibrations.keep_calibration(first, tmp_path)
    file = kept_calibrations.keep_calibration(later, tmp_path)
    assert file is not None
    kept_calibrations.keep_calibration(slow, tmp_path)
    kept = kept_calibrations.read_calibrations(tmp_path, "6.1-made-up")
    assert [one.environment for one in kept] == ["mock", "mock"]
    assert {one.options.get("speed") for one in kept} == {None, 0.5}
    assert later in kept and first not in kept
    assert kept_calibrations.read_calibrations(tmp_path, "6.2-another") == []
    file.write_text("{")
    assert [dict(one.options) for one in kept_calibrations.read_calibrations(tmp_path, "6.1-made-up")] == [
        {"speed": 0.5}
    ]
    assert kept_calibrations.read_calibrations(tmp_path / "nowhere", "6.1-made-up") == []


def test_a_plan_sees_what_its_blocks_and_level_find() -> None:
    found = told(manifest(100))
    web, primes = seen(found)
    assert [(one.workload, one.response) for one in (web, primes)] == [("web", "throughput"), ("primes", "events")]
    assert (primes.environments, primes.made) == (("mock",), ("2025-03-01T12:00:00+00:00",))
    assert (primes.finds.blocks, primes.level) == (12, 0.025)
    alone = next(one.finds for one in found.noise if one.response == "events")
    assert primes.finds.smallest > next(one.smallest for one in alone if one.blocks == 12)
    for margin, within in ((0.01, ""), (0.05, "; within the margin of 5.0 % it counts as equivalent")):
        sentence = power_description.write_sentence(primes, margin, Labels(()))
        assert re.fullmatch(
            r"primes: by the calibration of 1 Mar 2025 \(mock\), 12 blocks find a difference of 1\.\d % in events "
            rf"in 80 % of studies{within}. So few boots show the noise only roughly: it may take a difference of "
            r"\d\.\d % to \d\.\d %",
            sentence,
        ), sentence


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0, "300 %"),
        (0.31, "31 %"),
        (0.0995, "10 %"),
        (0.0994, "9.9 %"),
        (0.05, "5.0 %"),
        (0.0062, "0.62 %"),
        (0.000149, "0.015 %"),
        (3.1e-7, "0.000031 %"),
    ],
)
def test_a_share_has_two_digits_however_small_it_is(value: float, text: str) -> None:
    assert power_description.format_share(value) == text


def test_a_plan_that_looks_early_is_told_by_its_last_look() -> None:
    _, primes = seen(plain(), "closed", "design.blocks={min = 8, max = 24}")
    assert primes.finds.blocks == 24


def test_nothing_is_said_of_what_was_not_calibrated() -> None:
    found = plain()
    assert [one.workload for one in seen(found, "open")] == ["primes"]
    assert seen(found, "closed", "environments.mock.speed=0.5") == []
    assert seen(found, "closed", "workloads.web.primary=errors", "workloads.primes.primary=latency_max") == []
    assert seen(found, "closed", "design.blocks=5") == []
    assert seen(told(manifest(kind="host"))) == []


@pytest.mark.long
def test_two_environments_are_told_where_both_are_calibrated() -> None:
    noisy = told(manifest(100), lambda treatment, workload, noise: sound(treatment, workload, 7 * noise))
    quiet = told(manifest(100, "environments.first.speed=2.0", "environments.again.speed=2.0"))
    text = STUDY.replace("{ workers = 1 }", '{ environment = "mock" }').replace('"{mode}"', '"closed"')
    text = text.replace("workers = [1, 4]", "workers = [1]").replace('["mock"]', '["mock", "quick"]')
    study = read(f'{text}[environments.quick]\nkind = "mock"\nspeed = 2.0\n', "later")
    assert seen_by(study, noisy) == []
    primes = next(one for one in seen_by(study, noisy, quiet) if one.workload == "primes")
    alike = told(manifest(100), lambda treatment, workload, noise: sound(treatment, workload, 5 * noise))
    # 7 % and 1 % are together as 5 % and 5 %.
    assert primes.finds.smallest == pytest.approx(seen(alike)[1].finds.smallest, rel=0.15)
