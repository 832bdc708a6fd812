"""The study `system-vs-os` asks for what was published, and its quick version decides what it asks in time."""

from pathlib import Path

import pytest

from nearmetal import studies, units
from nearmetal.model import Study
from nearmetal.planning import plan
from nearmetal.run.estimate import estimate_plan
from nearmetal.studies.published.figures import find_published
from nearmetal.study import study_file
from nearmetal.workloads.sysbench.parameters import SysbenchParameters

NAME = "system-vs-os"
TEN_MINUTES = 10 * 60.0


def read(quick: bool = False) -> Study:
    return study_file.read(studies.read_study_file(NAME), f"{NAME}.toml", quick=quick)


def setting(what: str) -> float:
    found = find_published(NAME)
    assert found is not None
    (one,) = [statement for statement in found.statements if what in statement.what and statement.unit != "MiB"]
    return one.low


@pytest.mark.parametrize("quick", [False, True])
def test_there_are_blocks_enough_for_every_comparison(quick: bool) -> None:
    one = read(quick)
    made = plan.make_plan(one)
    spare = 0 if quick else 3
    assert made.blocks == plan.enough_blocks(len(made.contrasts), one.design.alpha) + spare


def test_quick_takes_less_than_ten_minutes() -> None:
    one = read(quick=True)
    assert estimate_plan(plan.make_plan(one)) < TEN_MINUTES < estimate_plan(plan.make_plan(read()))


def test_what_is_written_of_the_whole_is_what_plan_says() -> None:
    one = read()
    assert 4 * 3600.0 < estimate_plan(plan.make_plan(one)) < 5 * 3600.0
    manual = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    assert all("four to five hours" in text for text in (manual, studies.read_study_file(NAME)))


def test_the_treatments_are_the_published_tests() -> None:
    found = find_published(NAME)
    assert found is not None
    printed = {
        (figure.at["environment"], figure.at.get("accelerator"), figure.at["memory"], figure.at["cpus"])
        for figure in found.find_table("cpu").figures
    }
    one = read()
    ours = {
        (
            {"qemu": "QEMU", "docker": "Docker"}[str(treatment["environment"])],
            None if treatment["environment"] == "docker" else {"kvm": "whpx"}.get(str(treatment.get("accel")), "tcg"),
            str(treatment.get("memory", units.show_size(one.machine.memory).replace(" ", ""))).removesuffix("iB"),
            treatment["vcpus"],
        )
        for treatment in plan.make_plan(one).treatments
    }
    assert ours == printed


def test_it_loads_as_was_published() -> None:
    one = read()
    arithmetic, ran, meant = (workload.parameters for workload in one.workloads)
    assert {given["duration"] for given in (arithmetic, ran, meant)} == {f"{setting('length of a test'):g}s"}
    assert arithmetic["max_prime"] == setting("primes")
    assert units.parse_size(str(meant["total_size"])) == setting("files that are prepared") * 2**30
    assert units.parse_size(str(ran["total_size"])) == setting("files that the test reads") * 2**30
    assert {given["threads"] for given in (arithmetic, ran, meant)} == {"{vcpus}"}


def test_files_are_as_sysbench_has_them_by_itself() -> None:
    """The source gives no block size, number of files or fsync: it ran what sysbench 1.0 does without them."""
    for workload in read().workloads[1:]:
        untold = {"files", "block_size", "fsync", "fsync_all", "fsync_end", "fsync_mode", "cache"}
        assert not untold & workload.parameters.keys()
        assert workload.parameters["mode"] == "rndrw"
    usual = SysbenchParameters(test="fileio")
    assert (usual.files, usual.block_size, usual.cache) == (128, 16 * 2**10, "page")
    assert (usual.fsync, usual.fsync_all, usual.fsync_end, usual.fsync_mode) == (100, False, True, "fsync")


@pytest.mark.parametrize("quick", [False, True])
def test_every_surprise_of_the_source_is_asked_but_for_the_accelerator_in_quick(quick: bool) -> None:
    varied = {
        name
        for contrast in plan.make_plan(read(quick)).contrasts
        for name, level in contrast.treatment.items()
        if contrast.reference.get(name, level) != level
    }
    assert varied == {"environment", "vcpus", "memory"} | (set() if quick else {"accel"})
