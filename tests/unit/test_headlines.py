"""Headlines: responses beside the primary one that are judged as it is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nearmetal import studies
from nearmetal.analysis.analyse import analyse
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.commands.gates import JudgedRun, judge_measured
from nearmetal.errors import BadInput
from nearmetal.model import Response, TrialRecord
from nearmetal.planning import plan as planning
from nearmetal.run.plan_execution import take_look_after
from nearmetal.store.manifest import Manifest, pack_plan, unpack_plan
from nearmetal.study import study_file
from nearmetal.study.measurement_digest import digest_measurement
from tests.analysis_inputs import manifest, ratio, record, wobble
from tests.command_line import called
from tests.unit.study_text import GOOD

COST = "cpu_per_event"


def judge_gates_of(of: Manifest, records: list[TrialRecord]) -> JudgedRun:
    return judge_measured(of, analyse(of, records, [], of.plan.primaries), records, list)


def with_headline(**design: Any) -> Manifest:
    made = manifest(**design)
    (web,) = made.study.workloads
    asked = made.study.model_copy(update={"workloads": (web.model_copy(update={"headlines": (COST,)}),)})
    return made.model_copy(update={"study": asked, "plan": planning.make_plan(asked)})


def measure(of: Manifest, rate: float, cost: float) -> list[TrialRecord]:
    """Throughput and cost of docker are these times the host's."""
    made = []
    for block in range(of.study.design.most_blocks):
        for environment, times_rate, times_cost in (("host", 1.0, 1.0), ("docker", rate, cost)):
            noise = 1 + wobble(block, 0.001) * (environment == "docker")
            values = {
                "throughput": ratio(1000 * times_rate * noise),
                COST: Response(value=1e-4 * times_cost * noise, unit="s", better="lower"),
                "errors": Response(value=0.0, unit="share", better="lower", scale="difference"),
            }
            made.append(record(environment, block, values))
    return made


def judge(of: Manifest, records: list[TrialRecord]) -> dict[str, Contrast]:
    found = analyse(of, records, [], of.plan.primaries).contrasts
    assert len({one.response for one in found}) == len(found)
    return {one.response: one for one in found}


def test_a_headline_has_its_share_of_alpha() -> None:
    made = with_headline()
    assert [made.plan.response_of(one) for one in made.plan.contrasts] == ["throughput", COST]
    assert made.plan.level == 0.025
    found = judge(made, measure(made, 1.0, 1.3))
    assert {name for name, one in found.items() if one.primary} == {"throughput", COST}
    assert found[COST].level == found["throughput"].level == 0.025
    assert found["errors"].level == 0.05 and not found["errors"].primary


def test_cost_is_judged_whether_the_rate_is_fixed_or_bound() -> None:
    made = with_headline()
    fixed = judge(made, measure(made, 1.0, 1.3))
    assert (fixed["throughput"].verdict, fixed[COST].verdict) == (Verdict.EQUIVALENT, Verdict.DIFFERENT)
    assert fixed[COST].ratio == pytest.approx(1.3, rel=0.01)
    bound = judge(made, measure(made, 0.5, 1.0))
    assert (bound["throughput"].verdict, bound[COST].verdict) == (Verdict.DIFFERENT, Verdict.EQUIVALENT)


def test_a_run_goes_on_until_its_headlines_are_decided() -> None:
    made = with_headline(blocks={"min": 12, "max": 16})
    first = made.plan.looks[0].blocks
    clear = [one for one in measure(made, 0.5, 2.0) if one.trial.block < first]
    look = take_look_after(first, made, clear, [])
    assert look is not None and look.stops
    vague = [
        one.model_copy(
            update={
                "responses": {
                    **one.responses,
                    COST: replace(one.responses[COST], value=1e-4 * (1 + wobble(one.trial.block, 0.04))),
                }
            }
        )
        if one.trial.treatment["environment"] == "docker"
        else one
        for one in clear
    ]
    look = take_look_after(first, made, vague, [])
    assert look is not None and not look.stops and (look.decided, look.undecided) == (1, 1)


def test_a_manifest_keeps_headlines() -> None:
    plan = with_headline().plan
    again = unpack_plan(type(pack_plan(plan)).model_validate_json(pack_plan(plan).model_dump_json()))
    assert again.contrasts == plan.contrasts


def test_a_contrast_of_a_workload_that_is_not_there_is_damage() -> None:
    document = pack_plan(with_headline().plan)
    ((_, *places),) = document.contrasts
    with pytest.raises(ValueError, match="names a part that is not there"):
        unpack_plan(document.model_copy(update={"contrasts": (("gone", *places),)}))


def test_headlines_change_no_measurement_and_their_absence_no_digest() -> None:
    plain, more = manifest().study, with_headline().study
    assert digest_measurement(plain) == digest_measurement(more)
    assert planning.digest_study(plain) != planning.digest_study(more)


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ('["cpu_per_evnt"]', "has no response 'cpu_per_evnt'"),
        ('["throughput"]', "as its primary response, or twice"),
        ('["errors", "errors"]', "as its primary response, or twice"),
    ],
)
def test_a_headline_that_cannot_be_is_refused_at_its_line(written: str, what: str) -> None:
    text = GOOD.replace('primary = "throughput"', f'primary = "throughput"\nheadlines = {written}')
    with pytest.raises(BadInput, match=what) as refused:
        study_file.read(text, "good.toml")
    assert f"good.toml:{text[: text.index('headlines')].count(chr(10)) + 1}" in str(refused.value)


@pytest.mark.parametrize("name", [name for name in studies.list_names() if name != "calibration"])
def test_built_in_studies_judge_what_the_work_costs(name: str) -> None:
    made = planning.make_plan(study_file.read(studies.read_study_file(name), f"{name}.toml"))
    assert COST in {made.response_of(one) for one in made.contrasts}


def test_a_gate_of_the_primaries_judges_as_the_report_does() -> None:
    """Also what only a step of Holm's finds."""
    of = manifest(("host", "docker", "qemu"), blocks=8, margin=0.001).model_copy(update={"gates": ("worse",)})
    qemu = (1.0001, 1.00002, *(0.80 - 0.01 * block for block in range(6)))
    values = {"host": [1.0] * 8, "docker": [1.5 + 0.01 * block for block in range(8)], "qemu": qemu}
    records = [
        record(name, block, {"throughput": ratio(value)})
        for name, of_blocks in values.items()
        for block, value in enumerate(of_blocks)
    ]
    judged = judge_gates_of(of, records)
    told = {one.treatment["environment"]: one for one in judged.contrasts}
    assert told["qemu"].verdict is Verdict.DIFFERENT and told["qemu"].beyond_margin
    assert not judged.is_met


def test_a_run_that_stops_at_looks_is_gated_on_no_exploratory_comparison() -> None:
    """A headline of one workload may be exploratory in another."""
    made = with_headline(blocks={"min": 12, "max": 16}).model_copy(update={"gates": ("cpu_per_event < 50%",)})
    judged = judge_gates_of(made, measure(made, 1.0, 1.0))
    assert [one.response for one in judged.contrasts] == [COST]
    without = manifest(blocks={"min": 12, "max": 16}).model_copy(update={"gates": ("cpu_per_event < 50%",)})
    assert judge_gates_of(without, measure(made, 1.0, 1.0)).contrasts == ()


@pytest.mark.usefixtures("one_picture")
def test_each_headline_has_pictures_of_its_own(tmp_path: Path) -> None:
    study = tmp_path / "drifting.toml"
    study.write_text("""
name = "drifting"
reference = { environment = "base" }
[environments.base]
kind = "mock"
[environments.slow]
kind = "mock"
[factors]
environment = ["base", "slow"]
[clients]
environment = "mock"
[[workloads]]
name = "web"
kind = "http"
duration = "1s"
headlines = ["latency_p50"]
[design]
blocks = 4
""")
    assert called("run", str(study), "-o", str(tmp_path / "run")).returncode == 0
    drawn = {path.stem for path in (tmp_path / "run/report").glob("drift-*.svg")}
    assert drawn >= {f"drift-web-{response}-blocks" for response in ("throughput", "latency_p50")}
