"""The study `cpu-isolation` asks for what was published, and its quick version decides what it asks in time."""

import pytest

from nearmetal import studies
from nearmetal.model import Study
from nearmetal.planning import plan
from nearmetal.run.estimate import estimate_plan
from nearmetal.studies.published.figures import find_published
from nearmetal.study import study_file

NAME = "cpu-isolation"
FIFTEEN_MINUTES = 15 * 60.0


def read(quick: bool = False) -> Study:
    return study_file.read(studies.read_study_file(NAME), f"{NAME}.toml", quick=quick)


def setting(what: str) -> float:
    found = find_published(NAME)
    assert found is not None
    (one,) = [statement for statement in found.statements if statement.kind == "setting" and what in statement.what]
    return one.low


@pytest.mark.parametrize("quick", [False, True])
def test_there_are_blocks_enough_for_every_comparison(quick: bool) -> None:
    one = read(quick)
    made = plan.make_plan(one)
    spare = 1 if quick else 4
    assert made.blocks == plan.enough_blocks(len(made.contrasts), one.design.alpha) + spare


def test_quick_takes_less_than_fifteen_minutes() -> None:
    one = read(quick=True)
    assert estimate_plan(plan.make_plan(one)) < FIFTEEN_MINUTES < estimate_plan(plan.make_plan(read()))


def test_every_level_is_compared_with_none() -> None:
    contrasts = plan.make_plan(read()).contrasts
    assert {one.reference["isolation"] for one in contrasts} == {"none"}
    assert {one.treatment["isolation"] for one in contrasts} == {"user", "kernel", "kernel+user"}
    assert {one.workload for one in contrasts} == {"http-100", "http-500", "httperf-100", "httperf-500", "noise"}


def test_it_loads_as_was_published() -> None:
    one = read()
    found = find_published(NAME)
    assert found is not None
    assert one.machine.vcpus == setting("virtual CPUs")
    headings = {figure.at["heading"] for figure in found.find_table("httperf").figures}
    by_kind = {kind: [w.parameters for w in one.workloads if w.kind == kind] for kind in ("http", "httperf")}
    for kind, count in (("http", "requests"), ("httperf", "connections")):
        assert {given[count] for given in by_kind[kind]} == headings
        assert {given["rate"] for given in by_kind[kind]} == {setting("requests started")}
        assert {given["timeout"] for given in by_kind[kind]} == {f"{setting('timeout'):g}s"}
    assert all(given["new_connections"] and given["mode"] == "open" for given in by_kind["http"])


def test_the_levels_that_were_published_are_levels_of_ours() -> None:
    found = find_published(NAME)
    assert found is not None
    assert {figure.at["isolation"] for figure in found.find_table("httperf").figures} <= set(
        read().factors["isolation"].levels
    )
