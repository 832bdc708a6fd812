"""Responses of which only a bound is known: nowhere do they pass for measured ones."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from nearmetal.analysis.censoring import Bound, find_open_sides, join_bounds
from nearmetal.analysis.responses import mean
from nearmetal.report.blocks import Chart, Column, Paragraph, Table, Value
from nearmetal.report.chapters import make_sections
from nearmetal.report.report_input import read_run_input
from nearmetal.report.table_values import list_columns, show_value, write_value
from nearmetal.report.write import render
from nearmetal.store.run_folder import RunFolder
from tests import journals, plausible_networks, plausible_run, plausible_sysbench

pytestmark = pytest.mark.usefixtures("one_engine")

Kind = TypeVar("Kind")
Change = Callable[[dict[str, Any], int], None]
"""Of a response in a journal, and the block that it is of."""


def changed(folder: RunFolder, response: str, change: Change) -> RunFolder:
    with journals.changed(folder.journal) as lines:
        for line in lines:
            if response in line.get("responses", {}):
                change(line["responses"][response], line["trial"]["block"])
    return folder


def at_least_60(response: dict[str, Any], block: int) -> None:
    response.update(value=60.0, censored="right", by_client=None)


@pytest.fixture(scope="module")
def unsaturated(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Ramps of which none came to its end: their last rate was 60."""
    folder = plausible_networks.shared(tmp_path_factory.mktemp("run") / "run", blocks=6)
    return changed(folder, "saturation", at_least_60)


def blocks_of(folder: RunFolder, section: str, kind: type[Kind]) -> list[Kind]:
    (found,) = [one for one in make_sections(read_run_input(folder)) if one.name == section]
    return [block for block in found.blocks if isinstance(block, kind)]


def rows(table: Table, where: str, write: Callable[[Value], str]) -> list[dict[str, str]]:
    columns: list[tuple[int, Column]] = list_columns(table, where)
    return [{column.title: write(row[index]) for index, column in columns} for row in table.rows]


def rows_for_people(folder: RunFolder, section: str, name: str) -> list[dict[str, str]]:
    (table,) = [table for table in blocks_of(folder, section, Table) if table.name == name]
    return rows(table, "page", show_value)


def test_a_saturation_that_no_ramp_came_to_is_told_as_a_bound(unsaturated: RunFolder) -> None:
    texts = [paragraph.text for paragraph in blocks_of(unsaturated, "responses", Paragraph)]
    assert any("saturation point of heavy: ≥ 60/s" in text for text in texts)
    of_all = rows_for_people(unsaturated, "saturation", "saturation")
    assert {(row["mean"], row["centre"], row["from"], row["to"], row["only a bound"]) for row in of_all} == {
        ("≥ 60/s", "–", "–", "–", "6")
    }
    assert {row["each client"] for row in of_all if row["treatment"].endswith("clients 4")} == {"≥ 15/s"}


def test_no_picture_has_a_saturation_point_that_is_but_a_bound(unsaturated: RunFolder) -> None:
    charts = {chart.name: chart for chart in blocks_of(unsaturated, "saturation", Chart)}
    assert "saturation" not in charts, "a line of bounds over the number of clients"
    for panel in charts["ramps"].panels:
        drawn = [layer for layer in panel.spec["layer"] if layer["mark"]["type"] in ("rule", "text")]
        assert not any(layer["data"]["values"] for layer in drawn), panel.name
    assert "vertical stroke" not in charts["ramps"].caption


def test_the_marks_are_in_what_programs_read(unsaturated: RunFolder) -> None:
    document = json.loads(render(unsaturated, "json"))
    (one, *_) = [cell for cell in document["cells"] if cell["response"] == "saturation"]
    assert one["censored"] == ["right"] * 6
    (errors, *_) = [cell for cell in document["cells"] if cell["response"] == "errors"]
    assert errors["censored"] == [None] * 6
    (pair, *_) = next(c for c in document["contrasts"] if c["response"] == "saturation")["pairs"]
    assert (pair["treatment_censored"], pair["reference_censored"]) == ("right", "right")
    (table,) = [table for table in blocks_of(unsaturated, "responses", Table) if table.name == "responses"]
    written = rows(table, "data", write_value)
    marks = {(row["response"], row["at_least"], row["at_most"], row["unbounded"]) for row in written}
    assert {("saturation point", "6", "0", "0"), ("errors", "0", "0", "0")} <= marks
    (table,) = [table for table in blocks_of(unsaturated, "saturation", Table) if table.name == "saturation"]
    assert {(row["at_least"], row["centre"]) for row in rows(table, "data", write_value)} == {("6", "")}
    assert {row["stddev"] for row in written if row["response"] == "saturation point"} == {""}


@pytest.mark.parametrize("blocks", [1, 2])
def test_one_block_has_no_standard_deviation(blocks: int, tmp_path: Path) -> None:
    folder = plausible_run.make(tmp_path / "run", blocks, faults=False)
    found = [*rows_for_people(folder, "responses", "responses"), *rows_for_people(folder, "cost", "cost")]
    assert {row["response"] for row in found} >= {"throughput", "time to ready"}
    assert {row["stddev"] == "–" for row in found} == {blocks == 1}
    *_, table = blocks_of(folder, "cost", Table)
    assert {row["stddev"] == "" for row in rows(table, "data", write_value)} == {blocks == 1}


def test_one_block_with_a_bound_leaves_what_the_others_tell_of_it(tmp_path: Path) -> None:
    def last_only(response: dict[str, Any], block: int) -> None:
        response.update(value=50.0 if block < 5 else 60.0, censored=None if block < 5 else "right")

    folder = changed(plausible_networks.shared(tmp_path / "run", blocks=6), "saturation", last_only)
    found = rows_for_people(folder, "responses", "responses")
    assert {
        tuple(row[title] for title in ("mean", "stddev", "min", "median", "max"))
        for row in found
        if row["response"] == "saturation point"
    } == {("≥ 51.67/s", "–", "50/s", "50/s", "≥ 60/s")}
    (chart, *_) = blocks_of(folder, "responses", Chart)
    assert "Of some blocks only a bound is known" in chart.caption
    drift = [chart for chart in blocks_of(folder, "validity", Chart) if chart.name == "drift"]
    assert drift and not any(panel.name.startswith("heavy") for chart in drift for panel in chart.panels)
    assert "but of those of which some blocks have only a bound" in drift[0].caption


def test_latencies_below_the_last_digit_are_at_most_that(tmp_path: Path) -> None:
    def below(response: dict[str, Any], block: int) -> None:
        response.update(value=5e-6, censored="left")

    folder = changed(plausible_sysbench.sysbench(tmp_path / "run", 6), "latency_p95", below)
    texts = [paragraph.text for paragraph in blocks_of(folder, "responses", Paragraph)]
    assert any("95th percentile of latency of cpu: ≤ 5 µs" in text for text in texts)
    found = [row for row in rows_for_people(folder, "exploratory", "exploratory") if "95th" in row["response"]]
    assert found and {row["verdict"] for row in found} == {"undecided"}, "nobody knows that they are the same"


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ([None, None], None),
        ([None, "right"], "right"),
        (["left", "left"], "left"),
        (["left", "right"], "both"),
        ([None, "both"], "both"),
    ],
)
def test_a_sum_of_bounds_is_a_bound_where_they_are_of_one_kind(bounds: list[Bound | None], expected: object) -> None:
    assert join_bounds(bounds) == expected


@pytest.mark.parametrize(
    ("values", "bounds", "expected"),
    [
        ([1.0, 2.0, 9.0], [None, None, "right"], ["right", None, None, "right"]),
        ([1.0, 2.0, 9.0], ["right", None, None], ["right", "right", "right", "right"]),
        ([1.0, 2.0, 9.0], ["left", None, "right"], ["both", "left", None, "right"]),
        ([1.0, 2.0], ["both", "both"], ["both", "both", "both", "both"]),
    ],
)
def test_what_is_made_of_bounds_is_known_where_it_does_not_depend_on_them(
    values: list[float], bounds: list[Bound | None], expected: list[object]
) -> None:
    assert [find_open_sides(of, values, bounds) for of in (mean, min, statistics.median, max)] == expected
