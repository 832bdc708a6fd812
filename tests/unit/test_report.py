"""The report of a whole run: complete, self-contained, and the same every time."""

import csv
import errno
import hashlib
import io
import json
import os
import re
import shutil
import xml.etree.ElementTree as ElementTree
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema

from nearmetal.analysis.results import Cell
from nearmetal.errors import BadInput
from nearmetal.model import Warned
from nearmetal.report.blocks import Chart, Paragraph, Table
from nearmetal.report.chapters import make_sections
from nearmetal.report.chart_files import render_verdicts
from nearmetal.report.page import keep_units
from nearmetal.report.report_input import ReportInput, read_run_input
from nearmetal.report.sections import cost
from nearmetal.report.write import render, write
from nearmetal.store import journal
from nearmetal.store.events import RunStarted
from nearmetal.store.run_folder import RunFolder
from tests import journals, plausible_run
from tests.unit.report_page import Tags, contents

pytestmark = pytest.mark.usefixtures("one_engine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with its report written, and drawn as for anybody: by processes."""
    made = plausible_run.make(tmp_path_factory.mktemp("run") / "quickstart-1")
    write(made)
    return made


@pytest.fixture(scope="module")
def report(folder: RunFolder) -> ReportInput:
    return read_run_input(folder)


def test_every_chart_is_there_as_svg_verdicts_as_png_too_and_every_table_as_csv(
    folder: RunFolder, report: ReportInput
) -> None:
    names = {path.name for path in folder.report.iterdir()}
    assert {
        "verdicts-ratios.svg",
        "verdicts-close-up.png",
        "responses-web-throughput.svg",
        "cost-web-ready.svg",
    } <= names
    assert {"verdicts.csv", "responses.csv", "cost.csv", "exploratory.csv", "fairness.csv", "troubles.csv"} <= names
    pictures = {name.removesuffix(".svg") for name in names if name.endswith(".svg")}
    assert {name for name in names if name.endswith(".png")} == {"verdicts-ratios.png", "verdicts-close-up.png"}
    drawn = [
        panel for section in make_sections(report) for b in section.blocks if isinstance(b, Chart) for panel in b.panels
    ]
    assert len(pictures) == len(drawn)
    for name in pictures:
        assert ElementTree.fromstring((folder.report / f"{name}.svg").read_text()).tag.endswith("svg")
    for path in folder.report.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG\r\n")


def test_the_same_folder_gives_the_same_bytes_wherever_it_lies(folder: RunFolder, tmp_path: Path) -> None:
    """And whichever process drew it."""
    elsewhere = tmp_path / "another name"
    elsewhere.mkdir()
    shutil.copy(folder.path / "manifest.json", elsewhere)
    shutil.copy(folder.journal, elsewhere)
    copy = RunFolder.open(elsewhere)
    write(copy)
    assert contents(copy) == contents(folder)


def test_the_page_needs_nothing_from_anywhere(folder: RunFolder) -> None:
    page = Tags(folder.page.read_text())
    assert not [tag for tag, _ in page.tags if tag in ("iframe", "object", "embed", "img", "base", "form")]
    for tag, attributes in page.tags:
        for name in ("href", "src", "xlink:href", "action"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:,")), (tag, name, value)
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
    style = re.findall(r"<style>(.*?)</style>", folder.page.read_text(), re.DOTALL)
    assert style and "url(" not in style[0] and "@import" not in style[0]


def test_the_policy_lets_the_page_run_its_only_script_and_load_nothing(folder: RunFolder) -> None:
    text = folder.page.read_text()
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [tag["content"] for name, tag in Tags(text).tags if tag.get("http-equiv") == "Content-Security-Policy"]
    assert policy == (f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'")


def test_marks_name_their_treatment_and_block_and_the_page_knows_both(folder: RunFolder) -> None:
    page = Tags(folder.page.read_text())
    (told,) = [json.loads(str(tag["data-told"])) for _, tag in page.tags if "data-told" in tag]
    assert told == {"names": {"docker": [1], "host": [0], "qemu": [2]}, "treatments": [[0], [1], [2]]}
    labels = [str(tag["aria-label"]).split(" · ") for name, tag in page.tags if tag.get("role") == "graphics-symbol"]
    about = [label for label in labels if label[0] in told["names"]]
    assert {label[1] for label in about if label[1:] and label[1].startswith("block ")} == {
        f"block {block}" for block in range(1, 9)
    }
    assert all("hidden" in tag for _, tag in page.tags if tag.get("id") in ("sift", "tip")), "without scripts"
    last = [str(tag.get("max")) for _, tag in page.tags if tag.get("type") == "number"]
    assert last == ["8", "8"]


def test_links_of_the_contents_lead_to_sections_and_identifiers_are_unique(folder: RunFolder) -> None:
    page = Tags(folder.page.read_text())
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    links = {str(attributes["href"])[1:] for tag, attributes in page.tags if tag == "a"}
    chapters = {"verdicts", "responses", "cost", "exploratory", "fairness", "validity", "method", "study-file"}
    assert chapters | {"top"} == links
    assert links <= set(identifiers)


def test_the_reader_meets_verdicts_first_and_in_words(folder: RunFolder, report: ReportInput) -> None:
    text = " ".join(Tags(folder.page.read_text().split("<main>")[1]).text.split())
    docker = next(c for c in report.analysis.contrasts if c.primary and c.treatment["environment"] == "docker")
    assert docker.ratio is not None
    said = (
        r"In the workload web, the container \(docker\) serves [\d,]+ requests a second where the host serves [\d,]+: "
    )
    assert re.search(rf"{said}2\.\d+ % fewer", text)
    assert text.index("(docker) serves") < text.index("Measurements")
    first = make_sections(report)[0]
    assert first.name == "verdicts" and first.title == "The answer"
    assert "Values are medians over" in first.lead


def test_in_sentences_a_figure_stays_with_its_unit(folder: RunFolder) -> None:
    """On a phone, too, no line begins with it."""
    text = Tags(folder.page.read_text().split("<main>")[1].split('id="study-file"')[0]).text
    assert "the margin of 2\xa0% that the study calls" in text and not re.search(r"margin of \d+ %", text)
    assert re.search(r"\d\xa0% fewer", text) and not re.search(r"\d % fewer", text)
    assert keep_units("2.5 ms, 3 s, 512 MiB, 60 %, 7 h") == "2.5\xa0ms, 3\xa0s, 512\xa0MiB, 60\xa0%, 7\xa0h"
    assert keep_units("8 blocks of 2 sides, 4 machines, 3 hosts") == "8 blocks of 2 sides, 4 machines, 3 hosts"


def test_tables_for_programs_hold_the_plain_numbers(folder: RunFolder, report: ReportInput) -> None:
    rows = list(csv.DictReader(io.StringIO((folder.report / "verdicts.csv").read_text())))
    primary = [contrast for contrast in report.analysis.contrasts if contrast.primary]
    assert len(rows) == len(primary) == 4
    for contrast in primary:
        row = next(
            row
            for row in rows
            if row["workload"] == contrast.workload and row["treatment"] == contrast.treatment["environment"]
        )
        assert contrast.interval is not None
        assert float(row["ratio"]) == contrast.ratio
        assert (float(row["low"]), float(row["high"])) == contrast.interval
        assert row["verdict"].startswith(contrast.verdict)
    assert json.loads((folder.report / "analysis.json").read_text()) == report.analysis.model_dump(mode="json")
    assert json.loads(render(folder, "json"))["schema"] == "analysis.v1"


def test_bad_trials_are_told_with_their_reasons(folder: RunFolder) -> None:
    rows = list(csv.DictReader(io.StringIO((folder.report / "troubles.csv").read_text())))
    assert [(row["status"], row["treatment"], row["block"]) for row in rows] == [
        ("lost", "qemu", "2"),
        ("invalid", "docker", "5"),
    ]
    text = Tags(folder.page.read_text()).text
    assert "cpuset is 0-1, asked for 0" in text
    assert "Only with care: the whole run has the warnings emulated and nested. 58 of 60 trials ended well" in text


def test_people_count_blocks_and_places_from_one_as_a_run_does(report: ReportInput) -> None:
    (validity,) = (section for section in make_sections(report) if section.name == "validity")
    (troubles,) = (block for block in validity.blocks if isinstance(block, Table) and block.name == "troubles")
    assert [row[3:7] for row in troubles.rows] == [(3, 2, 1, 0), (6, 5, 1, 0)]
    (drift,) = (block for block in validity.blocks if isinstance(block, Chart) and block.name == "drift")
    for panel in drift.panels:
        drawn = [row["x"] for layer in panel.spec["layer"] for row in layer["data"]["values"] if "x" in row]
        assert min(drawn) == 1, panel.name


def test_a_disk_that_is_full_is_told_with_its_place_and_leaves_the_old_report(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder.open(shutil.copytree(folder.path, tmp_path / "run"))

    def full(name: str, mode: str, **_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    with monkeypatch.context() as patched:
        patched.setattr("nearmetal.report.write.open", full, raising=False)
        with pytest.raises(OSError, match="No space left") as told:
            write(run)
    assert told.value.filename == str(run.report)
    assert contents(run) == contents(folder)
    assert not [path for path in run.path.iterdir() if path.name.startswith(".")]


def test_a_warning_of_many_trials_is_told_once_with_where_it_was_seen(folder: RunFolder) -> None:
    rows = list(csv.DictReader(io.StringIO((folder.report / "warnings.csv").read_text())))
    (steal,) = (row for row in rows if row["warning"] == "steal")
    assert (steal["times"], steal["of"], steal["what of"], steal["where"]) == ("6", "60", "trials", "qemu (6)")
    assert steal["what was seen"] == "the host took 2.1 to 6.1 % of the guest's CPU time away"
    missing = [row for row in rows if row["warning"] == "blocks-repeated"]
    assert [(row["times"], row["of"], row["what of"]) for row in missing] == [("2", "4", "comparisons")]
    assert "web: docker vs host" in missing[0]["where"]


def test_what_was_withdrawn_stands_before_any_verdict(folder: RunFolder, tmp_path: Path) -> None:
    shutil.copytree(folder.path, tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    event = {"schema": "event.v1", "event": "Withdrawn", "treatment": {"environment": "qemu"}, "reason": "no answer"}
    with journals.changed(run.journal) as lines:
        lines.append(event)
    text = " ".join(Tags(write(run).read_text().split("<main>")[1]).text.split())
    withdrawn = "environment=qemu was withdrawn after three failures running: no answer"
    assert text.index(withdrawn) < text.index("(docker) serves")
    assert text.count(withdrawn) == 1


def test_cpus_that_were_kept_from_the_run_are_told(tmp_path: Path) -> None:
    made = plausible_run.make(tmp_path / "run", blocks=6, faults=False)
    told = "kept CPU 1 of this host free"
    assert told not in render(made, "md")
    made.write_manifest(made.read_manifest().model_copy(update={"kept_free": "1"}))
    assert told in render(made, "md")


def test_boots_that_workloads_share_show_their_costs_once(tmp_path: Path) -> None:
    made = plausible_run.make(tmp_path / "run", blocks=6, faults=False)
    manifest = made.read_manifest()
    design = manifest.study.design.model_copy(update={"share_boot": True})
    made.write_manifest(manifest.model_copy(update={"study": manifest.study.model_copy(update={"design": design})}))
    report = read_run_input(made)
    (chart,) = (b for s in make_sections(report) for b in s.blocks if isinstance(b, Chart) and b.name == "cost")
    names = [panel.name for panel in chart.panels]
    assert names == ["web-cpu_per_event", "primes-cpu_per_event", "boot-memory_overhead", "boot-ready"]


def test_memory_beyond_the_guests_own_is_not_told_of_what_has_no_guest(report: ReportInput) -> None:
    def free(cell: Cell) -> Cell:
        return cell.model_copy(update={"values": (0.0,) * len(cell.values), "median": 0.0})

    cells = tuple(free(cell) if cell.response == "memory_overhead" else cell for cell in report.analysis.cells)
    section = cost.plugin.render(replace(report, cells=cells))
    assert section is not None
    (chart,) = (block for block in section.blocks if isinstance(block, Chart))
    assert chart.panels and not any("memory" in panel.name for panel in chart.panels)
    said = [block.text for block in section.blocks if isinstance(block, Paragraph)]
    assert not said


def test_specifications_are_valid_vega_lite(report: ReportInput) -> None:
    charts = [block for section in make_sections(report) for block in section.blocks if isinstance(block, Chart)]
    specs = [spec for chart in charts for panel in chart.panels for spec in (panel.spec, panel.narrow) if spec]
    assert len(specs) > 10
    # As altair's own objects are checked, without one being made of every row.
    schema = load_schema()
    for spec in specs:
        validate_jsonschema(dict(spec), {"$ref": "#/definitions/TopLevelLayerSpec"}, schema)


@pytest.mark.parametrize("format", ["html", "md", "json", "csv"])
def test_rendering_a_format_gives_text_and_writes_nothing(format: str, folder: RunFolder, tmp_path: Path) -> None:
    lone = plausible_run.make(tmp_path / "run")
    before = sorted(path.name for path in lone.path.iterdir())
    out = render(lone, format)  # type: ignore[arg-type]
    assert isinstance(out, str)
    assert {"html": "<!DOCTYPE html>", "md": "# quickstart", "json": "{", "csv": "workload,"}[format] in out[:200]
    assert sorted(path.name for path in lone.path.iterdir()) == before


def test_a_journal_that_cannot_be_read_leaves_the_old_report(folder: RunFolder, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder.path, run)
    broken = RunFolder.open(run)
    broken.journal.write_text('{"schema": "record.v1", \n')
    with pytest.raises(BadInput, match="line 1"):
        write(broken)
    assert contents(broken) == contents(folder)
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def test_a_journal_is_read_as_its_own_readers_do(folder: RunFolder, tmp_path: Path) -> None:
    """Records that begin otherwise, what is no record, and a torn last line."""
    shutil.copytree(folder.path, tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    lines = run.journal.read_text().splitlines(keepends=True)
    place = next(place for place, line in enumerate(lines) if '"schema":"record.v' in line)
    first = json.loads(lines[place])
    first.pop("sum")
    lines[place] = json.dumps({"trial": first.pop("trial"), **first}) + "\n"
    event = RunStarted(run="run", blocks=4, trials=60).to_line()
    run.journal.write_text("".join([json.dumps(event) + "\n", *lines, lines[-1][:-9]]))
    assert read_run_input(run).records == tuple(journal.read_records(run.journal)) == read_run_input(folder).records
    assert {"unfinished"} <= {warning.code for warning in read_run_input(run).analysis.warnings}


def test_a_record_that_is_damaged_is_told_by_its_line(folder: RunFolder, tmp_path: Path) -> None:
    shutil.copytree(folder.path, tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    journals.rewrite(run.journal, lambda line: line.replace('"status":"lost"', '"status":"mislaid"'))
    with pytest.raises(BadInput, match=r"line \d+"):
        read_run_input(run)


def test_a_run_without_a_single_trial_says_so(folder: RunFolder, tmp_path: Path) -> None:
    empty = RunFolder(tmp_path)
    empty.write_manifest(folder.read_manifest().model_copy(update={"fairness": ()}))
    text = Tags(write(empty).read_text()).text
    assert "No trial ended well, so nothing can be concluded" in text
    assert text.count("is not judged against the host") == 4
    assert "no block has a good trial of both" in text
    with pytest.raises(BadInput, match="no contrast"):
        render_verdicts(empty, "png", pytest.fail)


def test_a_host_that_is_a_virtual_machine_is_called_one(folder: RunFolder) -> None:
    text = " ".join(Tags(folder.page.read_text()).text.split())
    assert "The host of this run is itself a virtual machine" in text
    assert "processor AMD EPYC 7B13, memory 512 MiB, kernel 6.12.9" in text
    assert "QEMU TCG CPU version 2.5+" in (folder.report / "fairness.csv").read_text()


def test_a_warning_of_two_responses_of_a_workload_is_counted_twice(report: ReportInput) -> None:
    warned = Warned(code="confounded", text="both sides also differ in what is known to move it: the kernel")
    primary = [one for one in report.analysis.contrasts if one.primary]
    docker = next(one for one in primary if one.treatment["environment"] == "docker")
    both = [
        docker.model_copy(update={"response": name, "warnings": (warned,)}) for name in ("throughput", "cpu_per_event")
    ]
    analysis = report.analysis.model_copy(update={"contrasts": tuple(both)})
    (validity,) = (one for one in make_sections(replace(report, analysis=analysis)) if one.name == "validity")
    (table,) = (one for one in validity.blocks if isinstance(one, Table) and one.name == "warnings")
    (row,) = (row for row in table.rows if row[0] == "confounded")
    assert row[1:5] == ("2 of 2 comparisons", 2, 2, "comparisons")
