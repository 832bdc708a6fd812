"""What a machine has after it was measured against what it had before."""

import pytest

from nearmetal.lab.cgroup_limits import GroupLimits
from nearmetal.run.resource_readback import MachineResources, found_changed, limits_changed

GIBIBYTE = 2**30


@pytest.mark.parametrize(
    ("had", "has", "told"),
    [
        (GroupLimits(), GroupLimits(), []),
        (GroupLimits(), GroupLimits(quota=0.05), ["it may use 0.05 CPUs of their time instead of any"]),
        (GroupLimits(quota=0.5), GroupLimits(), ["it may use any of their time instead of 0.5 CPUs"]),
        (
            GroupLimits(memory=1000),
            GroupLimits(memory=10),
            ["its control group allows it 10 bytes of memory instead of 1000"],
        ),
        (None, GroupLimits(quota=0.05), []),
        (GroupLimits(periods={"a": 3}), GroupLimits(periods={"a": 3, "moved to": 9}), []),
        (
            GroupLimits(periods={"a": 3}),
            GroupLimits(periods={"a": 9}),
            ["it was held to a quota that has been taken away again"],
        ),
        (GroupLimits(quota=0.5, periods={"a": 3}), GroupLimits(quota=0.5, periods={"a": 9}), []),
    ],
)
def test_limits(had: GroupLimits | None, has: GroupLimits, told: list[str]) -> None:
    assert limits_changed(had, has) == told


@pytest.mark.parametrize(
    ("had", "has", "told"),
    [
        (MachineResources(2, GIBIBYTE), MachineResources(2, GIBIBYTE - 2**20), []),
        (MachineResources(2, GIBIBYTE), MachineResources(1, GIBIBYTE), ["1 CPUs are online instead of 2"]),
        (MachineResources(2, 1000), MachineResources(2, 500), ["it has 500 bytes of memory instead of 1000"]),
        (MachineResources(None, None), MachineResources(1, 500), []),
        (MachineResources(2, 1000), MachineResources(None, None), []),
    ],
)
def test_what_it_finds_itself_to_have(had: MachineResources, has: MachineResources, told: list[str]) -> None:
    assert found_changed(had, has) == told
