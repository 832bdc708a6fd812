"""Values as strips with their medians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearmetal.report import figures, palette
from nearmetal.report.charts.axes import linear_ticks, log_ticks
from nearmetal.report.charts.grammar import HALF, Spec, chart, field, layer, own_colour, same_scale
from nearmetal.report.charts.rows import Row, Rows

_DRAWN_ONE_BY_ONE = 60
"""More values than this in one strip cannot be told apart: quartiles and 5 to 95 % are drawn instead."""

ROOMY = 12
"""With more strips than this, names stand beside them on a wide picture: less pretty than above, half as tall."""


@dataclass(frozen=True)
class Strip:
    """All values of one treatment, in the order of their blocks."""

    label: str
    figure: str
    colour: str
    values: tuple[float, ...]


def _quantiles(values: NDArray[np.float64], shares: Sequence[float]) -> list[float]:
    """Between neighbours in proportion, as numpy.quantile, which takes fifty times as long for a few of them."""
    ordered = np.sort(values)
    return [float(one) for one in np.interp(np.asarray(shares) * (len(ordered) - 1), np.arange(len(ordered)), ordered)]


def strips(title: str, subtitle: str, unit: str, groups: Sequence[Strip], width: int = HALF) -> Spec:
    """Every value as a dot and the median as a stroke, one row a treatment; quartiles where dots would overlap.

    Within a row, dots climb with the blocks, so that a drift shows as a slope. The axis is logarithmic where the
    values span more than a factor of four, and does not start at zero otherwise: dots are compared, not lengths.
    """
    beside = len(groups) > ROOMY and width > HALF
    places = Rows.of([(group.label, group.figure) for group in groups], width - 34, beside=beside)
    pitch = 25.0 if beside else 48.0
    everything = [value for group in groups for value in group.values]
    divisor, unit_name = figures.axis(unit, everything)
    log_title = f"{unit_name} (log scale)" if unit_name else "log scale"
    logarithmic = bool(everything) and min(everything) > 0 and max(everything) / min(everything) > 4
    names: list[Row] = []
    dots: list[dict[str, Any]] = []
    boxes: list[dict[str, Any]] = []
    next_y = 30.0
    for group in groups:
        place, more = places.place(group.label, group.figure, next_y)
        names.append(place)
        next_y += pitch + more
        y = place["y"]
        values = np.asarray(group.values) / divisor
        common = {"colour": group.colour, "median": float(np.median(values))}
        if len(values) <= _DRAWN_ONE_BY_ONE:
            climb = np.linspace(7, -7, len(values)) if len(values) > 1 else np.zeros(1)
            dots += [{**common, "y": y + float(up), "value": float(v)} for up, v in zip(climb, values, strict=True)]
            boxes.append({**common, "y": y, "top": y - 11, "bottom": y + 11})
        else:
            low, first, third, high = _quantiles(values, (0.05, 0.25, 0.75, 0.95))
            dots += [{**common, "y": y, "value": float(end)} for end in (values.min(), values.max())]
            spread = {"low": low, "first": first, "third": third, "high": high}
            boxes.append({**common, "y": y, "top": y - 11, "bottom": y + 11, **spread})
    height = int(next_y - pitch + 18)
    scaled = [value / divisor for value in everything]
    low, high, ticks = log_ticks(scaled) if logarithmic else linear_ticks(scaled)
    x = field(
        "value",
        title=log_title if logarithmic else unit_name,
        scale={"type": "log" if logarithmic else "linear", "domain": [low, high], "nice": False, "zero": False},
        axis={
            "values": ticks,
            "labelOverlap": "greedy",
            "grid": False,
            "domain": False,
            "labelExpr": "format(datum.value, ',~r')",
        },
    )
    y_of = field("y", scale={"domain": [0, height], "range": [0, height], "nice": False, "zero": False}, axis=None)
    summed_up = [box for box in boxes if "low" in box]
    layers = [
        layer(
            boxes,
            {"type": "rect", "color": palette.TRACK, "cornerRadius": 3},
            x={"value": 0},
            x2={"value": places.plot},
            y=same_scale(y_of, "top"),
            y2={"field": "bottom"},
        ),
        *places.names(names, y_of),
        *(
            layer(
                summed_up,
                {"type": "rule", "strokeWidth": thickness, "strokeOpacity": 0.5},
                x=same_scale(x, low),
                x2={"field": high},
                y=y_of,
                color=own_colour(),
            )
            for low, high, thickness in (("low", "high", 3), ("first", "third", 10))
        ),
        layer(
            dots,
            {"type": "point", "filled": True, "size": 34, "fillOpacity": 0.65},
            x=x,
            y=y_of,
            color=own_colour(),
        ),
        layer(
            boxes,
            {"type": "rule", "color": palette.INK, "strokeWidth": 2},
            x=same_scale(x, "median"),
            y=same_scale(y_of, "top"),
            y2={"field": "bottom"},
        ),
    ]
    return chart(title, subtitle, places.plot, height, layers, width - 34)
