"""Measured ratios with what somebody else published of the same: a point on its interval, and a hollow square."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nearmetal.report import palette
from nearmetal.report.charts.axes import ratio_axis
from nearmetal.report.charts.grammar import Spec, chart, field, layer, own_colour, room, same_scale

_BESIDE = 600
"""From this width on, names stand beside the plot instead of above their row."""


@dataclass(frozen=True)
class Pair:
    """One comparison: measured here, and published. Those of one heading stand together."""

    heading: str
    label: str
    figure: str
    colour: str
    measured: float
    interval: tuple[float, float] | None
    published: float | None


def beside(title: str, pairs: Sequence[Pair], width: int) -> Spec:
    """One row a comparison on a logarithmic axis of ratios to the reference."""
    wide = width >= _BESIDE
    pitch = 28.0 if wide else 46.0
    left = room(pair.label for pair in pairs) if wide else 0
    right = room(pair.figure for pair in pairs) if wide else 0
    plot = width - 12 - left - right
    ends = [end for pair in pairs for end in (pair.measured, *(pair.interval or ()), pair.published or pair.measured)]
    axis = ratio_axis(ends, None)
    rows: list[dict[str, Any]] = []
    headings: list[dict[str, Any]] = []
    y_at = 0.0
    for heading in dict.fromkeys(pair.heading for pair in pairs):
        if heading:
            headings.append({"y": y_at + 14, "heading": heading})
            y_at += 26
        for pair in (pair for pair in pairs if pair.heading == heading):
            rows.append(_row(pair, y_at + (14 if wide else 28)))
            y_at += pitch
        y_at += 8
    height = int(y_at)
    x = field(
        "measured",
        title=axis.title,
        scale={"type": "log", "domain": list(axis.domain), "nice": False, "zero": False},
        axis={"values": list(axis.ticks), "labelExpr": axis.labels, "labelFlush": True, "grid": wide},
    )
    y = field("y", scale={"domain": [0, height], "range": [0, height], "nice": False, "zero": False}, axis=None)
    rise = 0 if wide else -17
    drawn = [
        layer(
            [{"measured": 1.0, "top": 0, "bottom": height}]
            if wide
            else [{"measured": 1.0, "top": row["y"] - 9, "bottom": row["y"] + 9} for row in rows],
            {"type": "rule", "color": palette.MUTED, "strokeWidth": 1.5, "strokeDash": [4, 3]},
            x=x,
            y=same_scale(y, "top"),
            y2={"field": "bottom"},
        ),
        layer(
            headings,
            {"type": "text", "align": "left", "fontWeight": "bold", "color": palette.INK},
            x={"value": -left},
            y=y,
            text=field("heading", "nominal"),
        ),
        layer(
            rows,
            {"type": "text", "align": "left", "dy": rise, "color": palette.INK, "limit": left - 14 if wide else 190},
            x={"value": -left},
            y=y,
            text=field("label", "nominal"),
        ),
        layer(
            rows,
            {"type": "text", "align": "right", "dy": rise, "color": palette.MUTED},
            x={"value": plot + right},
            y=y,
            text=field("figure", "nominal"),
        ),
        layer(
            [row for row in rows if row["low"] is not None],
            {"type": "rule", "strokeWidth": 4, "strokeCap": "round", "strokeOpacity": 0.55},
            x=same_scale(x, "low"),
            x2={"field": "high"},
            y=y,
            color=own_colour(),
        ),
        layer(rows, {"type": "point", "filled": True, "size": 80}, x=x, y=y, color=own_colour()),
        layer(
            [row for row in rows if row["published"] is not None],
            {"type": "point", "shape": "square", "filled": False, "size": 90, "strokeWidth": 2, "color": palette.INK},
            x=same_scale(x, "published"),
            y=y,
        ),
    ]
    return chart(title, "", plot, height, drawn)


def _row(pair: Pair, y: float) -> dict[str, Any]:
    low, high = pair.interval or (None, None)
    return {
        "y": y,
        "label": pair.label,
        "figure": pair.figure,
        "colour": pair.colour,
        "measured": pair.measured,
        "low": low,
        "high": high,
        "published": pair.published,
    }
