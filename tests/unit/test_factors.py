"""Factors: which combinations there are, what each asks for, and what it is compared with."""

from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmetal import plugins
from nearmetal.model import (
    CaptureSpec,
    FactorSpec,
    Identity,
    Level,
    MachineSpec,
    ObserveSpec,
    Study,
    identify_assignment,
)
from nearmetal.study import factors
from nearmetal.study.levels import format_assignment
from nearmetal.study.resolve import Resolver
from nearmetal.study.study_file import read
from tests.unit.study_text import GOOD

TREATMENTS = plugins.list_names("treatments")


def study(factor_specs: dict[str, Any], **more: Any) -> Study:
    """A study as data, not checked: these functions have to be right also where `read` is not asked."""
    workload = {"name": "w", "kind": "http", "path": "{path}", **more.pop("parameters", {})}
    specs = {name: spec if isinstance(spec, dict) else {"levels": spec} for name, spec in factor_specs.items()}
    return Study.model_validate({"name": "s", "factors": specs, "workloads": [workload], **more})


def keys(found: Any) -> list[str]:
    return [format_assignment(one) for one in found]


# ── Combinations ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_crossed_factors_vary_the_last_fastest() -> None:
    crossed = study({"environment": ["a", "b"], "nic": ["x", "y"]})
    assert keys(factors.treatments_of(crossed)) == [
        "environment=a nic=x",
        "environment=a nic=y",
        "environment=b nic=x",
        "environment=b nic=y",
    ]


def test_a_nested_factor_exists_only_where_it_means_something() -> None:
    nested = study(
        {
            "depth": {"levels": [1, 2], "when": {"nic": "y"}},
            "environment": ["a", "b", "c"],
            "nic": {"levels": ["x", "y"], "when": {"environment": ["b", "c"]}},
        }
    )
    assert keys(factors.treatments_of(nested)) == [
        "environment=a",
        "environment=b nic=x",
        "depth=1 environment=b nic=y",
        "depth=2 environment=b nic=y",
        "environment=c nic=x",
        "depth=1 environment=c nic=y",
        "depth=2 environment=c nic=y",
    ]


def test_true_and_one_are_different_levels() -> None:
    crossed = study({"environment": ["a"], "x": [True, 1, 1.0, "1"], "y": {"levels": [0], "when": {"x": 1}}})
    found = list(factors.treatments_of(crossed))
    assert len({identify_assignment(one) for one in found}) == 4
    assert [("y" in one) for one in found] == [False, True, False, False]
    assert len(list(factors.one_at_a_time(crossed))) == 4


def test_a_circle_is_told() -> None:
    circle = study(
        {"environment": ["a"], "x": {"levels": [1], "when": {"y": 1}}, "y": {"levels": [1], "when": {"x": 1}}}
    )
    with pytest.raises(ValueError, match="circle: x, y"):
        factors.in_order(circle.factors)


@st.composite
def nested_factors(draw: st.DrawFn) -> dict[str, FactorSpec]:
    """Up to seven factors; each may depend on levels of those before it, possible or not."""
    found: dict[str, FactorSpec] = {}
    for number in range(draw(st.integers(1, 7))):
        levels = tuple(range(draw(st.integers(1, 3))))
        outer = draw(st.sets(st.sampled_from(sorted(found)), max_size=2)) if found else set()
        when = {name: tuple(draw(st.sets(st.sampled_from((0, 1, 2)), min_size=1))) for name in sorted(outer)}
        found[f"f{number}"] = FactorSpec(levels=levels, when=when)
    return found


def every(specs: dict[str, FactorSpec]) -> set[Identity]:
    """The definition, word for word: all crossings, without what does not apply."""
    found = set()
    for levels in product(*(spec.levels for spec in specs.values())):
        assignment: dict[str, Level] = dict(zip(specs, levels, strict=True))
        while dropped := [name for name in assignment if not factors.does_apply(specs[name], assignment)]:
            for name in dropped:
                del assignment[name]
        found.add(identify_assignment(assignment))
    return found


@given(nested_factors())
def test_combinations_are_what_the_definition_says(specs: dict[str, FactorSpec]) -> None:
    found = [identify_assignment(one) for one in factors.list_combinations(specs)]
    assert len(found) == len(set(found))
    assert set(found) == every(specs)


@given(nested_factors(), st.integers(0, 50))
def test_counting_agrees_with_enumerating(specs: dict[str, FactorSpec], limit: int) -> None:
    number = len(list(factors.list_combinations(specs)))
    assert factors.count_combinations(specs, 10**6) == number
    assert (factors.count_combinations(specs, limit) > limit) == (number > limit)


@given(nested_factors())
def test_demands_are_exactly_what_makes_a_factor_apply(specs: dict[str, FactorSpec]) -> None:
    found = list(factors.list_combinations(specs))
    for name in specs:
        demanded = factors.list_demands(specs, name)
        assert all(demanded.values()) == any(name in one for one in found)
        assert factors.is_everywhere(specs, name) == all(name in one for one in found)
        for one in found:
            holds = all(outer in one and one[outer] in levels for outer, levels in demanded.items())
            assert holds == (name in one)


def test_the_order_of_the_file_does_not_change_which_combinations_there_are() -> None:
    specs = read(GOOD, "s.toml").factors
    turned = dict(reversed(list(specs.items())))
    assert {identify_assignment(one) for one in factors.list_combinations(specs)} == {
        identify_assignment(one) for one in factors.list_combinations(turned)
    }


# ── One at a time ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_at_a_time_differs_from_the_reference_in_one_factor() -> None:
    crossed = study(
        {"environment": ["a", "b", "c"], "nic": ["x", "y"], "vcpus": [1, 2]},
        reference={"environment": "b", "vcpus": 2},
        design={"crossing": "one-at-a-time"},
    )
    assert sorted(keys(factors.treatments_of(crossed))) == [
        "environment=a nic=x vcpus=2",
        "environment=b nic=x vcpus=1",
        "environment=b nic=x vcpus=2",
        "environment=b nic=y vcpus=2",
        "environment=c nic=x vcpus=2",
    ]


def test_a_nested_factor_is_varied_near_the_reference() -> None:
    nested = study(
        {
            "environment": ["a", "b", "c"],
            "nic": {"levels": ["x", "y"], "when": {"environment": ["b", "c"]}},
        },
        reference={"environment": "c", "nic": "x"},
        design={"crossing": "one-at-a-time"},
    )
    assert sorted(keys(factors.treatments_of(nested))) == [
        "environment=a",
        "environment=b nic=x",
        "environment=c nic=x",
        "environment=c nic=y",
    ]


def test_a_nested_factor_that_the_reference_lacks_is_varied_where_it_exists() -> None:
    nested = study(
        {"environment": ["a", "b"], "nic": {"levels": ["x", "y"], "when": {"environment": "b"}}},
        reference={"environment": "a"},
        design={"crossing": "one-at-a-time"},
    )
    assert sorted(keys(factors.treatments_of(nested))) == [
        "environment=a",
        "environment=b nic=x",
        "environment=b nic=y",
    ]


@given(nested_factors())
def test_one_at_a_time_names_every_level_that_can_be_had(specs: dict[str, FactorSpec]) -> None:
    whole = study({"environment": ["a"]}).model_copy(update={"factors": specs})
    few = list(factors.one_at_a_time(whole))
    assert {identify_assignment(one) for one in few} <= every(specs)
    possible = {(name, level) for one in factors.list_combinations(specs) for name, level in one.items()}
    assert {(name, level) for one in few for name, level in one.items()} == possible


# ── The counterpart ───────────────────────────────────────────────────────────────────────────────────────────────

NESTED = {
    "environment": ["a", "b"],
    "nic": {"levels": ["x", "y"], "when": {"environment": "b"}},
    "queues": {"levels": [1, 2], "when": {"nic": "y"}},
    "offload": [True, False],
}


def counterpart(reference: dict[str, Level], treatment: dict[str, Level], name: str) -> str:
    return format_assignment(factors.find_counterpart(study(NESTED, reference=reference), treatment, name))


def test_factors_that_no_longer_apply_are_dropped() -> None:
    treatment: dict[str, Level] = {"environment": "b", "nic": "y", "queues": 2, "offload": False}
    assert counterpart({"environment": "a"}, treatment, "environment") == "environment=a offload=false"


def test_factors_that_come_in_are_taken_from_the_reference_however_deep() -> None:
    reference: dict[str, Level] = {"environment": "b", "nic": "y", "queues": 2}
    found = counterpart(reference, {"environment": "a", "offload": False}, "environment")
    assert found == "environment=b nic=y queues=2 offload=false"


def test_what_comes_in_without_a_name_is_told() -> None:
    with pytest.raises(factors.UnnamedLevel, match="`queues` comes in") as caught:
        counterpart({"environment": "b", "nic": "y"}, {"environment": "a", "offload": True}, "environment")
    assert caught.value.remedy == "name it: reference = { …, queues = … }"


# ── What a level sets ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "spec", "kind", "key"),
    [
        ("environment", ["a"], "environment", "environment"),
        ("nic", ["a"], "machine", "nic"),
        ("count", [1], "clients", "count"),
        ("rate", ["1bit/s"], "link", "rate"),
        ("capture", [True], "observe", "capture"),
        ("isolation", ["none"], "treatment", "isolation"),
        ("path", ["a"], "placeholder", "path"),
        ("any", {"levels": [1], "sets": "machine.vcpus"}, "machine", "vcpus"),
        ("any", {"levels": ["none"], "sets": "machine.isolation"}, "treatment", "isolation"),
        ("any", {"levels": [True], "sets": "observe.theirs"}, "observe", "theirs"),
        ("any", {"levels": ["host"], "sets": "clients.environment"}, "clients", "environment"),
        ("offload", [True, False], "treatment", "offload"),
        ("any", {"levels": [True], "sets": "clients.offload"}, "clients", "offload"),
    ],
)
def test_what_a_factor_sets(name: str, spec: Any, kind: str, key: str) -> None:
    whole = study({name: spec})
    (found,) = factors.find_aims(name, whole.factors[name], whole, factors.KnownNames(TREATMENTS, ()))
    assert (found.kind, found.key) == (kind, key)


@pytest.mark.parametrize(
    "sets", ["", "machine", "machine.", "observe.", "machine.none", "design.blocks", ".nic", "a.b.c"]
)
def test_what_cannot_be_set(sets: str) -> None:
    whole = study({"any": {"levels": [1], "sets": sets}})
    with pytest.raises(factors.NoTarget):
        factors.find_aims("any", whole.factors["any"], whole, factors.KnownNames(TREATMENTS, ()))


def test_a_combination_is_put_into_the_study() -> None:
    whole = read(GOOD.replace("[factors]", '[factors]\nisolation = ["none", "kernel"]\nloss = ["1%"]'), "s.toml")
    wanted: dict[str, Level] = {
        "isolation": "kernel",
        "loss": "1%",
        "environment": "slow",
        "workers": 4,
        "nic": "e1000",
    }
    asked = Resolver(whole).ask_treatment(wanted)
    assert asked.environment == "slow"
    assert asked.machine == MachineSpec(vcpus=2, memory=512 * 2**20, nic="e1000")
    assert (asked.link.rate, asked.link.loss) == (10**9, 0.01)
    assert asked.treatments == {"isolation": "kernel"}
    assert asked.workloads[0].parameters["workers"] == 4
    assert whole.workloads[0].parameters["workers"] == "{workers}"


def test_keys_are_told_in_the_order_of_the_file() -> None:
    found = keys(factors.treatments_of(read(GOOD, "s.toml")))
    assert found[0] == "environment=base workers=1"
    assert found[-1] == "environment=slow workers=4 nic=e1000"
    assert all(one != other for one, other in pairwise(found))


def test_an_observer_that_is_a_factor_is_set_up_as_the_study_says() -> None:
    whole = study({"environment": ["host"], "capture": [False, True], "usage": [False, True]})
    whole = whole.model_copy(
        update={"observe": ObserveSpec(capture=CaptureSpec(snap=512), usage=0.1)},
    )
    on, off = ({"environment": "host", "capture": is_on, "usage": is_on} for is_on in (True, False))
    assert Resolver(whole).ask_treatment(on).observe == whole.observe
    assert Resolver(whole).ask_treatment(off).observe == ObserveSpec()
    plain = whole.model_copy(update={"observe": ObserveSpec()})
    assert Resolver(plain).ask_treatment(on).observe == ObserveSpec(capture=CaptureSpec(), usage=1.0)
