"""What was measured: at first sight pictures of what verdicts are about, and the rest a click away."""

import math
import shutil
from itertools import cycle
from pathlib import Path

import pytest

from nearmetal.report.blocks import Chart, Paragraph
from nearmetal.report.chapters import make_sections
from nearmetal.report.report_input import read_run_input
from nearmetal.report.write import render
from nearmetal.store.run_folder import RunFolder
from tests import journals, plausible_run, plausible_sysbench
from tests.golden.make_run import FOLDER


def pictures(folder: RunFolder) -> dict[str, tuple[list[str], bool]]:
    """Of each chart of the chapter, its panels and whether they are folded away."""
    (section,) = [section for section in make_sections(read_run_input(folder)) if section.name == "responses"]
    charts = [block for block in section.blocks if isinstance(block, Chart)]
    return {chart.name: ([panel.name for panel in chart.panels], chart.folded) for chart in charts}


def test_of_many_responses_those_with_verdicts_are_shown_and_the_rest_is_a_click_away(tmp_path: Path) -> None:
    found = pictures(plausible_sysbench.sysbench(tmp_path / "run", 4))
    assert found["responses"] == (["cpu-events", "fileio-as-run-read"], False)
    rest, is_folded = found["responses-more"]
    assert is_folded and {"cpu-latency_p95", "fileio-as-run-written", "fileio-as-run-fsyncs"} <= set(rest)
    assert not set(rest) & set(found["responses"][0])


def test_of_few_responses_too_those_with_verdicts_are_shown(tmp_path: Path) -> None:
    found = pictures(plausible_run.make(tmp_path / "run", blocks=2))
    panels, is_folded = found["responses"]
    assert panels == ["web-throughput", "primes-events"] and not is_folded
    assert found["responses-more"][1]


def test_pictures_of_what_was_measured_do_not_wait_for_the_analysis(tmp_path: Path) -> None:
    report, when = read_run_input(plausible_run.make(tmp_path / "run", blocks=2)), list[tuple[str, bool]]()

    def note(name: str) -> None:
        when.append((name, "analysis" in vars(report)))

    make_sections(report, None, lambda section: note(section.name), lambda: note("others"))
    assert when[:3] == [("cost", False), ("responses", False), ("others", True)]
    assert all(is_analysed for _, is_analysed in when[3:])


@pytest.mark.parametrize(("blocks", "are_dots"), [(60, True), (61, False)])
def test_the_caption_tells_what_the_rows_show(blocks: int, are_dots: bool, tmp_path: Path) -> None:
    """More values than a reader can tell apart are drawn by their quartiles."""
    found = make_sections(read_run_input(plausible_run.make(tmp_path / "run", blocks=blocks, faults=False)))
    for name in ("responses", "cost"):
        chart, *_ = [b for one in found if one.name == name for b in one.blocks if isinstance(b, Chart)]
        dots = "Each dot is one block's value, later blocks higher up."
        bars = "The thick bar is the middle half of a row's values, the thin one 5 to 95 %; the two dots are the"
        assert (dots in chart.caption, bars in chart.caption) == (are_dots, not are_dots), name
        assert chart.caption.endswith("The stroke is the median, written at the right.")


def test_rows_of_which_only_some_have_many_values_are_told_both_ways(tmp_path: Path) -> None:
    folder = plausible_run.make(tmp_path / "run", blocks=61, faults=False)
    with journals.changed_records(folder.journal) as lines:
        trials = [(line, line["trial"]) for line in lines]
        lines[:] = [line for line, one in trials if one["treatment"]["environment"] != "qemu" or one["block"] < 9]
    (section,) = [section for section in make_sections(read_run_input(folder)) if section.name == "responses"]
    chart, *_ = [block for block in section.blocks if isinstance(block, Chart)]
    assert chart.caption.startswith(
        "Each dot is one block's value, later blocks higher up. Of more than 60 values, the thick bar is the middle "
    )


@pytest.mark.usefixtures("one_engine")
@pytest.mark.parametrize(
    ("values", "is_drawn"),
    [
        ([math.nan, 1.0], True),
        ([math.inf, 1.0, 2.0], True),
        ([-math.inf, math.inf], False),
        ([1e308, -1e308, 5.0], True),
        ([math.nan], False),
        ([math.inf], False),
    ],
)
def test_what_has_no_place_on_an_axis_is_left_out_of_pictures(
    values: list[float], is_drawn: bool, tmp_path: Path
) -> None:
    """A damaged journal may have it; it is no reason for the report to fail."""
    folder = RunFolder(shutil.copytree(FOLDER, tmp_path / "run"))
    given = cycle(values)
    with journals.changed_records(folder.journal) as lines:
        for line in lines:
            if line["schema"].startswith("record."):
                line["responses"]["throughput"]["value"] = next(given)
    (section,) = [section for section in make_sections(read_run_input(folder)) if section.name == "responses"]
    assert ("web-throughput" in [name for panels, _ in pictures(folder).values() for name in panels]) is is_drawn
    told = [block.text for block in section.blocks if isinstance(block, Paragraph)]
    assert any("throughput of web: " in text for text in told) is not is_drawn
    assert render(folder, "html") and render(folder, "md")
