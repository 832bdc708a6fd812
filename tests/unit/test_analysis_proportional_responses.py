"""What repeats the primary response in another unit is known by its values, and is not compared a second time."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nearmetal.analysis.proportional_responses import find_proportional
from nearmetal.model import Response
from nearmetal.report.blocks import Chart, Paragraph, Table
from nearmetal.report.chapters import make_sections
from nearmetal.report.report_input import read_run_input
from nearmetal.report.sections.exploratory import plugin
from nearmetal.store.run_folder import RunFolder
from tests import journals, plausible_run
from tests.analysis_inputs import PRIMARIES, manifest, ratio, record, run, wobble

Other = Callable[[int, float], Response | None]
"""Of block and throughput: another response of the same trial."""


def found(other: Other, primary: Callable[[int], float] = lambda block: 900 + wobble(block, 40)) -> set[str]:
    records = []
    for block in range(8):
        for environment, slower in (("host", 1.0), ("docker", 0.9)):
            rate = primary(block) * slower
            response = other(block, rate)
            records.append(
                record(environment, block, {"throughput": ratio(rate), **({"other": response} if response else {})})
            )
    return {response for _, response in find_proportional(run(manifest(), records).cells, PRIMARIES)}


def count(value: float, **more: Any) -> Response:
    return Response(value=value, unit="", better="higher", **more)


def test_a_count_over_one_time_is_the_rate_in_another_unit() -> None:
    assert found(lambda block, rate: count(rate * 60)) == {"other"}
    assert found(lambda block, rate: count(rate / 3 * (1 + 1e-15))) == {"other"}, "floats are not exact"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda block, rate: count(rate * (60 + 1e-6 * block)), id="over times that differ by a little"),
        pytest.param(lambda block, rate: count(round(rate * 60, -1)), id="rounded"),
        pytest.param(lambda block, rate: count(rate + 1), id="more by a constant"),
        pytest.param(lambda block, rate: count(-rate), id="of another sign"),
        pytest.param(lambda block, rate: count(rate * 60) if block else None, id="missing in a block"),
        pytest.param(lambda block, rate: count(rate * 60, scale="difference"), id="compared by differences"),
        pytest.param(lambda block, rate: Response(value=rate, unit="s", better="lower"), id="where less is better"),
        pytest.param(lambda block, rate: count(rate, censored=None if block else "right"), id="a bound in a block"),
        pytest.param(lambda block, rate: count(rate if block else float("nan")), id="no number in a block"),
    ],
)
def test_what_is_not_the_same_is_compared(other: Other) -> None:
    assert found(other) == set()


def test_two_constants_are_not_the_same_quantity() -> None:
    records = [
        record(environment, block, {"throughput": ratio(5.0), "other": count(10.0)})
        for block in range(8)
        for environment in ("host", "docker")
    ]
    assert not find_proportional(run(manifest(), records).cells, PRIMARIES)


def test_a_primary_without_numbers_has_no_multiples() -> None:
    assert found(lambda block, rate: count(rate), lambda block: float("nan") if block else 0.0) == set()


# ── In the report ─────────────────────────────────────────────────────────────────────────────────────────────────


def counted(folder: RunFolder, seconds: Callable[[int], float]) -> RunFolder:
    """Every trial of `web` tells its transactions as well, over so many seconds of the block."""
    with journals.changed(folder.journal) as lines:
        for line in lines:
            if rate := line.get("responses", {}).get("throughput"):
                value = rate["value"] * seconds(line["trial"]["block"])
                line["responses"]["transactions"] = {**rate, "unit": "", "value": value}
    return folder


def exploratory(folder: RunFolder) -> tuple[str, set[str], str]:
    """What the chapter says below its pictures, the responses in its table, and all that is drawn."""
    (chapter,) = [section for section in make_sections(read_run_input(folder)) if section.name == "exploratory"]
    tables = [block for block in chapter.blocks if isinstance(block, Table)]
    titles = [[column.title for column in table.columns] for table in tables]
    drawn = json.dumps([panel.spec for block in chapter.blocks if isinstance(block, Chart) for panel in block.panels])
    said = " ".join(block.text for block in chapter.blocks if isinstance(block, Paragraph))
    responses = {
        str(row[title.index("response")]) for title, table in zip(titles, tables, strict=True) for row in table.rows
    }
    return said, responses, drawn


def test_the_report_tells_the_primary_contrast_once(tmp_path: Path) -> None:
    said, responses, drawn = exploratory(counted(plausible_run.make(tmp_path / "run"), lambda block: 10.0))
    assert "median latency" in " ".join(responses)
    assert not any("transactions" in one for one in responses) and "transactions" not in drawn
    assert said.endswith(
        "Not compared a second time: transactions of web, which is throughput times a constant in every trial."
    )


def test_what_is_not_repeated_is_named_also_where_there_is_nothing_else(tmp_path: Path) -> None:
    report = read_run_input(counted(plausible_run.make(tmp_path / "run"), lambda block: 10.0))
    left = tuple(one for one in report.analysis.contrasts if one.primary or one.response == "transactions")
    chapter = plugin.render(replace(report, analysis=report.analysis.model_copy(update={"contrasts": left})))
    assert chapter is not None
    (said,) = chapter.blocks
    assert isinstance(said, Paragraph) and said.text.startswith("Not compared a second time: transactions of web")


def test_the_report_compares_a_count_over_a_time_of_its_own(tmp_path: Path) -> None:
    said, responses, drawn = exploratory(counted(plausible_run.make(tmp_path / "run"), lambda block: 10.0 + block))
    assert any("transactions" in one for one in responses) and "transactions" in drawn
    assert "Not compared a second time" not in said
