"""Measured ratios with what somebody else published of the same: a point on its interval, and a hollow square."""

from collections.abc import Sequence
from dataclasses import dataclass

from nearmetal.report import palette
from nearmetal.report.charts.axes import ratio_axis
from nearmetal.report.charts.grammar import Spec, lie_along, make_chart, make_field, make_layer, own_colour, same_scale
from nearmetal.report.charts.labelled_rows import Row, Rows, draw_grid, draw_headings, place_heading
from nearmetal.report.charts.tooltips import join_tip

_BESIDE = 600
"""From this width on, names stand beside the plot instead of above their row."""


@dataclass(frozen=True)
class FigurePair:
    """One comparison: measured here, and published. Those of one heading stand together."""

    heading: str
    label: str
    figure: str
    colour: str
    measured: float
    interval: tuple[float, float] | None
    published: float | None
    about: str = ""
    """The treatment's name, if the label is another."""


def draw_pairs(title: str, pairs: Sequence[FigurePair], width: int) -> Spec:
    """One row a comparison on a logarithmic axis of ratios to the reference."""
    wide = width >= _BESIDE
    places = Rows.from_names([(pair.label, pair.figure) for pair in pairs], width - 12, beside=wide)
    pitch = 28.0 if wide else 46.0
    ends = [end for pair in pairs for end in (pair.measured, *(pair.interval or ()), pair.published or pair.measured)]
    axis = ratio_axis(ends, None)
    rows: list[Row] = []
    heads: list[Row] = []
    tracks: list[Row] = []
    y_at = 0.0
    for text in dict.fromkeys(pair.heading for pair in pairs):
        if text:
            head, more = place_heading(text, width - 12, y_at + 14)
            heads.append(head)
            y_at += 26 + more
        top = y_at
        for pair in (pair for pair in pairs if pair.heading == text):
            place, more = places.place_row(pair.label, pair.figure, y_at + (14 if wide else 28))
            rows.append({**_make_row(pair), **place})
            y_at += pitch + more
        tracks.append({"top": top, "bottom": y_at})
        y_at += 8
    if not wide:
        tracks = [{"top": row["y"] - 9, "bottom": row["y"] + 9} for row in rows]
    height = int(y_at)
    x = lie_along(axis, "measured")
    y = make_field("y", scale={"domain": [0, height], "range": [0, height], "nice": False, "zero": False}, axis=None)
    drawn = [
        *([draw_grid(tracks, axis.ticks, x, y)] if wide else []),
        make_layer(
            [{**track, "measured": 1.0} for track in tracks],
            {"type": "rule", "color": palette.MUTED, "strokeWidth": 1.5, "strokeDash": [4, 3]},
            x=x,
            y=same_scale(y, "top"),
            y2={"field": "bottom"},
        ),
        draw_headings(heads, -places.left, y),
        *places.draw_names(rows, y),
        make_layer(
            [row for row in rows if row["low"] is not None],
            {"type": "rule", "strokeWidth": 4, "strokeCap": "round", "strokeOpacity": 0.55},
            x=same_scale(x, "low"),
            x2={"field": "high"},
            y=y,
            color=own_colour(),
        ),
        make_layer(rows, {"type": "point", "filled": True, "size": 80}, x=x, y=y, color=own_colour()),
        make_layer(
            [row for row in rows if row["published"] is not None],
            {"type": "point", "shape": "square", "filled": False, "size": 90, "strokeWidth": 2, "color": palette.INK},
            x=same_scale(x, "published"),
            y=y,
        ),
    ]
    return make_chart(title, "", places.plot, height, drawn, width - 12)


def _make_row(pair: FigurePair) -> Row:
    low, high = pair.interval or (None, None)
    return {
        "colour": pair.colour,
        "measured": pair.measured,
        "low": low,
        "high": high,
        "published": pair.published,
        "tip": join_tip(
            pair.about or pair.label,
            "" if pair.label == pair.about else pair.label,
            pair.figure,
            "" if pair.published is None else f"published {pair.published:.4g} ×",
        ),
    }
