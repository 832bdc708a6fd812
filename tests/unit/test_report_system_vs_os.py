"""The chapter on sysbench: the published statistics beside the same ones of ours, and what was claimed, tested."""

import shutil
import statistics
from pathlib import Path

import pytest

from nearmetal.report import explanations
from nearmetal.report.blocks import Chart, Quantity, Section, Statements, Table
from nearmetal.report.chapters import make_sections
from nearmetal.report.report_input import read_run_input
from nearmetal.report.write import write
from nearmetal.store.run_folder import RunFolder
from tests import journals, plausible_run, plausible_sysbench

pytestmark = pytest.mark.usefixtures("one_engine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return plausible_sysbench.sysbench(tmp_path_factory.mktemp("run") / "sysbench")


def chapter(folder: RunFolder) -> Section | None:
    return next((section for section in make_sections(read_run_input(folder)) if section.name == "system-vs-os"), None)


def table(folder: RunFolder, name: str) -> list[dict[str, object]]:
    section = chapter(folder)
    assert section is not None
    (found,) = [block for block in section.blocks if isinstance(block, Table) and block.name == name]
    return [dict(zip([column.title for column in found.columns], row, strict=True)) for row in found.rows]


def statements(folder: RunFolder) -> Statements:
    section = chapter(folder)
    assert section is not None
    (found,) = [block for block in section.blocks if isinstance(block, Statements)]
    return found


def claims(folder: RunFolder) -> dict[str, list[str]]:
    """What is said of each claim, with its badge, by the claim's first words."""
    told: dict[str, list[str]] = {}
    for item in statements(folder).items:
        told.setdefault(item.about, []).append(f"{item.badge.text}: {item.text}")
    return told


def said(told: dict[str, list[str]], begin: str) -> list[str]:
    (found,) = [texts for about, texts in told.items() if about.startswith(begin)]
    return found


def test_other_studies_have_no_such_chapter(tmp_path: Path) -> None:
    assert chapter(plausible_run.make(tmp_path / "quickstart", blocks=2)) is None
    mine = plausible_sysbench.SOURCE.replace("system-vs-os", "mine")
    assert chapter(plausible_sysbench.sysbench(tmp_path / "mine", 2, mine)) is None


def printed(folder: RunFolder, name: str, treatment: str, figure: str) -> dict[str, object]:
    (row,) = [
        row
        for row in table(folder, name)
        if (row["treatment"], row["figure"], row["from"]) == (treatment, figure, "published")
    ]
    return row


def test_every_test_stands_above_the_published_one(folder: RunFolder) -> None:
    rows = table(folder, "statistics-cpu")
    assert [row["from"] for row in rows] == ["here", "published"] * 7  # the seven that were published
    docker = printed(folder, "statistics-cpu", "docker, vcpus 2, memory 2GiB", "events")
    assert docker["min"] == Quantity(1062.10, "1/s") and docker["runs"] == 5
    assert docker["stddev"] == Quantity(398.7, "1/s")
    accelerated = printed(folder, "statistics-cpu", "qemu, vcpus 2, memory 2GiB, accel kvm", "events")
    assert accelerated["average"] == Quantity(2062.8, "1/s")
    assert printed(folder, "statistics-cpu", "qemu, vcpus 1", "events")["average"] == Quantity(280.4, "1/s")


def test_the_standard_deviation_is_the_populations_as_published(folder: RunFolder) -> None:
    row = table(folder, "statistics-cpu")[0]
    treatment = {"environment": "docker", "vcpus": 2, "memory": "2GiB"}
    (cell,) = [
        cell
        for cell in read_run_input(folder).analysis.cells
        if (cell.workload, cell.response, cell.treatment) == ("cpu", "events", treatment)
    ]
    assert row["stddev"] == Quantity(statistics.pstdev(cell.values), "1/s")
    assert isinstance(row["min"], Quantity) and row["min"].value == min(cell.values) and row["runs"] == 10


def test_of_one_run_there_is_no_standard_deviation(tmp_path: Path) -> None:
    rows = table(plausible_sysbench.sysbench(tmp_path / "run", 1), "statistics-cpu")
    assert {row["stddev"] for row in rows if row["from"] == "here"} == {None}


def test_files_are_told_in_bytes_and_seconds_and_arithmetic_has_no_published_latency(folder: RunFolder) -> None:
    rows = table(folder, "statistics-fileio-as-run")
    assert [row["figure"] for row in rows[::14]] == ["read rate", "write rate", "mean latency"]
    emulated = "qemu, vcpus 2, memory 2GiB, accel tcg"
    assert printed(folder, "statistics-fileio-as-run", emulated, "read rate")["average"] == Quantity(
        6.37 * 2**20, "B/s"
    )
    latency = printed(folder, "statistics-fileio-as-run", "docker, vcpus 2, memory 2GiB", "mean latency")["average"]
    assert isinstance(latency, Quantity) and latency.value == pytest.approx(0.18e-3)
    assert {row["figure"] for row in table(folder, "statistics-cpu")} == {"events"}


def test_comparisons_are_put_beside_the_published_ones_as_ratios(folder: RunFolder) -> None:
    rows = table(folder, "system-vs-os-ratios")
    half = next(
        row
        for row in rows
        if row["response"] == "read rate" and row["comparison"] == "memory 1GiB vs memory 2GiB (docker, vcpus 2)"
    )
    assert half["published ratio"] == pytest.approx(375.56 / 223.56)
    assert half["measured ratio"] == pytest.approx(plausible_sysbench.HALF_MEMORY, rel=0.03)
    assert half["published is"] == "higher"
    section = chapter(folder)
    assert section is not None
    (chart,) = [block for block in section.blocks if isinstance(block, Chart)]
    assert "published" in chart.caption


def test_what_was_not_asked_beforehand_is_told_beside_the_published_ratios_and_at_the_claims(folder: RunFolder) -> None:
    asked = {(row["response"], row["kind"]) for row in table(folder, "system-vs-os-ratios")}
    assert asked == {
        ("events", "primary"),
        ("read rate", "primary"),
        ("write rate", "exploratory"),
        ("mean latency", "exploratory"),
    }
    section = chapter(folder)
    assert section is not None
    (ratios,) = [one for one in section.blocks if isinstance(one, Table) and one.name == "system-vs-os-ratios"]
    assert "exploratory ones are each at 95 %" in ratios.caption


def test_a_claim_held_against_what_was_not_asked_beforehand_says_so(folder: RunFolder, tmp_path: Path) -> None:
    other = plausible_sysbench.SOURCE.replace('primary    = "read"', 'primary    = "written"')
    exploratory = {
        item.about
        for item in statements(plausible_sysbench.sysbench(tmp_path / "run", 6, other)).items
        if item.detail.startswith("exploratory, 95 % interval")
    }
    assert {about for about in exploratory if "files" in about} == exploratory and len(exploratory) == 3
    assert not any("exploratory" in item.detail for item in statements(folder).items)


def test_what_was_claimed_is_tested(folder: RunFolder) -> None:
    told = claims(folder)
    (memory,) = said(told, "With half of the memory Docker reads files faster")
    assert memory.startswith("different, worse") and "1.68 ×" in next(iter(told))
    (files,) = said(told, "With hardware acceleration QEMU reads files no faster")
    assert files.startswith("equivalent")
    (arithmetic,) = said(told, "With hardware acceleration QEMU's arithmetic")
    assert arithmetic.startswith("equivalent")


def test_no_claim_about_files_is_tested_on_smaller_ones(tmp_path: Path) -> None:
    smaller = plausible_sysbench.SOURCE.replace('total_size = "2GiB"', 'total_size = "32MiB"')
    folder = plausible_sysbench.sysbench(tmp_path / "smaller", 2, smaller)
    told = claims(folder)
    about_files = [texts for about, texts in told.items() if "files" in about]
    assert len(about_files) == 3
    assert all(text.startswith("not asked") for texts in about_files for text in texts)
    rows = [row for row in table(folder, "system-vs-os-ratios") if row["response"] == "read rate"]
    assert rows and {row["published is"] for row in rows} == {"not published"}


def test_a_claim_that_nothing_was_measured_for_is_said_to_be_untested(tmp_path: Path) -> None:
    without = plausible_sysbench.SOURCE.replace('["tcg", "kvm"]', '["tcg"]')
    told = claims(plausible_sysbench.sysbench(tmp_path / "emulated", 2, without))
    assert said(told, "With hardware acceleration QEMU reads files") == ["not asked: This run compares no such two."]
    assert not said(told, "QEMU does far less")[0].startswith("not asked")


def test_it_is_written_to_the_page_and_to_data_files(folder: RunFolder) -> None:
    write(folder)
    assert "System against OS virtualization" in folder.page.read_text()
    assert (folder.report / "statistics-fileio-as-run.csv").is_file()


def test_what_sysbench_does_are_events_and_no_requests(folder: RunFolder, tmp_path: Path) -> None:
    observed = RunFolder(Path(shutil.copytree(folder.path, tmp_path / "observed")))
    with journals.changed(observed.journal) as lines:
        for line in lines:
            if line["schema"].startswith("record."):
                interrupts = 900.0 if line["trial"]["treatment"]["environment"] == "qemu" else 100.0
                server = {"seconds": 1.0, "interrupts": interrupts, "context_switches": 0.0}
                line["observers"] = {"usage": {"server-0": server}}
    report = read_run_input(observed)
    contrast = next(one for one in report.analysis.contrasts if one.workload == "cpu" and one.primary)
    explained = explanations.explain_contrast(contrast, report)
    assert "interrupts in the server for each event" in [one.covariate.title for one in explained.found]
    assert "context switches in the server for each event" in [covariate.title for covariate in explained.nil]
