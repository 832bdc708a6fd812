"""Names from a study are hostile: whatever they are, they are text in all that a report writes."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from nearmetal.report.blocks import Section, Source
from nearmetal.report.formats import render_markdown
from nearmetal.report.page import make_breakable
from nearmetal.report.write import render, write
from nearmetal.store.run_folder import RunFolder
from tests import journals, plausible_run
from tests.one_engine import one_engine
from tests.unit.report_page import Tags

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>{{7*7}}\x1b[31m=HYPERLINK("x")|`*_[a](javascript:b)'


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run in which a level, the question, reasons and warnings are what an attacker would write."""
    made = plausible_run.make(tmp_path_factory.mktemp("hostile"))
    text = json.dumps(HOSTILE)[1:-1]
    with journals.changed_manifest(made.path) as manifest:
        manifest["study"]["question"] = HOSTILE
        manifest["source"] += f"# {HOSTILE}"
    formula = json.dumps("=1+1" + HOSTILE)
    file = made.path / "manifest.json"
    file.write_text(file.read_text().replace('"docker"', formula))

    def change(line: str) -> str:
        return line.replace('"docker"', formula).replace("cpuset is", text).replace("the host took", text)

    journals.rewrite(made.journal, change)
    changed = RunFolder(made.path)
    with one_engine():
        write(changed)
    return changed


def test_names_are_broken_behind_their_marks_and_numbers_are_not() -> None:
    told = make_breakable("net.ipv4.tcp_congestion_control <b> cmp_legacy 0.051 to 0.14")
    assert told == "net.<wbr>ipv4.<wbr>tcp_<wbr>congestion_<wbr>control &lt;b&gt; cmp_legacy 0.051 to 0.14"


def test_hostile_names_are_text_in_the_page(hostile: RunFolder) -> None:
    page = Tags(hostile.page.read_text())
    assert "<script>alert(1)</script>" in page.text
    assert "{{7*7}}" in page.text
    assert [tag for tag, _ in page.tags if tag in ("script", "img")] == ["script"], "our own"
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


def test_what_is_quoted_as_it_is_in_markdown_steers_no_terminal() -> None:
    broken = Section("name", "Title", "", (Source("Traceback:\n\tKeyError: '\x1b[31m`'"),))
    assert "Traceback:\n\tKeyError: '\N{REPLACEMENT CHARACTER}[31m`'" in render_markdown("title", "", [broken])
