"""Sections of other people: they stand where they ask to, and one that breaks takes no other with it."""

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nearmetal import plugins
from nearmetal.errors import ToolFailed
from nearmetal.report.blocks import Chart, Column, Panel, Paragraph, Section, Table
from nearmetal.report.chapters import make_sections
from nearmetal.report.drawing import Drawers
from nearmetal.report.report_input import ReportInput, read_run_input
from nearmetal.report.write import render, write
from nearmetal.store.run_folder import RunFolder
from tests import plausible_run
from tests.command_line import forked
from tests.one_engine import one_engine
from tests.unit.report_page import Tags

pytestmark = pytest.mark.usefixtures("one_engine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with the report that it has where nobody adds to it."""
    made = plausible_run.make(tmp_path_factory.mktemp("run") / "quickstart-1")
    with one_engine():
        write(made)
    return made


@pytest.fixture(scope="module")
def report(folder: RunFolder) -> ReportInput:
    return read_run_input(folder)


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
    own, load = plugins.list_names("sections"), plugins.load
    monkeypatch.setattr(plugins, "list_names", lambda group: tuple(sorted({*own, *theirs})))
    monkeypatch.setattr(plugins, "load", lambda group, name: theirs[name] if name in theirs else load(group, name))


def test_whoever_owns_the_folder_leads_no_file_elsewhere(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a link that is put where a table will be, as soon as there is a folder for it."""
    copy = RunFolder(tmp_path / "run")
    shutil.copytree(folder.path, copy.path)
    victim = tmp_path / "victim"
    victim.write_text("as before")
    mkdir = Path.mkdir

    def raced(path: Path, *args: Any, **more: Any) -> None:
        mkdir(path, *args, **more)
        if path.parent == copy.path:
            (path / "analysis.json").symlink_to(victim)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", raced)
        with pytest.raises(FileExistsError):
            write(copy)
    assert victim.read_text() == "as before"
    write(copy)
    assert (copy.report / "analysis.json").stat().st_mode & 0o777 == copy.page.stat().st_mode & 0o777


def test_a_section_of_somebody_else_stands_where_it_asks_to(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside_ours(monkeypatch, theirs=Theirs())
    copy = RunFolder(tmp_path / "run")
    shutil.copytree(folder.path, copy.path)
    names = [section.name for section in make_sections(read_run_input(copy))]
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
    sound = make_sections(report)
    beside_ours(monkeypatch, breaks=Breaks(), odd=GivesNone(), nameless=object())
    said: list[str] = []
    chapters = make_sections(report, said.append)
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
    assert "> **Warning:** breaks raised KeyError" in str(render(copy, "md", said.append))


class TakesOurTable(Theirs):
    table = "verdicts"

    def render(self, report: ReportInput) -> Section:
        return Section(self.name, self.title, "", (Table(self.table, "", (Column("what"),), (("a",),)),))


class TakesTrials(TakesOurTable):
    table = "trials"


class ShortRow(Theirs):
    def render(self, report: ReportInput) -> Section:
        return Section(self.name, self.title, "", (Table("t", "", (Column("what"), Column("n")), (("a",),)),))


class OddValue(Theirs):
    def render(self, report: ReportInput) -> Section:
        return Section(self.name, self.title, "", (Table("t", "", (Column("what"),), (([1],),)),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        (TakesOurTable(), "the table 'verdicts' would write verdicts.csv, which the section 'verdicts' writes already"),
        (TakesTrials(), "the table 'trials' would write trials.csv, which the report itself writes already"),
        (ShortRow(), "the table 't' has 2 columns, and its row 1 has 1 values"),
        (OddValue(), r"the table 't' has \[1\] in its row 1, which is no Value"),
    ],
)
def test_a_table_that_cannot_be_written_takes_its_section_alone(
    plugin: Theirs, why: str, report: ReportInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = make_sections(report)
    beside_ours(monkeypatch, theirs=plugin)
    monkeypatch.setattr(plugins, "package_of", lambda group, name: name if name == "theirs" else None)
    said: list[str] = []
    chapters = make_sections(report, said.append)
    assert [section for section in chapters if section.name != "theirs"] == sound
    (line,) = said
    assert re.search(f"^the section 'theirs' broke, .*: (Value|Type)Error: {why}$", line)


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
    monkeypatch.setattr(plugins, "list_names", lambda group: ("theirs",))  # what else is drawn does not matter
    with pytest.raises(ToolFailed, match="the chart 'odd'"):
        write(copy)


def test_where_nobody_listens_a_section_that_breaks_raises(
    report: ReportInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that one of ours cannot be missing in a test that renders them all."""
    beside_ours(monkeypatch, breaks=Breaks())
    with pytest.raises(KeyError):
        make_sections(report)


def test_a_section_that_cannot_be_imported_is_told_on_the_command_line(folder: RunFolder, tmp_path: Path) -> None:
    package = tmp_path / "theirs"
    described = package / "theirs-1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[nearmetal.sections]\nunfit = theirs:plugin\n")
    (package / "theirs.py").write_text("1 / 0\n")
    copy = RunFolder(tmp_path / "run")
    shutil.copytree(folder.path, copy.path)
    ended = forked("report", str(copy.path), environment={"PYTHONPATH": f"{package}:{':'.join(sys.path)}"}, broken=True)
    assert ended.returncode == 0, ended.stderr
    line, remedy = ended.stderr.splitlines()
    assert line.startswith("warning: the section 'unfit' broke, and the report is without it: 'unfit' in sections,")
    assert line.endswith("ZeroDivisionError: division by zero") and "pip uninstall theirs" in remedy
    before, after = (Tags(one.page.read_text()) for one in (folder, copy))
    assert "of the package theirs, cannot be loaded: ZeroDivisionError" in after.text
    assert [tag for tag, _ in after.tags].count("svg") == [tag for tag, _ in before.tags].count("svg") > 0


def test_the_section_of_the_manual_names_the_block_that_did_worst(report: ReportInput) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", manual, re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    for better, worst in (("higher", min), ("lower", max)):
        cells = tuple(cell.model_copy(update={"better": better}) for cell in report.analysis.cells)
        turned = replace(report, analysis=report.analysis.model_copy(update={"cells": cells}))
        (table,) = names["plugin"].render(turned).blocks  # type: ignore[attr-defined]
        primary = [cell for cell in cells if (cell.workload, cell.response) in report.primaries]
        assert len(table.rows) == len(primary) == 6
        for cell, row in zip(primary, table.rows, strict=True):
            assert cell.values[cell.blocks.index(row[2])] == worst(cell.values)
