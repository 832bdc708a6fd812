"""What charts are made of: the values themselves, on axes that show them, thinned only where nobody could tell."""

import statistics
from collections.abc import Iterator
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from nearmetal.report import palette
from nearmetal.report.charts.axes import difference_axis, log_ticks, ratio_axis
from nearmetal.report.charts.client_counts import CourseLine, IntervalPoint, draw_by_count
from nearmetal.report.charts.drift import Line, draw_lines, thin_points
from nearmetal.report.charts.forest import ForestRow, Group, draw_forest
from nearmetal.report.charts.grammar import HALF, NARROW, WIDE, Spec
from nearmetal.report.charts.ramps import RampLine, Rates, draw_ramp, draw_ramps
from nearmetal.report.charts.strips import Strip, draw_strips
from nearmetal.report.charts.text_width import measure_text, wrap_text
from nearmetal.report.drawing import draw_picture
from nearmetal.studies.published.ratio_chart import FigurePair, draw_pairs


def data(spec: Spec, mark: str) -> list[list[dict[str, Any]]]:
    """The rows of each layer with this mark."""
    return [layer["data"]["values"] for layer in spec["layer"] if layer["mark"]["type"] == mark]


def test_a_strip_shows_every_value_and_the_median() -> None:
    values = (1.02, 0.97, 1.01, 1.3)
    spec = draw_strips("t", "", "1/s", [Strip("host", "1", "#111111", values)])
    (dots,) = data(spec, "point")
    assert sorted(dot["value"] for dot in dots) == sorted(values)
    medians = {row["median"] for rows in data(spec, "rule") for row in rows}
    assert medians == {statistics.median(values)}


def test_dots_climb_with_the_blocks() -> None:
    spec = draw_strips("t", "", "1/s", [Strip("host", "1", "#111111", (5.0, 6.0, 7.0))])
    (dots,) = data(spec, "point")
    heights = [dot["y"] for dot in dots]
    assert heights == sorted(heights, reverse=True)


def test_many_values_become_quartiles_and_extremes() -> None:
    values = tuple(float(value) for value in np.random.default_rng(1).normal(100, 5, 5000))
    spec = draw_strips("t", "", "1/s", [Strip("host", "1", "#111111", values)])
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
    spec = draw_strips("t", "", "1/s", [Strip("host", "1", "#111111", values)])
    scales = {layer["encoding"]["x"]["scale"]["type"] for layer in spec["layer"] if "scale" in layer["encoding"]["x"]}
    assert scales == {scale}


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((22.0, 88.8), [30, 50, 70]),
        ((103.0, 460.0), [100, 200, 500]),
        ((17_740.0, 78_613.0), [20_000, 30_000, 50_000, 70_000]),
        ((0.4, 3.0), [0.5, 1, 2]),
        ((0.024, 5.0), [0.03, 0.1, 0.3, 1, 3]),
        ((0.5, 2e5), [1, 10, 100, 1e3, 1e4, 1e5]),
        ((1e-3, 1e9), [1e-3, 0.1, 10, 1e3, 1e5, 1e7, 1e9]),
    ],
)
def test_a_logarithmic_axis_has_ticks_enough_to_read_a_value_by(values: tuple[float, ...], ticks: list[float]) -> None:
    low, high, found = log_ticks(values)
    assert found == ticks
    assert low < min(values) and max(values) < high


@pytest.mark.parametrize(
    "ends",
    [[0.1, 0.98], [0.999, 1.001], [0.5, 40.0], [1e-6, 1.0], [1.0], [], [0.98, 3.01], [float("nan"), 0.9], [1e-3, 1e5]],
)
def test_a_ratio_axis_shows_every_end_the_reference_and_the_margin(ends: list[float]) -> None:
    axis = ratio_axis(ends, 0.02)
    low, high = axis.domain
    assert low < 1 / 1.02 < 1.02 < high
    assert all(low < end < high for end in ends if end == end)
    assert 1.0 in axis.ticks
    assert 2 <= len(axis.ticks) <= 11
    assert all(low <= tick <= high for tick in axis.ticks)


@pytest.mark.parametrize(
    "ends", [[0.83, 2.67], [0.27, 0.66], [0.32, 1.0], [0.3, 1.3], [0.99, 3.3], [0.6, 9.0], [0.2, 5.0], [1e-4, 1.0]]
)
def test_a_ratio_axis_has_ticks_enough_to_read_a_value_by(ends: list[float]) -> None:
    axis = ratio_axis(ends, 0.02)
    assert 3 <= len(axis.ticks) <= 11
    assert 1.0 in axis.ticks


@pytest.mark.parametrize(
    ("ends", "ticks"),
    [
        ([0.83, 2.67], (1.0, 1.5, 2.0)),
        ([0.27, 0.66], (0.3, 0.5, 0.7, 1.0)),
        ([0.98, 4.5], (1.0, 1.5, 2.0, 3.0)),
        ([0.6, 9.0], (1.0, 2.0, 5.0, 10.0)),
    ],
)
def test_ticks_of_a_ratio_axis_stand_closer_where_it_is_short(ends: list[float], ticks: tuple[float, ...]) -> None:
    assert ratio_axis(ends, 0.02).ticks == ticks


def test_a_ratio_axis_is_not_stretched_by_what_lies_out_of_all_proportion() -> None:
    assert ratio_axis([1e-320, 1e308, 0.9], 0.02) == ratio_axis([0.9], 0.02)


@pytest.mark.parametrize("unit", ["", "share"])
@pytest.mark.parametrize("far", [1e308, -1.7e308, 1e300])
def test_a_difference_axis_is_not_stretched_by_what_no_float_would_span(far: float, unit: str) -> None:
    assert difference_axis([far, 0.9], unit) == difference_axis([0.9], unit)


@pytest.mark.parametrize("ends", [[0.0], [-3e6, 1e3], [1e-9, 2e-9], [], [5.0, 5.0], [5e-324], [9e299, -9e299]])
def test_a_difference_axis_shows_every_end_and_zero(ends: list[float]) -> None:
    axis, divisor = difference_axis(ends, "B")
    low, high = axis.domain
    assert low < 0 < high
    assert all(low <= end / divisor <= high for end in ends)
    assert all(low <= tick <= high for tick in axis.ticks)


@pytest.mark.parametrize(
    ("unit", "said"),
    [("s", " in s"), ("share", " in percentage points"), ("1/s", ", per second"), ("", ""), ("bit/s", " in bit/s")],
)
def test_a_difference_axis_tells_its_unit(unit: str, said: str) -> None:
    assert difference_axis([-3.0, 5.0], unit)[0].title == f"difference from the reference{said}"


def test_a_forest_keeps_what_lies_beyond_a_close_up_as_an_arrow() -> None:
    arms = (
        ForestRow("docker", "0.97", "#111111", 0.97, 0.95, 0.99, "different"),
        ForestRow("qemu", "0.1", "#222222", 0.1, 0.09, 0.11, "different"),
        ForestRow("podman", "1.5", "#333333", 1.5, 0.8, 2.0, "undecided"),
        ForestRow("gvisor", "1.02", "#444444", 1.02, 0.97, 1.3, "undecided"),
    )
    axis = ratio_axis([0.95, 1.05], 0.02)
    spec = draw_forest("t", [Group("web", "higher", arms)], axis, WIDE)
    points = [layer for layer in spec["layer"] if layer["mark"]["type"] == "point"]
    marks = [
        (layer["mark"]["shape"], layer["mark"]["size"] < 80, row["label"])
        for layer in points
        for row in layer["data"]["values"]
    ]
    assert marks == [
        ("circle", False, "docker"),
        ("circle", False, "gvisor"),
        # Beyond on one side the point, and on another an end of the interval, by a smaller one.
        ("triangle-left", False, "qemu"),
        ("triangle-left", True, "podman"),
        ("triangle-right", False, "podman"),
        ("triangle-right", True, "gvisor"),
    ]
    triangles = [layer for layer in points if layer["mark"]["shape"].startswith("triangle")]
    ends = {row["estimate"] for layer in triangles for row in layer["data"]["values"]}
    assert ends == set(axis.domain)
    intervals = {
        row["label"]: (row["low"], row["high"]) for rows in data(spec, "rule") for row in rows if "label" in row
    }
    assert intervals == {"docker": (0.95, 0.99), "podman": axis.domain, "gvisor": (0.97, axis.domain[1])}


def test_an_arm_without_an_interval_is_a_point_alone() -> None:
    arms = (ForestRow("docker", "0.97", "#111111", 0.97, verdict="undecided"),)
    spec = draw_forest("t", [Group("web", "lower", arms)], ratio_axis([0.97], None), NARROW)
    assert [len(rows) for rows in data(spec, "point")] == [1]
    assert not [row for rows in data(spec, "rule") for row in rows if "label" in row]


def test_thinning_keeps_few_points_as_they_are_and_joins_neighbours_by_their_median() -> None:
    few = [(0.0, 1.0), (1.0, 3.0), (1.0, 5.0)]
    assert thin_points(few, 80) == ((0.0, 1.0), (1.0, 4.0))
    many = [(float(block), float(block)) for block in range(1667)]
    thin = thin_points(many, 80)
    assert len(thin) <= 80
    assert thin[0] == (10.0, 10.0)
    assert [y for _, y in thin] == sorted(y for _, y in thin)


def test_environments_have_a_colour_by_their_names_in_whatever_study() -> None:
    colours = palette.colour_environments(["host", "docker", "host", "qemu"])
    assert colours["host"] == palette.REFERENCE
    assert len(set(colours.values())) == 3
    for name, colour in colours.items():
        assert palette.colour_environments([name]) == {name: colour}
    assert palette.colour_environments(["podman", "qemu", "host"])["qemu"] == colours["qemu"]
    of_the_users = palette.colour_environments([f"lab-{index}" for index in range(8)])
    assert len(set(of_the_users.values())) == 8


@pytest.mark.parametrize("paper", ["#ffffff", "#171b22"])
def test_colours_stand_out_from_the_page_by_day_and_by_night(paper: str) -> None:
    """WCAG 2.1, 1.4.11: graphical objects have a contrast of at least 3 to what is beside them."""
    for name, colour in palette.colour_environments([f"e{index}" for index in range(9)]).items():
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
    line = Line("host", "#123456", tuple((float(x), 0.01 * x) for x in range(most + 1)))
    spec = draw_lines("", "", "block", [line])
    assert spec["layer"][1]["encoding"]["x"]["axis"]["values"] == list(ticks)


@pytest.mark.parametrize(("blocks", "channel"), [(8, "shape"), (40, "strokeDash")])
def test_lines_of_one_colour_are_told_apart(blocks: int, channel: str) -> None:
    points = tuple((float(block), 0.0) for block in range(blocks))
    names = {"host, a": "#111111", "host, b": "#111111", "qemu": "#222222", "host, c": "#111111"}
    spec = draw_lines("", "", "block", [Line(name, colour, points) for name, colour in names.items()])
    encoding = spec["layer"][-1]["encoding"]
    looks = zip(encoding["color"]["scale"]["range"], map(str, encoding[channel]["scale"]["range"]), strict=True)
    assert encoding[channel]["scale"]["domain"] == list(names) and len(set(looks)) == 4
    assert encoding[channel]["legend"] == encoding["color"]["legend"] is not None


# ── Texts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "bold", "pixels"),
    [
        ("host", False, 28.1),
        ("qemu, nic virtio-net vs host", False, 178.9),
        ("0.97 × (0.95 to 0.99)", False, 137.5),
        ("WWW MMM", False, 76.3),
        ("Ratios of transactions, measured and published", True, 351.6),
    ],
)
def test_a_text_is_measured_as_in_a_wide_font_with_little_to_spare(text: str, bold: bool, pixels: float) -> None:
    """The widths are those of DejaVu Sans at 13 px, from its tables."""
    assert pixels <= measure_text(text, 13, bold=bold) <= 1.1 * pixels


def test_lines_break_between_words_and_within_a_word_that_is_too_long() -> None:
    assert wrap_text("qemu, nic virtio-net vs host", 130) == ["qemu, nic", "virtio-net vs host"]
    assert wrap_text("one", 130) == ["one"]
    assert wrap_text("", 130) == [""]
    assert wrap_text("a-bridge-that-floods-all-frames", 130) == ["a-bridge-that-", "floods-all-frames"]
    long = wrap_text("x" * 100, 130)
    assert "".join(long) == "x" * 100
    assert max(map(measure_text, long)) <= 130


SHORT = ("qemu", "docker", "host, on")
LONG = (
    "qemu, virtual-switch-forwarding-database a-bridge-that-floods-all-frames, nic virtio-net vs host",
    "x" * 100,
    "qemu, nic virtio-net, offload tso, link_rate 50Mbit/s",
)
TITLE = "Ratios of transactions, measured and published"


def arm(label: str, figure: str) -> ForestRow:
    return ForestRow(label, figure, "#111111", 0.6, 0.5, 0.7, "different")


def pictures(names: tuple[str, ...], width: int) -> Iterator[tuple[Spec, tuple[str, ...]]]:
    """Each kind of chart that tells names from a study, with those that it tells."""
    figure = "+5.95 MiB (+5.78 to +6.16)"
    groups = [Group(name, "higher", tuple(arm(other, figure) for other in names)) for name in names]
    yield draw_forest(TITLE, groups, ratio_axis([0.5, 1.0], 0.02), width), names
    pairs = [FigurePair(name, name, "0.62 ×", "#111111", 0.62, (0.6, 0.7), 0.9) for name in names]
    yield draw_pairs(TITLE, pairs, width), names
    for times in (1, 5):
        strips = [Strip(name, "74.5 k", "#111111", (1.0, 9.0)) for name in names * times]
        yield draw_strips(TITLE, "higher is better", "1/s", strips), names
    courses = [
        CourseLine(name, "#111111", False, (IntervalPoint(1, 3.0, None), IntervalPoint(5, 7.0, None))) for name in names
    ]
    yield draw_by_count(TITLE, "higher is better", "clients", "bit/s", courses), names
    drifts = [Line(name, "#111111", ((1, 0.1), (2, 0.2))) for name in names]
    yield draw_lines(TITLE, "", "block", drifts), names
    ways = [RampLine(name, ((1.0, 1.0), (2.0, 1.5))) for name in names]
    yield draw_ramps(TITLE, "", ways, "#111111"), names
    for saturation in (2.0, 30.0):
        rates = [Rates(rate, rate, min(rate, 30.0), max(0.0, rate - 30)) for rate in (1.0, 20.0, 40.0)]
        yield draw_ramp(names[0], names[1], rates, "#111111", saturation), names[:2]


def boxes(svg: str) -> Iterator[tuple[str, float, float, float, float]]:
    """Each line of text in a picture with its left, top, right and bottom, as wide as with a wide font."""
    for element, x, y in placed(ElementTree.fromstring(svg), 0.0, 0.0):
        size = float(element.get("font-size", "11").removesuffix("px"))
        lines = [(line.text or "", float(line.get("dy", 0))) for line in element] or [(element.text or "", 0.0)]
        for text, down in lines:
            y += down
            width = measure_text(text, size, bold=element.get("font-weight") == "bold")
            left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[element.get("text-anchor", "start")] * width
            yield text, left, y - 0.72 * size, left + width, y


def placed(element: ElementTree.Element, x: float, y: float) -> Iterator[tuple[ElementTree.Element, float, float]]:
    """The upright texts below an element, with where they begin."""
    moved = element.get("transform", "")
    if "rotate" in moved:
        return
    if moved.startswith("translate("):
        across, down = moved.removeprefix("translate(").split(")")[0].split(",")
        x, y = x + float(across), y + float(down)
    if element.tag.endswith("}text"):
        yield element, x, y
        return
    for child in element:
        yield from placed(child, x, y)


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("names", [pytest.param(SHORT, marks=pytest.mark.long), LONG], ids=["short", "long"])
def test_no_text_is_cut_or_runs_into_another_or_out_of_the_picture(names: tuple[str, ...], width: int) -> None:
    for spec, told in pictures(names, width):
        svg = draw_picture(spec).svg
        across = float(ElementTree.fromstring(svg).get("width", 0))
        assert across <= max(width, HALF) + 25
        found = list(boxes(svg))
        everything = "".join(text for text, *_ in found).replace(" ", "")
        assert "…" not in everything
        assert all(name.replace(" ", "") in everything for name in told)
        for text, left, _, right, _ in found:
            assert left >= -1 and right <= across + 1, (text, left, right, across)
        for (one, left, top, right, bottom), (other, *them) in combinations(found, 2):
            apart = right <= them[0] or them[2] <= left or bottom <= them[1] or them[3] <= top
            assert apart, (one, other, spec["title"])


# ── Lines over a number ───────────────────────────────────────────────────────────────────────────────────────────


def course(label: str, colour: str, dashed: bool, value: float = 1.0) -> CourseLine:
    return CourseLine(label, colour, dashed, (IntervalPoint(1, value, None), IntervalPoint(5, value, None)))


def test_lines_of_one_colour_and_dash_differ_in_the_shape_of_their_points() -> None:
    courses = [
        course("host, 50Mbit/s, tcp", "#111111", False),
        course("host, 200Mbit/s, tcp", "#111111", False),
        course("host, 50Mbit/s, udp", "#111111", True),
        course("host, 200Mbit/s, udp", "#111111", True),
        course("qemu, 50Mbit/s, tcp", "#222222", False),
    ]
    spec = draw_by_count("t", "", "clients", "bit/s", courses)
    (points,) = [layer for layer in spec["layer"] if layer["mark"]["type"] == "point"]
    look = {channel: points["encoding"][channel]["scale"]["range"] for channel in ("fill", "stroke", "shape")}
    assert look["shape"] == ["circle", "square", "circle", "square", "circle"]
    assert look["fill"] == ["#111111", "#111111", palette.PAPER, palette.PAPER, "#222222"]
    assert len(set(zip(*look.values(), strict=True))) == len(courses)
    assert draw_picture(spec).svg.count('class="mark-symbol role-legend-symbol"') == len(courses)


def test_an_axis_of_zeros_alone_says_so() -> None:
    spec = draw_by_count("Loss", "", "clients", "share", [course("host", "#111111", True, 0.0)])
    labels = [text for text, *_ in boxes(draw_picture(spec).svg)]
    assert {"0", "0.2", "1"} <= set(labels)


# ── A ramp ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_saturation_is_named_and_drawn_unlike_any_line() -> None:
    spec = draw_ramp("host", "", [Rates(1, 1, 1, 0), Rates(9, 9, 5, 4)], "#111111", 5.0)
    (stroke,) = [layer["mark"] for layer in spec["layer"] if layer["mark"]["type"] == "rule"]
    assert "strokeDash" not in stroke and stroke["strokeWidth"] > 4
    assert [row["name"] for row in data(spec, "text")[0]] == ["saturation"]
    assert not data(draw_ramp("host", "", [Rates(1, 1, 1, 0)], "#111111", None), "rule")
