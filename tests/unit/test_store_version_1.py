"""What readers knew by name when manifests had version 1 is what workloads and environments say of themselves now."""

from typing import Any

import pytest

from nearmetal.model import Description, EnvironmentSpec, MachineSpec, WorkloadSpec
from nearmetal.store import version_1
from nearmetal.study.resolve import resolve_alone, resolve_workload

_UNDESCRIBED = Description(family=None, kernel=None, placement=None)


@pytest.mark.parametrize("kind", ["host", "docker", "podman", "qemu", "mock"])
def test_families_and_places_are_those_that_environments_tell(kind: str) -> None:
    told = resolve_alone(EnvironmentSpec(kind=kind), MachineSpec())
    known = version_1.describe_environment(told.model_copy(update={"description": _UNDESCRIBED}))
    assert (known.family, known.is_reached_from_outside) == (told.description.family, False)
    assert known.kernel == "host" or known.family != "container"
    assert version_1.describe_environment(told) is told.description


def test_a_kind_that_nobody_knew_has_no_family() -> None:
    told = resolve_alone(EnvironmentSpec(kind="host"), MachineSpec())
    theirs = told.model_copy(update={"kind": "theirs", "description": _UNDESCRIBED})
    assert version_1.describe_environment(theirs).family == "unknown"


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("http", {}),
        ("http", {"mode": "open", "rate": 10}),
        ("http", {"server": "probe", "delay": "20ms"}),
        ("http", {"server": "probe", "delay": "0ms"}),
        ("httperf", {"rate": 10}),
        ("sysbench", {"test": "cpu"}),
        ("sysbench", {"test": "fileio"}),
        ("iperf3", {}),
        ("ping", {}),
        ("noise", {}),
        ("command", {"argv": ["true"], "response": "r", "better": "lower", "match": "([0-9]+)"}),
        ("command", {"argv": ["true"], "response": "r", "better": "lower", "match": "([0-9]+)", "on": "client"}),
    ],
)
def test_workloads_have_the_clients_and_the_variant_that_they_tell(kind: str, parameters: dict[str, Any]) -> None:
    told = resolve_workload(WorkloadSpec.model_validate({"name": "w", "kind": kind, **parameters}))
    assert version_1.has_clients(kind, parameters) == told.has_clients
    assert version_1.describe_variant(kind, parameters) == told.variant
