"""The size of a study, also one that cannot be enumerated."""

import sys

import pytest

from nearmetal.study import factors, study_file
from tests.unit.study_text import GOOD, refused


def many(factors: int, levels: int, when: str = "") -> str:
    lines = "".join(
        f"[factors.f{number}]\nlevels = {list(range(1, levels + 1))}\n{when}\n" for number in range(factors)
    )
    words = ", ".join(f'"{{f{number}}}"' for number in range(factors))
    command = (
        f'[[workloads]]\nname = "c"\nkind = "command"\nargv = [{words}]\nresponse = "x"\nbetter = "higher"\njson = "x"'
    )
    return f'name = "many"\n[factors]\nenvironment = ["mock"]\n{lines}[clients]\nenvironment = "mock"\n{command}\n'


def test_forty_factors_of_ten_levels_are_refused_without_counting_them() -> None:
    """10^40 combinations: who enumerates them runs into the limit of every test."""
    assert "more than 1,000,000 trials" in refused(many(40, 10)).what


def test_nested_factors_count_only_where_they_apply() -> None:
    inner = '[factors.cpu]\nlevels = [1, 2]\nsets = "machine.vcpus"\nwhen = { nic = "e1000" }\n[machine]'
    read = study_file.read(GOOD.replace("[machine]", inner), "s.toml")
    # base: 2 levels of workers; slow: 2 with virtio-net, and with e1000 2 x 2
    assert factors.number_of_treatments(read, 10**6) == len(list(factors.treatments_of(read))) == 8


def test_one_at_a_time_keeps_a_huge_study_small() -> None:
    read = study_file.read(many(40, 10) + '[design]\ncrossing = "one-at-a-time"\n', "s.toml")
    assert factors.number_of_treatments(read, 10**6) == 1 + 40 * 9


def test_a_level_list_of_a_hundred_thousand_is_counted_and_refused() -> None:
    assert "more than" in refused(GOOD.replace("[1, 4]", str(list(range(1, 100_001))))).what


def test_more_factors_than_calls_may_be_nested_are_read_without_recursion(request: pytest.FixtureRequest) -> None:
    deepest = sys.getrecursionlimit()
    count = 400
    sys.setrecursionlimit(count - 10)  # fewer than Python's thousand: the time grows with the square of the factors
    request.addfinalizer(lambda: sys.setrecursionlimit(deepest))
    assert len(study_file.read(many(count, 1), "s.toml").factors) == count + 1
