"""`report --format svg|png|vega`: each chart as a file, in one folder, in one format."""

import json
import shutil
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nearmetal.report import chart_files, drawing
from nearmetal.report.chart_files import render_verdicts
from nearmetal.store.run_folder import RunFolder
from tests import plausible_run
from tests.command_line import called
from tests.golden.make_run import FOLDER


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "run"))


@pytest.mark.usefixtures("one_engine")
def test_each_chart_is_saved_and_another_format_leaves_no_file_of_the_last(run: Path) -> None:
    page = called("report", str(run))
    assert page.returncode == 0, page.stderr
    named = {path.name.removesuffix(".svg") for path in (run / "report").glob("*.svg")}
    assert {"verdicts", "responses"} <= {name.split("-")[0] for name in named}
    charts = run / "report" / "charts"
    for form, ending in (("svg", ".svg"), ("vega", ".vl.json"), ("png", ".png")):
        ended = called("report", str(run), "--format", form)
        assert (ended.returncode, ended.stdout) == (0, f"{charts}\n"), ended.stderr
        assert {path.name for path in charts.iterdir()} == {f"{name}{ending}" for name in named}
        for file in charts.iterdir():
            match form:
                case "svg":
                    assert file.read_bytes() == (run / "report" / file.name).read_bytes()
                    assert ElementTree.fromstring(file.read_text()).tag.endswith("svg")
                case "vega":
                    assert json.loads(file.read_text()) == json.loads((run / "report" / file.name).read_text())
                case "png":
                    assert file.read_bytes().startswith(b"\x89PNG\r\n")
    assert not [path for path in (run / "report").iterdir() if path.name.startswith(".")]
    assert called("report", str(run)).returncode == 0
    assert not charts.exists(), "a new report has no charts of an older state of the run"


def test_a_file_that_is_named_has_the_verdicts_alone(run: Path, tmp_path: Path) -> None:
    for form in ("svg", "png", "vega"):
        ended = called("report", str(run), "--format", form, "-o", str(tmp_path / form))
        assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
        assert (tmp_path / form).read_bytes() == render_verdicts(RunFolder(run), form, pytest.fail)
    assert not (run / "report").exists()
    assert "$schema" in json.loads((tmp_path / "vega").read_text())


def test_charts_of_a_bundle_lie_beside_it(tmp_path: Path) -> None:
    whole = plausible_run.make(tmp_path / "whole", blocks=8)
    bundle = tmp_path / "packed.nearmetal.tar.gz"
    assert called("bundle", str(whole.path), "-o", str(bundle)).returncode == 0
    ended = called("report", str(bundle), "--format", "vega")
    assert (ended.returncode, ended.stdout) == (0, f"{tmp_path / 'packed-charts'}\n"), ended.stderr
    assert "verdicts-ratios.vl.json" in {path.name for path in (tmp_path / "packed-charts").iterdir()}
    with tarfile.open(bundle) as archive:
        assert not [name for name in archive.getnames() if "charts" in name]


def test_a_link_in_place_of_the_report_leads_no_file_elsewhere(run: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (run / "report").symlink_to(tmp_path / "elsewhere")
    assert called("report", str(run), "--format", "vega").returncode == 0
    assert not list((tmp_path / "elsewhere").iterdir())
    assert (run / "report" / "charts" / "verdicts.vl.json").is_file()


@pytest.mark.parametrize("words", [("--format", "md"), ("--format", "svg", "-o", "-")])
def test_json_and_a_part_of_the_report_are_not_printed_at_once(run: Path, words: tuple[str, ...]) -> None:
    refused = called("report", str(run), "--json", *words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "name a file by -o, or leave out --json" in refused.stderr


def test_a_chart_that_cannot_be_drawn_is_named_and_the_others_are_saved(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[drawing.Spec] = []

    def refuse_first(spec: drawing.Spec) -> str:
        asked.append(spec)
        if len(asked) == 1:
            raise ValueError("it is no chart\nand a trace")
        return drawing.draw_svg(spec)

    monkeypatch.setattr(chart_files, "draw_svg", refuse_first)
    said: list[str] = []
    folder = RunFolder(run)
    written = chart_files.save_charts(folder, folder.report / "charts", "svg", said.append)
    assert said == ["the chart 'verdicts' cannot be drawn: it is no chart"]
    assert len(written) == len(asked) - 1 > 0
    assert "verdicts.svg" not in {file.name for file in written}
