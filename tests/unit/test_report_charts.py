"""What charts are made of: the values themselves, on axes that show them, thinned only where nobody could tell."""

import statistics
from typing import Any

import numpy as np
import pytest

from nearmetal.report import charts, palette


def data(spec: charts.Spec, mark: str) -> list[list[dict[str, Any]]]:
    """The rows of each layer with this mark."""
    return [layer["data"]["values"] for layer in spec["layer"] if layer["mark"]["type"] == mark]


def test_a_strip_shows_every_value_and_the_median() -> None:
    values = (1.02, 0.97, 1.01, 1.3)
    spec = charts.strips("t", "", "1/s", [charts.Strip("host", "1", "#111111", values)])
    (dots,) = data(spec, "point")
    assert sorted(dot["value"] for dot in dots) == sorted(values)
    medians = {row["median"] for rows in data(spec, "rule") for row in rows}
    assert medians == {statistics.median(values)}


def test_dots_climb_with_the_blocks() -> None:
    spec = charts.strips("t", "", "1/s", [charts.Strip("host", "1", "#111111", (5.0, 6.0, 7.0))])
    (dots,) = data(spec, "point")
    heights = [dot["y"] for dot in dots]
    assert heights == sorted(heights, reverse=True)


def test_many_values_become_quartiles_and_extremes() -> None:
    values = tuple(float(value) for value in np.random.default_rng(1).normal(100, 5, 5000))
    spec = charts.strips("t", "", "1/s", [charts.Strip("host", "1", "#111111", values)])
    (dots,) = data(spec, "point")
    assert [dot["value"] for dot in dots] == [min(values), max(values)]
    box = next(row for rows in data(spec, "rule") for row in rows if "first" in row)
    assert (box["low"], box["first"], box["third"], box["high"]) == pytest.approx(
        np.quantile(values, (0.05, 0.25, 0.75, 0.95))
    )


@pytest.mark.parametrize(
    ("values", "scale"), [((1.0, 5.0), "log"), ((1.0, 3.0), "linear"), ((0.0, 5.0), "linear"), ((-1.0, 9.0), "linear")]
)
def test_the_axis_is_logarithmic_only_for_wide_positive_values(values: tuple[float, ...], scale: str) -> None:
    spec = charts.strips("t", "", "1/s", [charts.Strip("host", "1", "#111111", values)])
    scales = {layer["encoding"]["x"]["scale"]["type"] for layer in spec["layer"] if "scale" in layer["encoding"]["x"]}
    assert scales == {scale}


@pytest.mark.parametrize(
    "ends",
    [[0.1, 0.98], [0.999, 1.001], [0.5, 40.0], [1e-6, 1.0], [1.0], [], [0.98, 3.01], [float("nan"), 0.9], [1e-3, 1e5]],
)
def test_a_ratio_axis_shows_every_end_the_reference_and_the_margin(ends: list[float]) -> None:
    axis = charts.ratio_axis(ends, 0.02)
    low, high = axis.domain
    assert low < 1 / 1.02 < 1.02 < high
    assert all(low < end < high for end in ends if end == end)
    assert 1.0 in axis.ticks
    assert 2 <= len(axis.ticks) <= 11
    assert all(low <= tick <= high for tick in axis.ticks)


@pytest.mark.parametrize("ends", [[0.0], [-3e6, 1e3], [1e-9, 2e-9], [], [5.0, 5.0]])
def test_a_difference_axis_shows_every_end_and_zero(ends: list[float]) -> None:
    axis, divisor = charts.difference_axis(ends, "B")
    low, high = axis.domain
    assert low < 0 < high
    assert all(low <= end / divisor <= high for end in ends)
    assert all(low <= tick <= high for tick in axis.ticks)


@pytest.mark.parametrize(
    ("unit", "said"),
    [("s", " in s"), ("share", " in percentage points"), ("1/s", ", per second"), ("", ""), ("bit/s", " in bit/s")],
)
def test_a_difference_axis_tells_its_unit(unit: str, said: str) -> None:
    assert charts.difference_axis([-3.0, 5.0], unit)[0].title == f"difference from the reference{said}"


def test_a_forest_keeps_what_lies_beyond_a_close_up_as_an_arrow() -> None:
    arms = (
        charts.Arm("docker", "0.97", "#111111", 0.97, 0.95, 0.99, "different"),
        charts.Arm("qemu", "0.1", "#222222", 0.1, 0.09, 0.11, "different"),
        charts.Arm("podman", "1.5", "#333333", 1.5, 0.8, 2.0, "undecided"),
    )
    axis = charts.ratio_axis([0.95, 1.05], 0.02)
    spec = charts.forest("t", [charts.Group("web", "higher", arms)], axis, charts.WIDE)
    shapes = {
        layer["mark"]["shape"]: [row["label"] for row in layer["data"]["values"]]
        for layer in spec["layer"]
        if layer["mark"]["type"] == "point"
    }
    assert shapes == {"circle": ["docker"], "triangle-left": ["qemu"], "triangle-right": ["podman"]}
    intervals = {
        row["label"]: (row["low"], row["high"]) for rows in data(spec, "rule") for row in rows if "label" in row
    }
    assert intervals == {"docker": (0.95, 0.99), "podman": axis.domain}


def test_an_arm_without_an_interval_is_a_point_alone() -> None:
    arms = (charts.Arm("docker", "0.97", "#111111", 0.97, verdict="undecided"),)
    spec = charts.forest("t", [charts.Group("web", "lower", arms)], charts.ratio_axis([0.97], None), charts.NARROW)
    assert [len(rows) for rows in data(spec, "point")] == [1]
    assert not [row for rows in data(spec, "rule") for row in rows if "label" in row]


def test_thinning_keeps_few_points_as_they_are_and_joins_neighbours_by_their_median() -> None:
    few = [(0.0, 1.0), (1.0, 3.0), (1.0, 5.0)]
    assert charts.thinned(few, 80) == ((0.0, 1.0), (1.0, 4.0))
    many = [(float(block), float(block)) for block in range(1667)]
    thin = charts.thinned(many, 80)
    assert len(thin) <= 80
    assert thin[0] == (10.0, 10.0)
    assert [y for _, y in thin] == sorted(y for _, y in thin)


def test_environments_have_one_colour_each_and_the_reference_is_grey() -> None:
    colours = palette.environments(["host", "docker", "host", "qemu"], "host")
    assert colours["host"] == palette.REFERENCE
    assert len(set(colours.values())) == 3
    assert palette.environments(["docker", "qemu", "host"], "host")["docker"] == colours["docker"]


@pytest.mark.parametrize("paper", ["#ffffff", "#171b22"])
def test_colours_stand_out_from_the_page_by_day_and_by_night(paper: str) -> None:
    """WCAG 2.1, 1.4.11: graphical objects have a contrast of at least 3 to what is beside them."""
    for name, colour in palette.environments([f"e{index}" for index in range(9)], "e0").items():
        lighter, darker = sorted((luminance(colour), luminance(paper)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 3, (name, colour, paper)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.1 defines it."""
    channels = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize(
    ("most", "ticks"), [(1, [0, 1]), (7, list(range(8))), (9, [0, 2, 4, 6, 8]), (1666, [500, 1000, 1500])]
)
def test_blocks_are_counted_in_whole_numbers(most: int, ticks: "list[int]") -> None:
    line = charts.Line("host", "#123456", tuple((float(x), 0.01 * x) for x in range(most + 1)))
    spec = charts.lines("", "", "block", [line])
    assert spec["layer"][1]["encoding"]["x"]["axis"]["values"] == list(ticks)
