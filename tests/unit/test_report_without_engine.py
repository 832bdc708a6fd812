"""Reports where nothing draws: whole, with each picture described, and with the line that installs what is missing."""

from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.report import drawing
from nearmetal.report.chart_files import render_verdicts, save_charts
from nearmetal.report.drawing import INSTALL_ENGINE
from nearmetal.report.write import render, write
from nearmetal.store.run_folder import RunFolder
from tests import plausible_run
from tests.unit.report_page import Tags


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setattr(drawing, "find_spec", lambda name: None)
    return plausible_run.make(tmp_path / "quickstart-1")


def test_the_page_describes_its_pictures_and_says_once_how_to_get_them(folder: RunFolder) -> None:
    said: list[str] = []
    page = Tags(write(folder, said.append).read_text())
    assert page.text.count(INSTALL_ENGINE) == 1
    assert [INSTALL_ENGINE in one for one in said] == [True]
    assert "figure" not in {name for name, marks in page.tags if "picture" in str(marks.get("class"))}
    assert "Dashed line: the reference." in page.text
    kinds = {path.suffix for path in folder.report.iterdir()}
    assert kinds == {".csv", ".json"}


def test_markdown_refers_to_no_picture(folder: RunFolder) -> None:
    text = str(render(folder, "md"))
    assert "![" not in text
    assert text.count(INSTALL_ENGINE) == 1


def test_a_picture_alone_cannot_be_had(folder: RunFolder) -> None:
    with pytest.raises(HostCannot) as refused:
        render_verdicts(folder, "png", pytest.fail)
    assert refused.value.remedy == INSTALL_ENGINE


def test_specifications_of_charts_take_no_engine(folder: RunFolder) -> None:
    written = save_charts(folder, folder.report / "charts", "vega", pytest.fail)
    assert "verdicts-ratios.vl.json" in [file.name for file in written]
