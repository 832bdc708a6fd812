"""What differs besides what is under study, and is known to move a response, stands at the contrast."""

from collections.abc import Mapping
from typing import Any

import pytest

from nearmetal.analysis.confounders import CONFOUNDERS
from nearmetal.analysis.results import Contrast
from nearmetal.model import Study
from nearmetal.planning import plan as planning
from nearmetal.store.manifest import MachineFacts
from tests.analysis_inputs import manifest, only, run, whole_run

CONTROL = "net.ipv4.tcp_congestion_control"


def contrast(
    host: Mapping[str, Any],
    docker: Mapping[str, Any],
    workload: Mapping[str, Any] | None = None,
    role: str = "server",
) -> Contrast:
    """Of docker against host, whose machines told these facts."""
    of = manifest()
    if workload is not None:
        document = of.study.model_dump(mode="json", by_alias=True)
        study = Study.model_validate({**document, "workloads": [{"name": "web", **workload}]})
        of = of.model_copy(update={"study": study, "plan": planning.make_plan(study)})
    told = tuple(
        MachineFacts.from_json({"treatment": {"environment": name}, "role": role, "facts": facts})
        for name, facts in (("host", host), ("docker", docker))
    )
    of = of.model_copy(update={"fairness": told})
    return only(run(of, whole_run(of, lambda *_: 1.0)))


def test_a_fact_that_differs_and_moves_the_response_is_named_with_both_values() -> None:
    found = contrast({"sysctls": {CONTROL: "bbr"}}, {"sysctls": {CONTROL: "cubic"}})
    assert found.confounded_by == (CONTROL,)
    (warning,) = (one for one in found.warnings if one.code == "confounded")
    assert warning.text == (
        f"both sides also differ in what is known to move it: {CONTROL} (cubic, the reference's bbr)"
    )
    at_clients = contrast({"sysctls": {CONTROL: "bbr"}}, {"sysctls": {CONTROL: "cubic"}}, role="client")
    assert at_clients.confounded_by == (f"client: {CONTROL}",)


@pytest.mark.parametrize(
    ("host", "docker"),
    [
        ({"sysctls": {CONTROL: "bbr"}}, {"sysctls": {CONTROL: "bbr"}}),
        ({"sysctls": {CONTROL: "bbr"}}, {"sysctls": {}}),  # one side alone tells it
        ({"sysctls": {"kernel.pid_max": "1"}}, {"sysctls": {"kernel.pid_max": "2"}}),  # moves nothing
        (
            {"interfaces": {"data": {"qdisc": "noqueue", "up": True}}},
            {"interfaces": {"data": {"qdisc": "fq", "up": True}}},
        ),
        ({}, {}),
    ],
)
def test_what_is_alike_or_moves_nothing_confounds_nothing(host: Mapping[str, Any], docker: Mapping[str, Any]) -> None:
    found = contrast(host, docker)
    assert found.confounded_by == () and "confounded" not in {one.code for one in found.warnings}


@pytest.mark.parametrize(
    ("workload", "named"),
    [
        ({"kind": "http"}, {CONTROL, "kernel release", "clock source", "mitigations", "qdisc"}),
        ({"kind": "sysbench", "test": "cpu", "primary": "throughput"}, {"clock source"}),
        ({"kind": "ping", "primary": "throughput"}, {"kernel release", "clock source", "mitigations"}),
        (
            {"kind": "sysbench", "test": "fileio", "mode": "seqwr", "primary": "throughput"},
            {"kernel release", "clock source", "mitigations", "vm.dirty_ratio"},
        ),
    ],
)
def test_a_fact_confounds_only_what_it_moves(workload: Mapping[str, Any], named: set[str]) -> None:
    def told(number: int) -> dict[str, Any]:
        return {
            "kernel": {"release": f"6.{number}"},
            "clock": {"source": f"clock-{number}"},
            "mitigations": {"spectre_v2": f"Mitigation: {number}", "meltdown": "Not affected"},
            "sysctls": {CONTROL: f"control-{number}", "vm.dirty_ratio": f"{number}"},
            "interfaces": {"data": {"qdisc": f"queue-{number}", "up": True}},
        }

    assert set(contrast(told(1), told(2), workload).confounded_by) == named


def test_what_a_factor_of_the_contrast_sets_is_under_study() -> None:
    of = manifest()
    document = of.study.model_dump(mode="json", by_alias=True)
    factor = {"levels": ["cubic", "bbr"], "sets": f"sysctl.{CONTROL}"}
    study = Study.model_validate(
        {
            **document,
            "factors": {"environment": {"levels": ["host"]}, "congestion": factor},
            "reference": {"congestion": "cubic"},
        }
    )
    told = tuple(
        MachineFacts(
            treatment={"environment": "host", "congestion": level},
            role="server",
            facts={"sysctls": {CONTROL: level, "net.ipv4.tcp_sack": sack}},
        )
        for level, sack in (("cubic", "0"), ("bbr", "1"))
    )
    of = of.model_copy(update={"study": study, "plan": planning.make_plan(study), "fairness": told})
    (found,) = run(of, ()).contrasts
    assert found.confounded_by == ("net.ipv4.tcp_sack",)


def test_each_is_there_once() -> None:
    assert len({(one.group, one.fact) for one in CONFOUNDERS}) == len(CONFOUNDERS)
