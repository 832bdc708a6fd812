"""The chapter on what else is not the same: differences in its table, and what is the same in a sentence."""

from dataclasses import replace
from typing import Any

import pytest

from nearmetal.analysis.fairness import fairness_of
from nearmetal.report.blocks import Paragraph, Section, Table
from nearmetal.report.report_input import ReportInput, read_run_input
from nearmetal.report.sections.fairness import plugin
from nearmetal.store.manifest import MachineFacts
from nearmetal.store.run_folder import RunFolder
from tests.golden.make_run import FOLDER

PROGRAMS = {"/usr/sbin/lighttpd": "0c" * 32, "/usr/bin/sysbench": "1d" * 32}


@pytest.fixture(scope="module")
def golden() -> ReportInput:
    return read_run_input(RunFolder.open(FOLDER))


def chapter(golden: ReportInput, *of: dict[str, Any]) -> Section:
    """Of as many treatments as have facts, for servers and clients."""
    machines = [
        MachineFacts(treatment={"environment": f"e{number}"}, role=role, facts={"hashes": PROGRAMS, **told})
        for number, told in enumerate(of)
        for role in ("server", "client")
    ]
    manifest = golden.manifest.model_copy(update={"fairness": tuple(machines)})
    rows = fairness_of(machines, {"environment": "e0"})
    analysis = golden.analysis.model_copy(update={"fairness": rows})
    section = plugin.render(replace(golden, manifest=manifest, analysis=analysis))
    assert section is not None
    return section


SAME = "Identical everywhere: all 2 programs under test; client: all 2 programs under test."


@pytest.mark.parametrize("treatments", [2, 8])
def test_identical_programs_are_not_among_what_differs(treatments: int, golden: ReportInput) -> None:
    kernels = [{"kernel": {"release": f"6.{number}"}} for number in range(treatments)]
    said, table = chapter(golden, *kernels).blocks
    assert said == Paragraph(SAME)
    assert isinstance(table, Table)
    assert {row[0] for row in table.rows} == {"kernel"}


def test_where_nothing_differs_that_is_said_in_place_of_a_table(golden: ReportInput) -> None:
    section = chapter(golden, {}, {})
    assert section.lead == "No fact that the machines report of themselves differs."
    assert section.blocks == (Paragraph(SAME),)


def test_processors_stand_before_mitigations_that_one_kernel_does_not_list(golden: ReportInput) -> None:
    listed = {f"one{number}": "Not affected" for number in range(12)}
    metal = {"processor": {"model": "EPYC"}, "mitigations": listed}
    guest = {"processor": {"model": "QEMU"}, "virtualization": {"hypervisor": "TCGTCGTCGTCG"}, "mitigations": {}}
    first = next(one for one in chapter(golden, metal, guest).blocks if isinstance(one, Table) and one.where == "page")
    assert [row[1] for row in first.rows[:2]] == ["model", "client: model"]
    facts = [str(row[1]) for row in first.rows]
    assert facts.index("virtualization.hypervisor") < min(
        place for place, fact in enumerate(facts) if "mitigations" in fact
    )
