"""What a plan sees by pilots and earlier runs, and how many blocks its aim takes."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nearmetal.analysis.sensitivity import (
    SPARE,
    EarlierRun,
    Evidence,
    find_noise,
    find_sensitivities,
    list_unknown,
    size_blocks,
)
from nearmetal.analysis.signed_rank import signed_rank
from nearmetal.analysis.verdict_rules import count_disagreeing, count_spare, warn_of_no_slack
from nearmetal.errors import BadInput
from nearmetal.model import Plan, ResponseKind, Scale, Study
from nearmetal.planning import noise_evidence, power_description
from nearmetal.planning import plan as planning
from nearmetal.report.block_count import about_sizing
from nearmetal.report.report_input import read_run_input as read_run
from nearmetal.report.sections import method
from nearmetal.report.words import Labels
from nearmetal.store.pilot import PairedNoise, Pilot, find_pilot, keep_pilot
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.measurement_digest import digest_measurement
from nearmetal.study.study_file import locate_key, read

MADE = "2025-03-01T12:00:00+00:00"
STUDY = """
name = "sized"
reference = { environment = "base" }
[environments.base]
kind = "mock"
[environments.other]
kind = "mock"
speed = 0.9
[factors]
environment = ["base", "other"]
[[workloads]]
name = "web"
kind = "http"
[[workloads]]
name = "primes"
kind = "sysbench"
test = "cpu"
[design]
blocks = "auto"
detect = "5%"
"""


def study(*overrides: str) -> Study:
    return read(STUDY, "sized", overrides)


def planned(of: Study) -> Plan:
    return planning.make_plan(noise_evidence.open_number(of))


def noise(workload: str = "web", spread: float = 0.02, scale: Scale = "ratio", **more: Any) -> PairedNoise:
    """Of differences that vary by `spread`."""
    return PairedNoise(
        workload=workload,
        response={"web": "throughput", "primes": "events"}[workload],
        unit="1/s",
        scale=scale,
        treatment={"environment": "other"},
        reference={"environment": "base"},
        typical=1000.0,
        differences=tuple(np.random.default_rng(3).normal(0, spread, 200).tolist()),
        **more,
    )


def pilot(*found: PairedNoise, **more: Any) -> Pilot:
    document = {"run": "r", "made": MADE, "kernel": "6.1", "measured": "abc", "boots": 6, "trials": 1, "repeats": None}
    return Pilot(**{**document, "noise": found, **more})


BOTH = pilot(noise(), noise("primes", 0.01))


def test_a_pilot_comes_before_earlier_runs_and_these_before_nothing() -> None:
    plan = planned(study())
    runs = [EarlierRun(MADE, 1, (noise(spread=0.1), noise("primes", 0.1)))]
    found = list(find_sensitivities(plan, Evidence(pilot(noise()), runs), study("design.blocks=12").design))
    assert [(one.workload, one.source) for one in found] == []  # one block sees nothing
    plan = planned(study("design.blocks=12"))
    found = list(find_sensitivities(plan, Evidence(pilot(noise()), runs), study().design))
    assert [(one.workload, one.source) for one in found] == [("web", "pilot"), ("primes", "runs")]
    assert found[0].finds.smallest < found[1].finds.smallest / 3
    assert [one.workload for one in list_unknown(plan, Evidence(pilot(noise())))] == ["primes"]


def test_runs_are_taken_together_and_those_with_other_repeats_are_not() -> None:
    plan = planned(study("design.blocks=12"))
    one, other = EarlierRun(MADE, 1, (noise(),)), EarlierRun(MADE, 4, (noise(),))
    (alone,) = find_sensitivities(plan, Evidence(runs=[one, other]), study().design)
    assert len(alone.made) == 1
    (both,) = find_sensitivities(plan, Evidence(runs=[one, one]), study().design)
    assert len(both.made) == 2


@pytest.mark.parametrize("power", [0.8, pytest.param(0.95, marks=pytest.mark.long)])
def test_the_number_of_blocks_finds_what_is_to_be_detected(power: float) -> None:
    """Simulated studies of that number, and of a few less, with nearmetal's own test."""
    of = study(f"design.power={power}", "design.detect=2.1%")
    plan = planned(of)
    sizing = size_blocks(plan, Evidence(BOTH), of.design)
    assert sizing is not None and (sizing.workload, sizing.aim, sizing.source) == ("web", "detect", "pilot")
    generator = np.random.default_rng(5)
    shares = []
    for blocks in (sizing.blocks, sizing.blocks - 4):
        drawn = generator.choice(noise().differences, (600, blocks)) + math.log(1.021)
        p = [signed_rank(one, plan.level, 1e-12).p for one in drawn]
        shares.append(np.mean([one is not None and one <= plan.level for one in p]))
    assert shares[0] >= power - 0.02 > shares[1]


def test_precision_is_half_the_width_of_intervals() -> None:
    of = read(STUDY.replace('detect = "5%"', 'precision = "1%"'), "sized")
    plan = planned(of)
    sizing = size_blocks(plan, Evidence(BOTH), of.design)
    assert sizing is not None and sizing.aim == "precision"
    drawn = np.random.default_rng(6).choice(noise().differences, (250, sizing.blocks))
    found = [signed_rank(one, plan.level, 1e-12).interval for one in drawn]
    halves = [(high - low) / 2 for low, high in filter(None, found)]
    assert np.mean(np.array(halves) <= math.log(1.01)) == pytest.approx(0.8, abs=0.06)


def test_a_number_that_is_chosen_leaves_some_blocks_to_disagree() -> None:
    of = study("design.detect=90%")
    sizing = size_blocks(planned(of), Evidence(BOTH), of.design)
    assert sizing is not None
    assert count_disagreeing(sizing.blocks, 0.025) == SPARE
    assert count_disagreeing(sizing.blocks - 1, 0.025) == SPARE - 1


def test_a_difference_in_a_unit_is_a_share_of_what_is_typical() -> None:
    of = study("design.detect=5%", "design.blocks=12")
    found = [noise(spread=20.0, scale="difference"), noise("primes", 1.0, "difference")]
    (web, _) = find_sensitivities(planned(of), Evidence(pilot(*found)), of.design)
    (ratio, _) = find_sensitivities(planned(of), Evidence(BOTH), of.design)
    assert web.blocks_wanted is not None and ratio.blocks_wanted is not None
    assert web.blocks_wanted == pytest.approx(ratio.blocks_wanted, abs=1)
    assert web.finds.smallest == pytest.approx(1000 * ratio.finds.smallest, rel=0.05)
    told = power_description.write_sentence(web, 0.02, Labels.of_plan(planned(of)))
    assert "in throughput" in told and "/s" in told
    titled = Labels((), {("web", "throughput"): ResponseKind(unit="1/s", better="higher", title="piped bytes")})
    assert "in piped bytes" in power_description.write_sentence(web, 0.02, titled)


def test_auto_without_any_noise_is_refused_with_what_to_do() -> None:
    of = study()
    with pytest.raises(BadInput) as caught:
        noise_evidence.fix_blocks(of, planned(of), Evidence(pilot(noise())))
    assert caught.value.what == 'blocks = "auto", and the noise of 1 of 2 comparisons is not known (primes)'
    assert "--pilot" in caught.value.remedy and "--blocks 12" in caught.value.remedy


def test_auto_that_takes_too_many_blocks_is_refused() -> None:
    of = study("design.margin=0.01%", "design.detect=0.02%")
    with pytest.raises(BadInput) as caught:
        noise_evidence.fix_blocks(of, planned(of), Evidence(BOTH))
    assert "and 1,000 are the most" in caught.value.what


def test_auto_is_fixed_and_says_by_what() -> None:
    of = study()
    fixed, sizing = noise_evidence.fix_blocks(of, planned(of), Evidence(BOTH))
    assert sizing is not None and fixed.design.blocks == sizing.blocks
    told = about_sizing(sizing, fixed.design)
    expected = f'blocks = "auto": {sizing.blocks}, by the pilot of 1 Mar 2025 (detect 5 % with a power of 0.8; web '
    assert told.startswith(expected)
    other = study("design.blocks=8")
    assert noise_evidence.fix_blocks(other, planned(other), Evidence()) == (other, None)


def test_auto_that_cannot_be_fixed_is_told_at_its_line() -> None:
    line = 1 + STUDY[: STUDY.index('blocks = "auto"')].count("\n")
    assert locate_key(STUDY, "sized.toml", (), False, ("design", "blocks")) == f"sized.toml:{line}"
    override = "design.blocks=auto"
    assert override in locate_key(STUDY, "sized.toml", [override], False, ("design", "blocks"))
    with pytest.raises(BadInput, match=f"sized.toml:{line}"):
        noise_evidence.fix_blocks(study(), planned(study()), Evidence(), f"sized.toml:{line}")


def test_failures_of_earlier_runs_take_more_blocks() -> None:
    of = study()
    failing = Evidence(pilot(noise(failing=0.1), noise("primes", 0.01)))
    numbers = [size_blocks(planned(of), one, of.design) for one in (Evidence(BOTH), failing)]
    assert numbers[0] is not None and numbers[1] is not None and numbers[0].blocks < numbers[1].blocks


def test_the_report_says_how_the_number_of_blocks_was_fixed() -> None:
    report = read_run(RunFolder.open(Path(__file__).parents[1] / "golden" / "run"))
    of = study()
    fixed, sizing = noise_evidence.fix_blocks(of, planned(of), Evidence(BOTH))
    manifest = report.manifest.model_copy(update={"sizing": sizing, "study": fixed, "plan": planning.make_plan(fixed)})
    section = method.plugin.render(replace(report, manifest=manifest))
    assert section is not None and sizing is not None
    text = str(section.blocks[0])
    assert f'blocks = "auto": {sizing.blocks}, by the pilot of 1 Mar 2025' in text
    assert f"k = {count_spare(manifest.plan)}" in text


def test_advice_says_how_many_blocks_an_aim_takes() -> None:
    of = study("design.blocks=12")
    found = list(find_sensitivities(planned(of), Evidence(BOTH), of.design))
    told = power_description.about_aim(found, of.design)
    assert told is not None and told.startswith("detect 5 % with a power of 0.8 takes ")
    none = read(STUDY.replace('detect = "5%"', "").replace('"auto"', "12"), "sized")
    assert (
        power_description.about_aim(list(find_sensitivities(planned(none), Evidence(BOTH), none.design)), none.design)
        is None
    )


@pytest.mark.parametrize(
    ("blocks", "k", "codes"),
    [
        ("6", None, ["no-slack"]),
        ("7", 0, ["no-slack"]),
        ("8", 1, []),
        ("{min = 7, max = 40}", 20, []),
        ("{min = 6, max = 7}", 0, ["no-slack"]),
    ],
)
def test_a_plan_says_whether_its_blocks_must_all_agree(blocks: str, k: int | None, codes: list[str]) -> None:
    plan = planned(study(f"design.blocks={blocks}"))
    assert count_spare(plan) == k
    assert [one.code for one in warn_of_no_slack(plan)] == codes


def test_k_is_what_a_verdict_can_bear() -> None:
    """With k of the smallest differences the other way the test rejects, and with one more it does not."""
    for blocks in (8, 12, 20):
        k = count_disagreeing(blocks, 0.0125)
        assert k is not None
        differences = np.arange(1.0, blocks + 1)
        turned = [np.where(differences <= number, -differences, differences) for number in (k, k + 1)]
        intervals = [signed_rank(one, 0.0125, 1e-12).interval for one in turned]
        assert [one is not None and one[0] > 0 for one in intervals] == [True, False]


def test_a_pilot_is_found_again_for_the_same_study_and_kernel(tmp_path: Any) -> None:
    keep_pilot(BOTH, tmp_path)
    assert find_pilot("abc", "6.1", tmp_path) == BOTH
    assert find_pilot("abc", "6.2", tmp_path) is None
    assert find_pilot("abd", "6.1", tmp_path) is None


def test_what_is_measured_is_the_same_however_often_and_whatever_is_concluded() -> None:
    measured = digest_measurement(study())
    same = ("design.blocks=9", "design.seed=7", "design.margin=1%", "design.repeats=4", "question=why")
    assert {digest_measurement(study(one)) for one in same} == {measured}
    other = ("workloads.web.duration=3s", "environments.other.speed=0.8", "design.share_boot=true", "machine.vcpus=2")
    assert measured not in {digest_measurement(study(one)) for one in other}


def test_failures_weigh_as_many_blocks_as_their_run_had() -> None:
    """Ten blocks of which half failed, and 190 of which none: one in forty."""
    half = noise(failing=0.5)
    few = half.model_copy(update={"differences": half.differences[:5]})
    many = half.model_copy(update={"differences": half.differences[:190], "failing": 0.0})
    plan = planned(study("design.blocks=12"))
    contrast = next(one for one in plan.contrasts if one.workload == "web")
    known = find_noise(plan, contrast, Evidence(runs=[EarlierRun(MADE, 1, (one,)) for one in (few, many)]))
    assert known is not None and known.noises[0].failing == pytest.approx(0.025)


def test_one_sentence_tells_the_comparison_that_sees_the_least_of_a_workload_and_source() -> None:
    plan = planned(study("design.blocks=12"))
    seen = list(find_sensitivities(plan, Evidence(pilot(noise(), noise("primes"))), study().design))
    web, primes = seen
    finds = web.finds.model_copy(update={"smallest": 2 * web.finds.smallest})
    worse = web.model_copy(update={"finds": finds})
    told = list(power_description.write_sentences([web, worse, primes], study().design, Labels.of_plan(plan)))
    assert [line.split(":")[0] for line in told] == ["web", "primes"]
    assert told[0] == power_description.write_sentence(worse, study().design.margin, Labels.of_plan(plan), 2)
    assert "2 comparisons" in told[0] and "comparisons" not in told[1]


def test_a_calibration_tells_each_workload_response_and_pair_of_environments_once() -> None:
    plan = planned(study("design.blocks=12"))
    kinds = {workload.name: workload for of in plan.resolved for workload in of.workloads}
    known: list[Any] = [
        SimpleNamespace(
            environment=of.environment.kind,
            options=dict(of.environment.options),
            made=MADE,
            noise=[
                SimpleNamespace(
                    kind=kinds[name].kind,
                    variant=kinds[name].variant,
                    response=response,
                    scale="ratio",
                    differences=[[0.01], [-0.02], [0.015], [0.03], [-0.01], [0.02]],
                    arms=2,
                    typical=1000.0,
                )
                for name, response in (("web", "throughput"), ("primes", "events"))
            ],
        )
        for of in plan.resolved
    ]
    by_calibrations = Evidence(calibrations=known)
    keys = [found.key for one in plan.contrasts if (found := find_noise(plan, one, by_calibrations))]
    assert [key[:3] for key in keys] == [("calibration", one.workload, plan.response_of(one)) for one in plan.contrasts]
    assert len(set(keys)) == len(keys)
    twice = plan.model_copy(update={"contrasts": plan.contrasts * 2})
    assert len(list(find_sensitivities(twice, by_calibrations, study().design))) == len(keys)
