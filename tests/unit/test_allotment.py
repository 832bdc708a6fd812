"""What a machine has after it was measured against what it had before."""

import pytest

from nearmetal.lab.cgroup_limits import Limits
from nearmetal.run.allotment import Found, found_changed, limits_changed

GIBIBYTE = 2**30


@pytest.mark.parametrize(
    ("had", "has", "told"),
    [
        (Limits(), Limits(), []),
        (Limits(), Limits(quota=0.05), ["it may use 0.05 CPUs of their time instead of any"]),
        (Limits(quota=0.5), Limits(), ["it may use any of their time instead of 0.5 CPUs"]),
        (Limits(memory=1000), Limits(memory=10), ["its control group allows it 10 bytes of memory instead of 1000"]),
        (None, Limits(quota=0.05), []),
        (Limits(periods={"a": 3}), Limits(periods={"a": 3, "moved to": 9}), []),
        (Limits(periods={"a": 3}), Limits(periods={"a": 9}), ["it was held to a quota that has been taken away again"]),
        (Limits(quota=0.5, periods={"a": 3}), Limits(quota=0.5, periods={"a": 9}), []),
    ],
)
def test_limits(had: Limits | None, has: Limits, told: list[str]) -> None:
    assert limits_changed(had, has) == told


@pytest.mark.parametrize(
    ("had", "has", "told"),
    [
        (Found(2, GIBIBYTE), Found(2, GIBIBYTE - 2**20), []),
        (Found(2, GIBIBYTE), Found(1, GIBIBYTE), ["1 CPUs are online instead of 2"]),
        (Found(2, 1000), Found(2, 500), ["it has 500 bytes of memory instead of 1000"]),
        (Found(None, None), Found(1, 500), []),
        (Found(2, 1000), Found(None, None), []),
    ],
)
def test_what_it_finds_itself_to_have(had: Found, has: Found, told: list[str]) -> None:
    assert found_changed(had, has) == told
