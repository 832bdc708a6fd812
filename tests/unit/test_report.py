"""The report of a whole run: complete, self-contained, the same every time, and inert whatever a study is called."""

import csv
import errno
import io
import json
import os
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema

from nearmetal import plugins
from nearmetal.analysis.results import Cell
from nearmetal.errors import BadInput, ToolFailed
from nearmetal.report.blocks import Chart, Column, Panel, Paragraph, Section, Table
from nearmetal.report.chapters import sections
from nearmetal.report.drawing import Drawers
from nearmetal.report.page import breakable
from nearmetal.report.reading import ReportInput, read
from nearmetal.report.sections import cost
from nearmetal.report.write import render, write
from nearmetal.store import journal
from nearmetal.store.folder import RunFolder
from tests import plausible_run
from tests.command_line import started
from tests.one_engine import one_engine

pytestmark = pytest.mark.usefixtures("one_engine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with its report written, and drawn as for anybody: by processes."""
    made = plausible_run.make(tmp_path_factory.mktemp("run") / "quickstart-1")
    write(made)
    return made


@pytest.fixture(scope="module")
def report(folder: RunFolder) -> ReportInput:
    return read(folder)


class Tags(HTMLParser):
    """Every tag with its attributes, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def contents(folder: RunFolder) -> dict[str, bytes]:
    """The page and everything in report/, by name."""
    files = {path.name: path.read_bytes() for path in sorted(folder.report.iterdir())}
    return {"report.html": folder.page.read_bytes(), **files}


def test_every_chart_is_there_as_svg_and_png_and_every_table_as_csv(folder: RunFolder, report: ReportInput) -> None:
    names = {path.name for path in folder.report.iterdir()}
    assert {
        "verdicts-ratios.svg",
        "verdicts-close-up.png",
        "responses-web-throughput.svg",
        "cost-web-ready.png",
    } <= names
    assert {"verdicts.csv", "responses.csv", "cost.csv", "exploratory.csv", "fairness.csv", "troubles.csv"} <= names
    pictures = {name.removesuffix(".svg") for name in names if name.endswith(".svg")}
    assert pictures == {name.removesuffix(".png") for name in names if name.endswith(".png")}
    drawn = [
        panel for section in sections(report) for b in section.blocks if isinstance(b, Chart) for panel in b.panels
    ]
    assert len(pictures) == len(drawn)
    for name in pictures:
        assert (folder.report / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n")
        assert ElementTree.fromstring((folder.report / f"{name}.svg").read_text()).tag.endswith("svg")


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
    assert not [tag for tag, _ in page.tags if tag in ("script", "iframe", "object", "embed", "img", "base", "form")]
    for tag, attributes in page.tags:
        for name in ("href", "src", "xlink:href", "action"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:,")), (tag, name, value)
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
    style = re.findall(r"<style>(.*?)</style>", folder.page.read_text(), re.DOTALL)
    assert style and "url(" not in style[0] and "@import" not in style[0]


def test_links_of_the_contents_lead_to_sections_and_identifiers_are_unique(folder: RunFolder) -> None:
    page = Tags(folder.page.read_text())
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    links = {str(attributes["href"])[1:] for tag, attributes in page.tags if tag == "a"}
    assert {"verdicts", "responses", "cost", "exploratory", "fairness", "validity", "method", "study-file"} == links
    assert links <= set(identifiers)


def test_the_reader_meets_verdicts_first_and_in_words(folder: RunFolder, report: ReportInput) -> None:
    text = " ".join(Tags(folder.page.read_text().split("<main>")[1]).text.split())
    docker = next(c for c in report.analysis.contrasts if c.primary and c.treatment["environment"] == "docker")
    assert docker.ratio is not None
    assert f"docker carries {docker.ratio:.3f} × the requests of host" in text
    assert text.index("docker carries") < text.index("What was measured")
    first = sections(report)[0]
    assert first.name == "verdicts"
    assert "4 comparisons fixed beforehand: 4 different" in first.lead


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
    assert "58 of 60 trials ended well" in text


def test_people_count_blocks_and_places_from_one_as_a_run_does(report: ReportInput) -> None:
    (validity,) = (section for section in sections(report) if section.name == "validity")
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

    def full(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
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
    lines = run.journal.read_text()
    event = {"schema": "event.v1", "event": "Withdrawn", "treatment": {"environment": "qemu"}, "reason": "no answer"}
    run.journal.write_text(lines + json.dumps(event) + "\n")
    text = " ".join(Tags(write(run).read_text().split("<main>")[1]).text.split())
    withdrawn = "environment=qemu was withdrawn after three failures running: no answer"
    assert text.index(withdrawn) < text.index("docker carries")
    assert text.count(withdrawn) == 1


def test_cpus_that_were_kept_from_the_run_are_told(tmp_path: Path) -> None:
    made = plausible_run.make(tmp_path / "run", blocks=6, faults=False)
    told = "kept CPU 1 of this host free"
    assert told not in render(made, "md")
    made.write_manifest(made.manifest().model_copy(update={"kept_free": "1"}))
    assert told in render(made, "md")


def test_boots_that_workloads_share_show_their_costs_once(tmp_path: Path) -> None:
    made = plausible_run.make(tmp_path / "run", blocks=6, faults=False)
    manifest = made.manifest()
    design = manifest.study.design.model_copy(update={"share_boot": True})
    made.write_manifest(manifest.model_copy(update={"study": manifest.study.model_copy(update={"design": design})}))
    report = read(made)
    (chart,) = (b for s in sections(report) for b in s.blocks if isinstance(b, Chart) and b.name == "cost")
    names = [panel.name for panel in chart.panels]
    assert names == ["web-cpu_per_event", "primes-cpu_per_event", "boot-memory_overhead", "boot-ready"]


def test_a_cost_that_nobody_has_is_said_and_not_drawn(report: ReportInput) -> None:
    def free(cell: Cell) -> Cell:
        return cell.model_copy(update={"values": (0.0,) * len(cell.values), "median": 0.0})

    cells = tuple(free(cell) if cell.response == "memory_overhead" else cell for cell in report.analysis.cells)
    section = cost.plugin.render(replace(report, analysis=report.analysis.model_copy(update={"cells": cells})))
    assert section is not None
    (chart,) = (block for block in section.blocks if isinstance(block, Chart))
    assert chart.panels and not any("memory" in panel.name for panel in chart.panels)
    said = [block.text for block in section.blocks if isinstance(block, Paragraph)]
    assert said and all(text.startswith("memory beyond the guest's own of ") for text in said)
    assert all(text.endswith(": 0 B in every trial.") for text in said)


def test_specifications_are_valid_vega_lite(report: ReportInput) -> None:
    charts = [block for section in sections(report) for block in section.blocks if isinstance(block, Chart)]
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


def test_rendering_png_gives_the_picture_of_the_verdicts(folder: RunFolder) -> None:
    assert render(folder, "png") == (folder.report / "verdicts-ratios.png").read_bytes()


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
    first = json.loads(lines[0])
    lines[0] = json.dumps({"trial": first.pop("trial"), **first}) + "\n"
    event = {"schema": "event.v1", "event": "RunStarted", "at_ns": 1}
    run.journal.write_text("".join([json.dumps(event) + "\n", *lines, lines[-1][:-9]]))
    assert read(run).records == tuple(journal.records(run.journal)) == read(folder).records
    assert {"unfinished"} <= {warning.code for warning in read(run).analysis.warnings}


def test_a_record_that_is_damaged_is_told_by_its_line(folder: RunFolder, tmp_path: Path) -> None:
    shutil.copytree(folder.path, tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    run.journal.write_text(run.journal.read_text().replace('"status":"lost"', '"status":"mislaid"'))
    with pytest.raises(BadInput, match=r"line \d+"):
        read(run)


def test_a_run_without_a_single_trial_says_so(folder: RunFolder, tmp_path: Path) -> None:
    shutil.copy(folder.path / "manifest.json", tmp_path)
    empty = RunFolder.open(tmp_path)
    text = Tags(write(empty).read_text()).text
    assert "No trial ended well, so nothing can be concluded" in text
    assert "4 undecided" in text
    assert "no block has a good trial of both" in text
    with pytest.raises(BadInput, match="no contrast"):
        render(empty, "png")


# ── Names from a study are hostile ────────────────────────────────────────────────────────────────────────────────

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>{{7*7}}\x1b[31m=HYPERLINK("x")|`*_[a](javascript:b)'


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run in which a level, the question, reasons and warnings are what an attacker would write."""
    made = plausible_run.make(tmp_path_factory.mktemp("hostile"))
    text = json.dumps(HOSTILE)[1:-1]
    manifest = json.loads((made.path / "manifest.json").read_text())
    manifest["study"]["question"] = HOSTILE
    manifest["source"] += f"# {HOSTILE}"
    formula = json.dumps("=1+1" + HOSTILE)
    replaced = json.dumps(manifest).replace('"docker"', formula)
    (made.path / "manifest.json").write_text(replaced)
    journal = (
        made.journal.read_text().replace('"docker"', formula).replace("cpuset is", text).replace("the host took", text)
    )
    made.journal.write_text(journal)
    with one_engine():
        write(made)
    return made


def test_names_are_broken_behind_their_marks_and_numbers_are_not() -> None:
    told = breakable("net.ipv4.tcp_congestion_control <b> cmp_legacy 0.051 to 0.14")
    assert told == "net.<wbr>ipv4.<wbr>tcp_<wbr>congestion_<wbr>control &lt;b&gt; cmp_legacy 0.051 to 0.14"


def test_hostile_names_are_text_in_the_page(hostile: RunFolder) -> None:
    page = Tags(hostile.page.read_text())
    assert "<script>alert(1)</script>" in page.text
    assert "{{7*7}}" in page.text
    assert not [tag for tag, _ in page.tags if tag in ("script", "img")]
    assert not [attributes for _, attributes in page.tags if any(name.startswith("on") for name in attributes)]
    assert "\x1b" not in hostile.page.read_text()


def test_hostile_names_are_text_in_pictures(hostile: RunFolder) -> None:
    drawings = list(hostile.report.glob("*.svg"))
    assert drawings
    for path in drawings:
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.parse(path).iter()}
        assert tags <= {"svg", "g", "path", "rect", "line", "text", "tspan", "defs", "clipPath", "style", "title"}, path
    assert any("alert(1)" in "".join(ElementTree.parse(path).getroot().itertext()) for path in drawings)


def test_hostile_names_are_no_formula_in_a_spreadsheet(hostile: RunFolder) -> None:
    for path in hostile.report.glob("*.csv"):
        for row in csv.reader(io.StringIO(path.read_text())):
            for cell in row:
                assert not cell.startswith(("=", "@", "+", "\t")), (path.name, cell)
                assert not (cell.startswith("-") and not re.fullmatch(r"-[0-9.e+-]+", cell)), (path.name, cell)


def test_hostile_names_are_text_in_markdown(hostile: RunFolder) -> None:
    prose = str(render(hostile, "md")).split("## The study file")[0]
    assert "alert" in prose
    assert not re.search(r"(?<!\\)<", prose)
    assert not re.search(
        r"(?<![\\!\]])\[(?!.*report/)", re.sub(r"!\[.*?\]\(report/.*?\)", "", prose).replace("\\[", "")
    )
    assert "\x1b" not in prose


# ── Sections of other people ──────────────────────────────────────────────────────────────────────────────────────


class Theirs:
    """A section as a third party would write it: data, no markup."""

    name = "theirs"
    title = "Theirs"
    order = 25

    def render(self, report: ReportInput) -> Section:
        table = Table("../their table", "What they found", (Column("what"), Column("n", numeric=True)), (("a", 1),))
        return Section(self.name, self.title, "A sentence.", (table,))


def beside_ours(monkeypatch: pytest.MonkeyPatch, **theirs: object) -> None:
    """Plugins of somebody else's, by name."""
    own, load = plugins.names("sections"), plugins.load
    monkeypatch.setattr(plugins, "names", lambda group: tuple(sorted({*own, *theirs})))
    monkeypatch.setattr(plugins, "load", lambda group, name: theirs[name] if name in theirs else load(group, name))


def test_a_section_of_somebody_else_stands_where_it_asks_to(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside_ours(monkeypatch, theirs=Theirs())
    copy = RunFolder(tmp_path / "run")
    shutil.copytree(folder.path, copy.path)
    names = [section.name for section in sections(read(copy))]
    assert names[:4] == ["verdicts", "responses", "theirs", "cost"]
    write(copy)
    assert (copy.report / "their-table.csv").read_text() == "what,n\na,1\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "run"]


class Breaks(Theirs):
    name = "breaks"
    title = "What breaks"

    def render(self, report: ReportInput) -> Section:
        raise KeyError("<no such response>")


class GivesNone(Theirs):
    def render(self, report: ReportInput) -> Section:
        return "no section at all"  # type: ignore[return-value]


def test_a_section_that_breaks_is_told_in_its_place_and_takes_no_other_with_it(
    folder: RunFolder, report: ReportInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = sections(report)
    beside_ours(monkeypatch, breaks=Breaks(), odd=GivesNone(), nameless=object())
    said: list[str] = []
    chapters = sections(report, said.append)
    names = [section.name for section in chapters]
    assert names[1:5] == ["responses", "breaks", "odd", "cost"]
    assert names[-1] == "nameless", "its place is not known"
    assert [section for section in chapters if section.name not in ("breaks", "odd", "nameless")] == sound
    assert [re.findall(r"'(\w+)' broke.*: (\w+Error)", text) for text in said] == [
        [("breaks", "KeyError")],
        [("nameless", "AttributeError")],
        [("odd", "TypeError")],
    ]

    copy = RunFolder(tmp_path / "run")
    shutil.copytree(folder.path, copy.path)
    write(copy, said.append)
    page = Tags(copy.page.read_text()).text
    assert "What breaks" in page and "breaks raised KeyError: '<no such response>'" in page
    assert "in render" in page, "the trace is there for whoever wrote it"
    assert {file.name for file in folder.report.iterdir()} == {file.name for file in copy.report.iterdir()}
    assert "breaks raised KeyError" in str(render(copy, "md", said.append))


class DrawsNothing(Theirs):
    name = "odd-chart"

    def render(self, report: ReportInput) -> Section:
        panels = (Panel("one", {"mark": "nonsense", "data": {"values": [{"a": object()}]}}),)
        return Section(self.name, self.title, "", (Chart("odd", "", "", panels), Paragraph("And what follows it.")))


def test_a_chart_that_cannot_be_drawn_is_told_in_its_place(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the processes that draw for everybody else."""
    monkeypatch.setattr("nearmetal.report.write.Drawers", Drawers)
    beside_ours(monkeypatch, theirs=DrawsNothing())
    copy, said = RunFolder(tmp_path / "run"), list[str]()
    shutil.copytree(folder.path, copy.path)
    write(copy, said.append)
    (line,) = said
    assert line.startswith("the chart 'odd' cannot be drawn, and the report is without it: Vega-Lite")
    page = Tags(copy.page.read_text()).text
    assert "The chart odd is missing" in page and "And what follows it." in page
    assert {file.name for file in folder.report.iterdir()} == {file.name for file in copy.report.iterdir()}
    with pytest.raises(ToolFailed, match="the chart 'odd'"):
        write(copy)


def test_where_nobody_listens_a_section_that_breaks_raises(
    report: ReportInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that one of ours cannot be missing in a test that renders them all."""
    beside_ours(monkeypatch, breaks=Breaks())
    with pytest.raises(KeyError):
        sections(report)


def test_a_section_that_cannot_be_imported_is_told_on_the_command_line(folder: RunFolder, tmp_path: Path) -> None:
    package = tmp_path / "theirs"
    described = package / "theirs-1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[nearmetal.sections]\nunfit = theirs:plugin\n")
    (package / "theirs.py").write_text("1 / 0\n")
    copy = RunFolder(tmp_path / "run")
    shutil.copytree(folder.path, copy.path)
    ended = started(
        "report", str(copy.path), environment={"PYTHONPATH": f"{package}:{':'.join(sys.path)}"}, broken=True
    )
    assert ended.returncode == 0, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith("warning: the section 'unfit' broke, and the report is without it: ZeroDivisionError")
    before, after = (Tags(one.page.read_text()) for one in (folder, copy))
    assert "unfit raised ZeroDivisionError" in after.text
    assert [tag for tag, _ in after.tags].count("svg") == [tag for tag, _ in before.tags].count("svg") > 0


def test_the_section_of_the_manual_works(report: ReportInput) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", manual, re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    section = names["plugin"].render(report)  # type: ignore[attr-defined]
    (table,) = section.blocks
    primary = [cell for cell in report.analysis.cells if (cell.workload, cell.response) in report.primaries]
    assert len(table.rows) == len(primary) == 6
    for cell, row in zip(primary, table.rows, strict=True):
        assert cell.values[cell.blocks.index(row[2])] == min(cell.values)


def test_a_host_that_is_a_virtual_machine_is_called_one(folder: RunFolder) -> None:
    text = " ".join(Tags(folder.page.read_text()).text.split())
    assert "The host of this run is itself a virtual machine" in text
    assert "processor AMD EPYC 7B13, memory 512 MiB, kernel 6.12.9" in text
    assert "QEMU TCG CPU version 2.5+" in (folder.report / "fairness.csv").read_text()
