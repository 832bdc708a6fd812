"""The chapter of the verdicts: what its picture shows, what the caption says of that, and what the table has."""

import csv
import json
import math
import re
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from nearmetal.analysis.provenance import NESTED
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.analysis.sequential import looks
from nearmetal.model import Warned
from nearmetal.report import table_values
from nearmetal.report.blocks import Block, Chart, Notice, Statements, Table
from nearmetal.report.chapters import make_sections
from nearmetal.report.formats import comma_separated
from nearmetal.report.report_input import ReportInput, read_run_input
from nearmetal.report.sections import validity, verdicts
from nearmetal.report.write import render
from tests import contrast_examples, journals, plausible_run


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportInput:
    return read_run_input(plausible_run.make(tmp_path_factory.mktemp("run") / "run", blocks=2))


def contrast(**changes: Any) -> Contrast:
    return contrast_examples.contrast(**{"level": 0.05, "equivalence": (1 / 1.02, 1.02), **changes})


def difference(response: str, estimate: float, within: float | None, **changes: Any) -> Contrast:
    """In seconds, on an interval of a tenth of it either side; equivalent within so many seconds of the reference."""
    given: dict[str, Any] = {
        "response": response,
        "unit": "s",
        "scale": "difference",
        "ratio": None,
        "difference": estimate,
        "interval": (0.9 * estimate, 1.1 * estimate),
        "equivalence": None if within is None else (-within, within),
        "verdict": Verdict.EQUIVALENT if within is not None and 1.1 * estimate < within else Verdict.DIFFERENT,
    }
    return contrast(**{**given, **changes})


def blocks(report: ReportInput, *contrasts: Contrast) -> tuple[Block, ...]:
    told = replace(
        report,
        analysis=report.analysis.model_copy(update={"contrasts": contrasts, "warnings": ()}),
        manifest=report.manifest.model_copy(update={"host": {}}),
    )
    return tuple(verdicts.tell_verdicts(told)[1])


def chapter(report: ReportInput, *contrasts: Contrast) -> tuple[Chart, Table]:
    told = blocks(report, *contrasts)
    (chart,) = [block for block in told if isinstance(block, Chart)]
    (table,) = [block for block in told if isinstance(block, Table)]
    return chart, table


def bands(spec: Any) -> list[tuple[float, float]]:
    return [
        (row["low"], row["high"])
        for layer in spec["layer"]
        if layer["mark"]["type"] == "rect"
        for row in layer["data"]["values"]
    ]


def test_each_difference_stands_on_the_margin_of_its_own_reference(report: ReportInput) -> None:
    chart, table = chapter(report, difference("one", 0.002, 0.004), difference("other", 0.005, 0.003))
    (panel,) = chart.panels
    for spec in (panel.spec, panel.narrow):
        assert spec is not None and " ".join(spec["title"]["text"]) == "Against the reference, as differences"
        assert [end for band in bands(spec) for end in band] == pytest.approx([-4, 4, -3, 3])
    assert "Shaded: of each row the margin that the study calls equivalent, 2 % of its reference's median. " in (
        chart.caption
    )
    margins = [dict(zip([c.title for c in table.columns], row, strict=True))["margin"] for row in table.rows]
    assert margins == ["±4 ms", "±3 ms"]
    assert "margin_low,margin_high" in comma_separated(table)


def test_the_small_print_tells_a_reason_once(report: ReportInput) -> None:
    why = "a value is only known to lie beyond what was tried"
    warnings = (Warned(code="censored", text=f"{why}, so it is left undecided"), Warned(code="drift", text="it drifts"))
    undecided = {"verdict": Verdict.UNDECIDED, "ratio": None, "interval": None, "p": None, "reason": "censored"}
    for others in ([contrast()], [contrast(**undecided, warnings=warnings[:1])]):
        told = blocks(report, contrast(**undecided, warnings=warnings), *others)
        assert not [block for block in told if isinstance(block, Notice)]
        (sentences,) = [block for block in told if isinstance(block, Statements)]
        assert sentences.items[0].text == (
            f"The container (docker) is not judged against the host in throughput; {why}."
        )
        assert sentences.items[0].detail.endswith("it drifts") and why not in sentences.items[0].detail


def test_what_the_whole_run_is_warned_of_stands_beside_the_answer_and_not_below(report: ReportInput) -> None:
    busy = Warned(code="busy-host", text="in 16 of 16 trials: the host spent 60 % elsewhere")
    of_run = Warned(code="busy-host", text="the host spent 60 % elsewhere, in all 16 trials: repeat the run")
    both = (contrast(warnings=(busy,)), contrast(workload="primes", warnings=(busy,)))
    notice = Notice("Of every comparison: in all 16 trials: the host spent 60 % elsewhere.", "note")
    kinds = [block if isinstance(block, Notice) else block.kind for block in blocks(report, *both)]
    assert kinds == ["statements", notice, "chart", "table"]
    nested = Warned(code="nested", text=NESTED)
    told = replace(
        report, analysis=report.analysis.model_copy(update={"contrasts": both, "warnings": (of_run, nested)})
    )
    answer, box, *others = verdicts.tell_verdicts(told)[1]
    assert isinstance(answer, Statements) and isinstance(box, Notice)
    assert [text for _, text in box.items] == [of_run.text, NESTED]
    assert "elsewhere" not in str((answer, others))
    validity_of_it = validity.plugin.render(told)
    assert validity_of_it is not None
    assert not [block for block in validity_of_it.blocks if of_run.text in str(block)]


def test_an_axis_of_differences_reaches_as_far_as_their_margins(report: ReportInput) -> None:
    chart, _ = chapter(report, difference("one", 0.002, 0.1))
    (domain,) = {
        tuple(layer["encoding"]["x"]["scale"]["domain"])
        for layer in chart.panels[0].spec["layer"]
        if "scale" in layer["encoding"].get("x", {}) and layer["encoding"]["x"].get("field")
    }
    assert domain[0] < -100 and domain[1] > 100


@pytest.mark.parametrize(
    ("contrasts", "said"),
    [
        ([contrast()], "Shaded: the margin of 2 % that the study calls equivalent."),
        (
            [contrast(), difference("one", 0.002, 0.004)],
            "Shaded: the margin of 2 % that the study calls equivalent, of a difference 2 % of its reference's median.",
        ),
        (
            [difference("one", 0.002, 0.004), difference("none", 0.001, None)],
            "Shaded: of each row the margin that the study calls equivalent, 2 % of its reference's median; none where "
            "that is 0.",
        ),
        (
            [contrast(), difference("none", 0.001, None)],
            "Shaded: the margin of 2 % that the study calls equivalent; a difference has none where the median "
            "of its reference is 0.",
        ),
        (
            [difference("none", 0.001, None)],
            "No margin is shaded: the medians of the references are 0, and 2 % of that means nothing.",
        ),
    ],
)
def test_the_caption_tells_what_is_shaded(report: ReportInput, contrasts: list[Contrast], said: str) -> None:
    chart, _ = chapter(report, *contrasts)
    assert chart.caption.startswith(f"Dashed line: the reference. {said} Bar: the interval.")


@pytest.mark.parametrize(
    ("contrasts", "is_told"),
    [
        ([contrast()], False),
        ([contrast(), contrast(ratio=0.1, interval=(0.09, 0.11))], False),
        ([contrast(ratio=0.97, interval=(0.5, float("inf")))], True),
    ],
)
def test_the_caption_tells_of_triangles_where_something_is_cut(
    report: ReportInput, contrasts: list[Contrast], is_told: bool
) -> None:
    chart, _ = chapter(report, *contrasts)
    drawn = [layer["mark"].get("shape", "") for panel in chart.panels for layer in panel.spec["layer"]]
    assert any(shape.startswith("triangle") for shape in drawn) is is_told
    assert ("; triangle: beyond the picture, a small one: only an end of the interval." in chart.caption) is is_told


@pytest.mark.parametrize("unit", ["s", "share", ""])
@pytest.mark.parametrize("far", [1e308, -1.7e308])
def test_a_difference_that_cannot_be_drawn_leaves_the_others_in_the_picture(
    far: float, unit: str, report: ReportInput
) -> None:
    near = difference("near", 0.002, 0.004, unit=unit)
    chart, table = chapter(report, near, difference("far", far, None, interval=(far, far), unit=unit))
    (panel,) = chart.panels
    points = [
        row for layer in panel.spec["layer"] if layer["mark"]["type"] == "point" for row in layer["data"]["values"]
    ]
    assert len(points) == 2 and len(table.rows) == 2
    assert any(
        "triangle" in layer["mark"].get("shape", "") and layer["data"]["values"] for layer in panel.spec["layer"]
    )
    assert "; triangle: beyond the picture" in chart.caption
    json.dumps(panel.spec, allow_nan=False)
    (alone,) = chapter(report, near)[0].panels
    assert domains(panel.spec) == domains(alone.spec)


def domains(spec: Any) -> set[tuple[float, ...]]:
    """Of the axis of differences."""
    fields = [layer["encoding"].get("x", {}) for layer in spec["layer"]]
    return {tuple(field["scale"]["domain"]) for field in fields if "scale" in field}


def test_the_margin_of_a_ratio_is_told_as_the_study_has_it(report: ReportInput) -> None:
    _, table = chapter(report, contrast())
    row = dict(zip([column.title for column in table.columns], table.rows[0], strict=True))
    assert (row["margin"], row["margin_low"], row["margin_high"]) == ("2 %", 1 / 1.02, 1.02)
    _, table = chapter(report, difference("none", 0.001, None))
    row = dict(zip([column.title for column in table.columns], table.rows[0], strict=True))
    assert (row["margin"], row["margin_low"], row["margin_high"]) == (None, None, None)


@pytest.mark.parametrize(
    ("count", "order"),
    [(8, ["statements", "chart", "table"]), (9, ["chart", "statements", "table"]), (25, ["chart", "table"])],
)
def test_many_sentences_do_not_push_the_picture_off_the_first_screen(
    report: ReportInput, count: int, order: list[str]
) -> None:
    kinds = [block.kind for block in blocks(report, *[contrast()] * count)]
    assert [kind for kind in kinds if kind != "notice"] == order


def test_values_of_any_size_in_one_block_leave_the_report_whole(tmp_path: Path) -> None:
    """What a program of the user's prints may be anything."""
    folder = plausible_run.make(tmp_path / "run", blocks=1, faults=False)
    given = cycle([5.0, -1.0, 0.0, math.nan, math.inf, 1e308, -1e308])
    with journals.changed(folder.journal) as lines:
        for line in lines:
            for response in line.get("responses", {}).values():
                response.update(value=next(given), scale="difference")
    found = make_sections(read_run_input(folder))
    assert "verdicts" in [section.name for section in found]
    page = str(render(folder, "md"))
    assert not re.search(r"\d[\d,]{60}", page), "nobody reads 300 digits"


@pytest.mark.parametrize(
    ("verdict", "look", "told"),
    [
        (Verdict.DIFFERENT, 1, True),
        (Verdict.DIFFERENT, 5, True),
        (Verdict.DIFFERENT, 6, False),
        (Verdict.EQUIVALENT, 1, False),
        (Verdict.UNDECIDED, 1, False),
        (Verdict.DIFFERENT, None, False),
    ],
)
def test_what_a_look_before_the_last_found_is_said_once_to_look_larger_than_it_is(
    report: ReportInput, verdict: Verdict, look: int | None, told: bool
) -> None:
    plan = report.manifest.plan.model_copy(update={"looks": looks(8, 40, 0.05) if look else ()})
    of = replace(report, manifest=report.manifest.model_copy(update={"plan": plan}))
    found = contrast(verdict=verdict, look=look)
    notices = [block.text for block in blocks(of, found, found) if isinstance(block, Notice)]
    assert [text for text in notices if "tends to lie too far from no effect" in text] == notices
    assert len(notices) == told


def test_the_p_of_a_look_stands_beside_the_level_it_is_held_against_and_not_on_the_page(report: ReportInput) -> None:
    """Of 40 blocks at the sixth look: less than 5 %, and undecided."""
    plan = report.manifest.plan.model_copy(update={"looks": looks(8, 40, 0.05)})
    of = replace(report, manifest=report.manifest.model_copy(update={"plan": plan}))
    found = contrast(verdict=Verdict.UNDECIDED, interval=(0.95, 1.01), p=0.0229, look=6, look_level=0.0162)
    _, table = chapter(of, found)
    assert "p" not in [column.title for _, column in table_values.list_columns(table, "page")]
    (row,) = csv.DictReader(comma_separated(table).splitlines())
    assert (row["p"], row["look"], row["look_level"], row["level"]) == ("0.0229", "6", "0.0162", "0.05")
    _, table = chapter(report, contrast())
    assert "p" in [column.title for _, column in table_values.list_columns(table, "page")]


def test_the_caption_tells_of_no_mark_that_is_not_drawn(report: ReportInput) -> None:
    undecided = contrast(verdict=Verdict.UNDECIDED, interval=None)
    assert verdicts.describe_marks([undecided]) == "Hollow: undecided."
    assert verdicts.describe_marks([contrast(verdict=Verdict.DIFFERENT), undecided], has_dots=True) == (
        "Bar: the interval. Small dots: the blocks, later ones higher up. Filled point: different; hollow: undecided."
    )
    both = [contrast(verdict=Verdict.NOT_WORSE), undecided]
    assert verdicts.describe_marks(both).endswith("Hollow: undecided or not worse.")
    (chart, *_) = (block for section in make_sections(report) for block in section.blocks if isinstance(block, Chart))
    assert "Bar:" not in chart.caption and "diamond" not in chart.caption


def test_no_trend_is_drawn_of_a_few_points(report: ReportInput, tmp_path: Path) -> None:
    longer = read_run_input(plausible_run.make(tmp_path / "run", blocks=4))
    drawn = [
        [block.name for section in make_sections(one) for block in section.blocks if isinstance(block, Chart)]
        for one in (report, longer)
    ]
    assert ["drift" in names for names in drawn] == [False, True]
