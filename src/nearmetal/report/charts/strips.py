"""Values as strips with their medians."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearmetal.report import figures, palette
from nearmetal.report.charts.axes import linear_ticks, log_ticks
from nearmetal.report.charts.grammar import HALF, Spec, make_chart, make_field, make_layer, own_colour, same_scale
from nearmetal.report.charts.labelled_rows import Row, Rows
from nearmetal.report.charts.tooltips import join_tip

_DRAWN_ONE_BY_ONE = 60
"""More values than this in one strip cannot be told apart: quartiles and 5 to 95 % are drawn instead."""


@dataclass(frozen=True)
class Strip:
    """All values of one treatment, in the order of their blocks."""

    label: str
    figure: str
    colour: str
    values: tuple[float, ...]
    about: str = ""
    """The treatment's name, if the label has more."""
    tips: tuple[str, ...] = ()
    """What each value says, if they are drawn one by one."""

    @property
    def names(self) -> tuple[str, str]:
        """The treatment's name, and the rest of the label."""
        return self.about or self.label, self.label.removeprefix(self.about or self.label).lstrip(", ")


def _find_quantiles(values: NDArray[np.float64], shares: Sequence[float]) -> list[float]:
    """Between neighbours in proportion, as numpy.quantile, which takes fifty times as long for a few of them."""
    ordered = np.sort(values)
    return [float(one) for one in np.interp(np.asarray(shares) * (len(ordered) - 1), np.arange(len(ordered)), ordered)]


def has_dots(size: int) -> bool:
    """Whether so many values of a strip are drawn one by one."""
    return size <= _DRAWN_ONE_BY_ONE


def describe_strips(sizes: Iterable[int], dot: str) -> str:
    """What strips of so many values show, in words for a caption; `dot` says what each value is."""
    are_many = [not has_dots(size) for size in sizes]
    bars = "thick bar is the middle half of a row's values, the thin one 5 to 95 %; the two dots are the extremes."
    stroke = "The stroke is the median, written at the right."
    if are_many and all(are_many):
        return f"The {bars} {stroke}"
    if any(are_many):
        return f"Each dot is {dot}. Of more than {_DRAWN_ONE_BY_ONE} values, the {bars} {stroke}"
    return f"Each dot is {dot}. {stroke}"


def draw_strips(title: str, subtitle: str, unit: str, groups: Sequence[Strip]) -> Spec:
    """Every value as a dot and the median as a stroke, one row a treatment; quartiles where dots would overlap.

    Within a row, dots climb with the blocks, so that a drift shows as a slope. The axis is logarithmic where the
    values span more than a factor of four, and does not start at zero otherwise: dots are compared, not lengths.
    One picture serves desktop and phone.
    """
    places = Rows.from_names([(group.label, group.figure) for group in groups], HALF - 34, beside=False)
    pitch = 48.0
    divisor, x = _make_axis(unit, [value for group in groups for value in group.values])
    names: list[Row] = []
    dots: list[dict[str, Any]] = []
    boxes: list[dict[str, Any]] = []
    next_y = 30.0
    for group in groups:
        place, more = places.place_row(group.label, group.figure, next_y)
        names.append({**place, "tip": _make_tip(group)})
        next_y += pitch + more
        own_dots, box = _make_marks(group, place["y"], divisor)
        dots += own_dots
        boxes.append(box)
    height = int(next_y - pitch + 18)
    y = make_field("y", scale={"domain": [0, height], "range": [0, height], "nice": False, "zero": False}, axis=None)
    from_top_to_bottom = {"y": same_scale(y, "top"), "y2": {"field": "bottom"}}
    layers = [
        make_layer(
            boxes,
            {"type": "rect", "color": palette.TRACK, "cornerRadius": 3},
            x={"value": 0},
            x2={"value": places.plot},
            **from_top_to_bottom,
        ),
        *places.draw_names(names, y),
        *_draw_quartiles([box for box in boxes if "low" in box], x, y),
        make_layer(
            dots, {"type": "point", "filled": True, "size": 34, "fillOpacity": 0.65}, x=x, y=y, color=own_colour()
        ),
        make_layer(
            boxes,
            {"type": "rule", "color": palette.INK, "strokeWidth": 2},
            x=same_scale(x, "median"),
            **from_top_to_bottom,
        ),
    ]
    return make_chart(title, subtitle, places.plot, height, layers)


def _make_axis(unit: str, values: Sequence[float]) -> tuple[float, Spec]:
    """What values are divided by, and the channel that they then lie on."""
    divisor, unit_name = figures.choose_axis(unit, values)
    logarithmic = bool(values) and min(values) > 0 and max(values) / min(values) > 4
    scaled = [value / divisor for value in values]
    low, high, ticks = log_ticks(scaled) if logarithmic else linear_ticks(scaled)
    title = f"{unit_name} (log scale)" if unit_name else "log scale"
    channel = make_field(
        "value",
        title=title if logarithmic else unit_name,
        scale={"type": "log" if logarithmic else "linear", "domain": [low, high], "nice": False, "zero": False},
        axis={
            "values": ticks,
            "labelOverlap": "greedy",
            "labelFlush": 12,  # a label that stuck out would move the whole panel
            "grid": False,
            "domain": False,
            "labelExpr": "format(datum.value, ',~r')",
        },
    )
    return divisor, channel


def _make_marks(group: Strip, y: float, divisor: float) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The dots of a row, and its box: of many values only the outermost are dots, and the box has quantiles."""
    values = np.asarray(group.values) / divisor
    common = {"colour": group.colour, "median": float(np.median(values)), "tip": _make_tip(group)}
    box = {**common, "y": y, "top": y - 11, "bottom": y + 11}
    if has_dots(len(values)):
        climb = np.linspace(7, -7, len(values)) if len(values) > 1 else np.zeros(1)
        tips = [join_tip(*group.names, tip) for tip in group.tips or ("",) * len(values)]
        return [
            {**common, "y": y + float(up), "value": float(value), "tip": tip}
            for up, value, tip in zip(climb, values, tips, strict=True)
        ], box
    low, first, third, high = _find_quantiles(values, (0.05, 0.25, 0.75, 0.95))
    ends = [{**common, "y": y, "value": float(end)} for end in (values.min(), values.max())]
    return ends, {**box, "low": low, "first": first, "third": third, "high": high}


def _make_tip(group: Strip) -> str:
    return join_tip(*group.names, group.figure and f"median {group.figure}")


def _draw_quartiles(boxes: Sequence[Mapping[str, Any]], x: Spec, y: Spec) -> Iterator[Spec]:
    for low, high, thickness in (("low", "high", 3), ("first", "third", 10)):
        yield make_layer(
            boxes,
            {"type": "rule", "strokeWidth": thickness, "strokeOpacity": 0.5},
            x=same_scale(x, low),
            x2={"field": high},
            y=y,
            color=own_colour(),
        )
