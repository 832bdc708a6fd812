"""Contrasts as a forest: estimates on their intervals, against the reference."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nearmetal.report import palette
from nearmetal.report.charts.axes import Axis
from nearmetal.report.charts.grammar import Spec, lie_along, make_chart, make_field, make_layer, own_colour, same_scale
from nearmetal.report.charts.labelled_rows import Row, Rows, draw_grid, draw_headings, place_heading
from nearmetal.report.charts.text_width import measure_text
from nearmetal.report.charts.tooltips import join_tip

_MOST = sys.float_info.max
"""A specification has no word for what is infinite; whatever it is, it lies beyond the axis."""


@dataclass(frozen=True)
class ForestRow:
    """One row of a forest: an estimate, its interval, and what is written beside it."""

    label: str
    figure: str
    colour: str
    estimate: float
    low: float | None = None
    high: float | None = None
    verdict: str = ""
    margin: tuple[float, float] | None = None
    """Its own, where the axis has none that all rows share."""
    values: tuple[float, ...] = ()
    """Of each block, in their order."""
    about: str = ""
    """The treatment's name, if the label is another."""
    tip: str = ""
    """What the row says besides, and `tips` each of its values."""
    tips: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """Rows of a forest under one heading. `better` is None where a heading above, perhaps without rows, has said it."""

    heading: str
    better: Literal["higher", "lower"] | None
    arms: tuple[ForestRow, ...]


@dataclass(frozen=True)
class _Layout:
    """What is drawn, as data, from top to bottom."""

    places: Rows
    heads: list[Row]
    rows: list[Row]
    tracks: list[Row]
    """The stretches, from `top` to `bottom`, that the reference crosses: those of rows, and not of headings."""
    bands: list[Row]
    """Margins."""
    dots: list[Row]
    """Each block of each row, later ones higher up; those beyond the axis stand at its end."""
    height: int


def draw_forest(title: str, groups: Sequence[Group], axis: Axis, width: int) -> Spec:
    """Estimates as points on their intervals, the reference as a line, the margin as a band behind all or each of them.

    A filled point was told from the reference, a diamond lies within the margin, any other is hollow. A row that has
    values shows each as a dot below its estimate.
    """
    beside = width >= 600
    drawn = _laid_out(groups, axis, width, beside=beside)
    places, rows, height = drawn.places, drawn.rows, drawn.height
    x = lie_along(axis, "estimate")
    y = make_field("y", scale={"domain": [0, height], "range": [0, height], "nice": False, "zero": False}, axis=None)
    along_the_track = {"y": same_scale(y, "top"), "y2": {"field": "bottom"}}
    from_low_to_high = {"x": same_scale(x, "low"), "x2": {"field": "high"}}
    reference: Spec = {"type": "rule", "color": palette.MUTED, "strokeWidth": 1.5, "strokeDash": [4, 3]}
    interval: Spec = {"type": "rule", "strokeWidth": 4, "strokeCap": "round", "strokeOpacity": 0.55}
    dot: Spec = {"type": "point", "filled": True, "size": 16, "fillOpacity": 0.6}
    layers = [
        *([draw_grid(drawn.tracks, axis.ticks, x, y)] if beside else []),
        make_layer(drawn.bands, {"type": "rect", "color": palette.BAND}, **from_low_to_high, **along_the_track),
        make_layer(
            [{**track, "estimate": axis.reference} for track in drawn.tracks], reference, x=x, **along_the_track
        ),
        make_layer(
            drawn.heads,
            {"type": "text", "align": "right", "color": palette.MUTED},
            x={"value": places.plot + places.right},
            y=same_scale(y, "heading_y"),
            text=make_field("better", "nominal"),
        ),
        draw_headings(drawn.heads, -places.left, y),
        *places.draw_names(rows, y),
        make_layer(drawn.dots, dot, x=x, y=y, color=own_colour()),
        make_layer(
            [row for row in rows if row["low"] is not None], interval, **from_low_to_high, y=y, color=own_colour()
        ),
        *_draw_points(rows, x, y),
        *_draw_beyond(rows, axis, x, y),
    ]
    return make_chart(title, "", places.plot, height, layers, width - 12)


def _laid_out(groups: Sequence[Group], axis: Axis, width: int, *, beside: bool) -> _Layout:
    """Headings and rows below each other; a picture that has names and figures above its rows is taller for it."""
    places = Rows.from_names(
        [(arm.label, arm.figure) for group in groups for arm in group.arms], width - 12, beside=beside
    )
    strip = _STRIP if any(arm.values for group in groups for arm in group.arms) else 0.0
    pitch = (27.0 if beside else 46.0) + strip
    heads: list[Row] = []
    rows: list[Row] = []
    tracks: list[Row] = []
    bands: list[Row] = []
    dots: list[Row] = []
    y = 0.0
    for group in groups:
        y += 12 if heads else 8
        better = _show_direction(group, beside)
        head, more = place_heading(group.heading, width - 24 - measure_text(better), y)
        heads.append({**head, "better": better})
        y += more
        if not group.arms:
            y += 14
            continue
        y += 26 if beside else 41
        top = y - 12
        for arm in group.arms:
            place, more = places.place_row(arm.label, arm.figure, y)
            rows.append({**_place_arm(arm, axis), **place})
            bands += _own_band(arm, place["y"], axis, strip)
            dots += _place_dots(arm, place["y"] + _STRIP, axis)
            if not beside:
                tracks.append({"top": place["y"] - 9, "bottom": place["y"] + 9 + strip})
            y += pitch + more
        if beside:
            tracks.append({"top": top, "bottom": y - pitch + 12 + strip})
    if axis.band:
        low, high = axis.band
        bands = [*({**track, "low": low, "high": high} for track in tracks), *bands]
    return _Layout(places, heads, rows, tracks, bands, dots, int(y - pitch + 22 + strip))


def _show_direction(group: Group, beside: bool) -> str:
    if group.better is None:
        return ""
    if beside:
        return f"{group.better} is better"
    return "↑ better" if group.better == "higher" else "↓ better"


_STRIP = 15.0
"""Pixels below an estimate for the dots of its blocks."""


def _place_dots(arm: ForestRow, y: float, axis: Axis) -> list[Row]:
    least, most = axis.domain
    climb = [4 - 8 * place / max(1, len(arm.values) - 1) for place in range(len(arm.values))]
    tips = arm.tips or ("",) * len(arm.values)
    return [
        {
            "colour": arm.colour,
            "y": y + up,
            "estimate": min(max(value, least), most),
            "tip": join_tip(arm.about or arm.label, tip),
        }
        for up, value, tip in zip(climb, arm.values, tips, strict=True)
    ]


def _own_band(arm: ForestRow, y: float, axis: Axis, strip: float) -> list[Row]:
    """The margin of a row that has its own, as far as the axis goes; apart from its neighbours', which are others."""
    if arm.margin is None:
        return []
    (least, most), (low, high) = axis.domain, arm.margin
    return [{"top": y - 10, "bottom": y + 10 + strip, "low": max(low, least), "high": min(high, most)}]


def _place_arm(arm: ForestRow, axis: Axis) -> Row:
    """A row as data, cut where it leaves the axis."""
    least, most = axis.domain
    estimate = min(max(arm.estimate, -_MOST), _MOST)
    tip = join_tip(arm.about or arm.label, arm.tip)
    row: Row = {"colour": arm.colour, "estimate": estimate, "verdict": arm.verdict, "tip": tip}
    if arm.low is None or arm.high is None or arm.high < least or arm.low > most:
        return {**row, "low": None, "high": None, "cut": ()}
    cut = tuple(side for side, is_cut in (("left", arm.low < least), ("right", arm.high > most)) if is_cut)
    return {**row, "low": max(arm.low, least), "high": min(arm.high, most), "cut": cut}


def _draw_points(rows: Sequence[Mapping[str, Any]], x: Spec, y: Spec) -> Iterable[Spec]:
    undecided: Spec = {"shape": "circle", "filled": False, "size": 80, "strokeWidth": 2, "fill": palette.PAPER}
    shapes: Mapping[str, Spec] = {
        "different": {"shape": "circle", "filled": True, "size": 90},
        "equivalent": {"shape": "diamond", "filled": True, "size": 110},
    }
    least, most = x["scale"]["domain"]
    inside = [row for row in rows if least <= row["estimate"] <= most]
    for verdict, look in (*shapes.items(), ("", undecided)):
        chosen = [row for row in inside if (row["verdict"] if row["verdict"] in shapes else "") == verdict]
        yield make_layer(chosen, {"type": "point", **look}, x=x, y=y, color=own_colour())


def _draw_beyond(rows: Sequence[Mapping[str, Any]], axis: Axis, x: Spec, y: Spec) -> Iterable[Spec]:
    """Arrows for points outside a close-up, and smaller ones where no more than an interval goes on beyond it."""
    least, most = axis.domain
    for side, end, outside in (
        ("left", least, [row["estimate"] < least for row in rows]),
        ("right", most, [row["estimate"] > most for row in rows]),
    ):
        points = [row for row, is_outside in zip(rows, outside, strict=True) if is_outside]
        ends = [row for row, is_outside in zip(rows, outside, strict=True) if side in row["cut"] and not is_outside]
        for chosen, size in ((points, 90), (ends, 45)):
            yield make_layer(
                [{**row, "estimate": end} for row in chosen],
                {"type": "point", "shape": f"triangle-{side}", "filled": True, "size": size},
                x=x,
                y=y,
                color=own_colour(),
            )
