"""What all pictures share: the look, and the few shapes of the grammar that they are put together from."""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

from nearmetal.report import palette
from nearmetal.report.charts.axes import Axis
from nearmetal.report.charts.text_width import BREAK, SIZE, measure_text, wrap_text

Spec = dict[str, Any]

WIDE = 860
NARROW = 328
"""Widths in px that the page has for a picture: a desktop's column, and a phone's screen less its margins."""

HALF = 415
"""Width of a picture that stands beside another on a desktop, and is legible when a phone shrinks it."""

_TITLE, _SMALL = 15.0, 12.5
"""Sizes of text."""

_SYMBOL = 24.0
"""Pixels of a legend's symbol, and the space between it and its text."""

_CONFIG: Spec = {
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "background": palette.PAPER,
    "view": {"stroke": None},
    "axis": {
        "labelColor": palette.MUTED,
        "titleColor": palette.MUTED,
        "gridColor": palette.LINE,
        "domainColor": palette.LINE,
        "tickColor": palette.LINE,
        "labelFontSize": _SMALL,
        "titleFontSize": _SMALL,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelPadding": 4,
    },
    "title": {
        "anchor": "start",
        "color": palette.INK,
        "fontSize": _TITLE,
        "subtitleFontSize": _SMALL,
        "subtitleColor": palette.MUTED,
        "offset": 10,
    },
    "text": {"color": palette.INK, "fontSize": SIZE},
    "point": {"opacity": 1},
    "legend": {"labelColor": palette.INK, "labelFontSize": _SMALL, "symbolType": "circle", "labelLimit": 0},
}


def make_chart(
    title: str, subtitle: str, width: int, height: int, layers: Sequence[Spec], across: int | None = None
) -> Spec:
    """A plot under its title, which has as many lines as it takes. `across`: the whole picture's width, if more."""
    room = across or width
    below = {"subtitle": wrap_text(subtitle, room, _SMALL)} if subtitle else {}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {"text": wrap_text(title, room, _TITLE, bold=True), **below},
        "width": width,
        "height": height,
        "padding": 6,
        "config": _CONFIG,
        "layer": [layer for layer in layers if layer["data"]["values"]],
    }


def make_layer(rows: Iterable[Mapping[str, Any]], mark: Spec, **encoding: Spec) -> Spec:
    """Marks of one kind. If rows have a `tip` (see tooltips.py) each mark carries its own, else the marks are mute."""
    values = list(rows)
    if values and "tip" in values[0]:
        encoding["description"] = make_field("tip", "nominal")
    else:
        mark = {**mark, "aria": False}
    return {"data": {"values": values}, "mark": mark, "encoding": encoding}


def make_field(name: str, kind: Literal["quantitative", "nominal"] = "quantitative", **more: Any) -> Spec:
    return {"field": name, "type": kind, **more}


def lie_along(axis: Axis, name: str) -> Spec:
    """The channel of a field whose values lie on an axis."""
    return make_field(
        name,
        title=axis.title,
        scale={"type": axis.scale, "domain": list(axis.domain), "nice": False, "zero": False},
        axis={
            "values": list(axis.ticks),
            "labelExpr": axis.labels,
            "labelFlush": True,
            "grid": False,
            "labelOverlap": "greedy",
            "labelSeparation": 14,
        },
    )


def own_colour() -> Spec:
    """The colour that each row of the data carries."""
    return {"field": "colour", "type": "nominal", "scale": None, "legend": None}


def same_scale(encoding: Spec, name: str) -> Spec:
    return {**encoding, "field": name}


def make_legend(labels: Iterable[str], room: int, **look: Any) -> Spec:
    """A legend below the plot, of as many columns as fit beside each other. Its labels are `legend_label`s."""
    widest = max(measure_text(line, _SMALL) for label in labels for line in label.split(BREAK))
    spare = 10 + 0.25 * widest
    columns = max(1, int((room + spare) // (_SYMBOL + widest + spare)))
    lines = f"split(datum.label, {json.dumps(BREAK)})"
    return {"orient": "bottom", "title": None, "columns": columns, "columnPadding": spare, "labelExpr": lines, **look}


SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
"""Of points; over again when used up."""


def places_among_alike(looks: Iterable[Hashable]) -> list[int]:
    """Of each, how many before it look the same: what else tells it from them has to be another."""
    met: Counter[Hashable] = Counter()
    places = []
    for look in looks:
        places.append(met[look])
        met[look] += 1
    return places


def legend_label(text: str, room: int) -> str:
    """A text of a legend with its lines broken where they must."""
    return BREAK.join(wrap_text(text, room - _SYMBOL, _SMALL))
