"""Values over blocks and positions as lines: what drifts."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearmetal.report import palette
from nearmetal.report.charts import grammar
from nearmetal.report.charts.tooltips import join_tip

STEPS = tuple(digit * 10**power for power in range(7) for digit in (1, 2, 5))

_BINS = 80
"""More blocks than this in a line cannot be told apart at 328 px: medians of neighbours are drawn instead."""

_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
"""Of lines; over again when used up."""

_IN_LEGEND = 12
"""More lines than this cannot be told apart, nor is there room to name them."""

_POINTS = 1200
"""More points than this in one picture of lines are thinned further: the more lines, the less of each can be seen."""


@dataclass(frozen=True)
class Line:
    """Values of one treatment over blocks or positions, relative to its own median (0.01: 1 % above)."""

    label: str
    colour: str
    points: tuple[tuple[float, float], ...]


def thin_points(points: Sequence[tuple[float, float]], bins: int) -> tuple[tuple[float, float], ...]:
    """Medians of neighbours, where there are more points than can be seen; values at one x are always joined."""
    joined: dict[float, list[tuple[float, float]]] = {}
    for point in sorted(points):
        joined.setdefault(point[0], []).append(point)
    places = list(joined)
    together = math.ceil(len(places) / bins)
    groups = [places[start : start + together] for start in range(0, len(places), together)]
    return tuple(
        (statistics.median(group), statistics.median(y for place in group for _, y in joined[place]))
        for group in groups
    )


def _list_ticks(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Round numbers for an axis of things that are counted: at most nine, none of them between two blocks."""
    least, most = math.floor(min((row["x"] for row in rows), default=0)), max((row["x"] for row in rows), default=0)
    step = next(step for step in STEPS if (most - least) / step <= 8)
    return list(range(math.ceil(least / step) * step, math.floor(most) + 1, step))


def draw_lines(
    title: str, subtitle: str, x_title: str, groups: Sequence[Line], width: int = grammar.HALF, each: str = "block"
) -> grammar.Spec:
    """Lines around 0 %, one a treatment; `each` is what one number along them is called.

    Those of one colour differ in dashes and, if they are few, in the shape of points; those that no legend names show
    what they have in common.
    """
    plot = width - 62
    bins = max(12, min(_BINS, _POINTS // max(1, len(groups))))
    rows: list[dict[str, Any]] = [
        {
            "x": x,
            "y": 100 * y,
            "label": grammar.legend_label(group.label, plot),
            "colour": group.colour,
            "tip": group.label,
        }
        for group in groups
        for x, y in thin_points(group.points, bins)
    ]
    named = {grammar.legend_label(group.label, plot): group.colour for group in groups}
    places = grammar.places_among_alike(named.values())

    many = len({row["x"] for row in rows}) > 30 or len(groups) > 8
    look = {"symbolType": "stroke"} if many else {"symbolStrokeWidth": 0}
    are_named = len(named) <= _IN_LEGEND
    shown = grammar.make_legend(named, plot, **look)

    def by_label(looks: Sequence[Any]) -> grammar.Spec:
        return grammar.make_field("label", "nominal", scale={"domain": list(named), "range": looks}, legend=shown)

    colour = by_label(list(named.values())) if are_named else grammar.own_colour()
    dash = by_label([_DASHES[place % len(_DASHES)] for place in places])
    apart = {"strokeDash": dash} if are_named else {"detail": grammar.make_field("label", "nominal")}
    x = grammar.make_field(
        "x",
        title=x_title,
        axis={"values": _list_ticks(rows), "grid": False, "format": "d"},
        scale={"nice": False, "zero": False, "padding": 6},
    )
    y = grammar.make_field(
        "y",
        title="% from its own median",
        axis={"tickCount": 5, "labelExpr": "datum.value ? format(datum.value, '+~g') : '0'"},
        scale={"zero": True, "nice": True},
    )
    layers = [
        grammar.make_layer([{"y": 0}], {"type": "rule", "color": palette.MUTED, "strokeDash": [4, 3]}, y=y),
        grammar.make_layer(
            rows,
            {
                "type": "line",
                "strokeWidth": 1.5,
                "strokeOpacity": 0.5 if many else 0.8,
            },
            x=x,
            y=y,
            color=colour,
            **apart,
        ),
    ]
    if not many:
        shape = by_label([grammar.SHAPES[place % len(grammar.SHAPES)] for place in places])
        # So few are not thinned: each stands for one number.
        dots = [
            {**row, "tip": join_tip(row["tip"], f"{each} {row['x']:g}", f"{row['y']:+.2g} %".replace("-", "−"))}
            for row in rows
        ]
        layers.append(
            grammar.make_layer(dots, {"type": "point", "size": 44, "filled": True}, x=x, y=y, color=colour, shape=shape)
        )
    return grammar.make_chart(title, subtitle, plot, 170, layers)
