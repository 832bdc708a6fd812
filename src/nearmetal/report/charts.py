"""The report's pictures as Vega-Lite 6 specifications: plain data, drawn by `drawing.py`.

Written as the grammar itself rather than with a builder library, whose import alone would take a sixth of the time a
report may take. Labels and figures arrive as data, never as part of an expression, so a name in a study cannot become
code. Rows are numbered and their names drawn as text above or beside them, which keeps a picture readable in 328 px.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nearmetal.report import figures, palette

Spec = dict[str, Any]

WIDE = 860
NARROW = 328
"""Widths in px that the page has for a picture: a desktop's column, and a phone's screen less its margins."""

HALF = 415
"""Width of a picture that stands beside another on a desktop, and is legible when a phone shrinks it."""

_DRAWN_ONE_BY_ONE = 60
"""More values than this in one strip cannot be told apart: quartiles and 5 to 95 % are drawn instead."""

_BINS = 80
"""More blocks than this in a line cannot be told apart at 328 px: medians of neighbours are drawn instead."""

_ROOMY = 12
"""With more strips than this, names stand beside them instead of above: less pretty, half as tall."""

_POINTS = 1200
"""More points than this in one picture of lines are thinned further: the more lines, the less of each can be seen."""

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
        "labelFontSize": 12.5,
        "titleFontSize": 12.5,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelPadding": 4,
    },
    "title": {
        "anchor": "start",
        "color": palette.INK,
        "fontSize": 15,
        "subtitleFontSize": 12.5,
        "subtitleColor": palette.MUTED,
        "offset": 10,
    },
    "text": {"color": palette.INK, "fontSize": 13},
    "point": {"opacity": 1},
    "legend": {"labelColor": palette.INK, "labelFontSize": 12.5, "symbolType": "circle", "labelLimit": 280},
}


def _chart(title: str, subtitle: str, width: int, height: int, layers: Sequence[Spec]) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {"text": title, "limit": NARROW, **({"subtitle": subtitle} if subtitle else {})},
        "width": width,
        "height": height,
        "padding": 6,
        "config": _CONFIG,
        "layer": [layer for layer in layers if layer["data"]["values"]],
    }


def _layer(rows: Iterable[Mapping[str, Any]], mark: Spec, **encoding: Spec) -> Spec:
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": encoding}


def _field(name: str, kind: Literal["quantitative", "nominal"] = "quantitative", **more: Any) -> Spec:
    return {"field": name, "type": kind, **more}


def _own_colour() -> Spec:
    """The colour that each row of the data carries."""
    return {"field": "colour", "type": "nominal", "scale": None, "legend": None}


# ── Contrasts: estimates with intervals, as a forest ──────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Arm:
    """One row of a forest: an estimate, its interval, and what is written beside it."""

    label: str
    figure: str
    colour: str
    estimate: float
    low: float | None = None
    high: float | None = None
    verdict: str = ""


@dataclass(frozen=True)
class Group:
    """Rows of a forest under one heading."""

    heading: str
    better: Literal["higher", "lower"]
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class Axis:
    """Where the values of a forest lie."""

    title: str
    reference: float
    domain: tuple[float, float]
    ticks: tuple[float, ...]
    labels: str
    """How a tick is written: a Vega expression of `datum.value`, ours, never a study's."""
    scale: Literal["log", "linear"]
    band: tuple[float, float] | None = None


_NICE = tuple(float(f"{digit}e{power}") for power in range(-9, 10) for digit in (1, 2, 5))


def ratio_axis(ends: Iterable[float], margin: float | None) -> Axis:
    """A logarithmic axis of ratios that shows every end, 1, and the margin around it."""
    band = None if margin is None else (1 / (1 + margin), 1 + margin)
    positive = [end for end in ends if end > 0 and math.isfinite(end)]
    low, high = min([*positive, *(band or (1.0,)), 0.98]), max([*positive, *(band or (1.0,)), 1.02])
    room = (high / low) ** 0.05
    low, high = low / room, high * room
    if high / low > 3:
        ticks = [tick for tick in _NICE if low <= tick <= high]
    else:
        step = next(step for step in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if (high - low) / step <= 7)
        ticks = [round(index * step, 4) for index in range(math.ceil(low / step), math.floor(high / step) + 1)]
    thinned = ticks[:: math.ceil(len(ticks) / 9)]
    if 1.0 not in thinned:
        thinned = sorted({*thinned, 1.0})
    return Axis(
        title="times the reference (log scale)",
        reference=1.0,
        domain=(low, high),
        ticks=tuple(thinned),
        labels="format(datum.value, '~r') + ' ×'" if high / low > 3 else "format(datum.value, '.3~f') + ' ×'",
        scale="log",
        band=band,
    )


def difference_axis(ends: Iterable[float], unit: str) -> tuple[Axis, float]:
    """A linear axis of differences around 0, and what the values must be divided by to stand on it."""
    finite = [end for end in ends if math.isfinite(end)]
    divisor, name = figures.axis(unit, finite)
    low, high, ticks = _linear_ticks([0.0, *(end / divisor for end in finite)])
    title = "difference from the reference in " + ("percentage points" if unit == "share" else name)
    return Axis(title, 0.0, (low, high), tuple(ticks), "format(datum.value, '~g')", "linear"), divisor


def forest(title: str, groups: Sequence[Group], axis: Axis, width: int) -> Spec:
    """Estimates as points on their intervals, the reference as a line, the margin as a band behind them.

    A filled point was told from the reference, a diamond lies within the margin, a hollow one is undecided.
    """
    beside = width >= 600
    pitch = 27.0 if beside else 46.0
    rows: list[dict[str, Any]] = []
    headings: list[dict[str, Any]] = []
    tracks: list[dict[str, Any]] = []
    y = 0.0
    for group in groups:
        y += 12 if headings else 8
        arrow = "↑ better" if group.better == "higher" else "↓ better"
        headings.append({"y": y, "text": group.heading, "better": f"{group.better} is better" if beside else arrow})
        y += 26 if beside else 38
        first = y
        for arm in group.arms:
            rows.append(_arm(arm, y, axis))
            y += pitch
        if beside:
            tracks.append({"top": first - 12, "bottom": y - pitch + 12})
        else:
            tracks += [{"top": row["y"] - 9, "bottom": row["y"] + 9} for row in rows[-len(group.arms) :]]
    height = int(y - pitch + 22)
    left, right = (_room(row["label"] for row in rows), _room(row["figure"] for row in rows)) if beside else (0, 0)
    plot = width - 12 - left - right
    x = _field(
        "estimate",
        title=axis.title,
        scale={"type": axis.scale, "domain": list(axis.domain), "nice": False, "zero": False},
        axis={"values": list(axis.ticks), "labelExpr": axis.labels, "labelFlush": True, "grid": beside},
    )
    y_of = _field("y", scale={"domain": [0, height], "range": [0, height], "nice": False, "zero": False}, axis=None)
    at_left = {"value": -left if beside else 0}
    at_right = {"value": plot + right if beside else plot}
    rise = 0 if beside else -16
    with_interval = [row for row in rows if row["low"] is not None]
    from_top_to_bottom = {"y": _same_scale(y_of, "top"), "y2": {"field": "bottom"}}
    layers = [
        _layer(
            [{**track, "low": axis.band[0], "high": axis.band[1]} for track in tracks if axis.band],
            {"type": "rect", "color": palette.BAND},
            x=_same_scale(x, "low"),
            x2={"field": "high"},
            **from_top_to_bottom,
        ),
        _layer(
            [{**track, "estimate": axis.reference} for track in tracks],
            {"type": "rule", "color": palette.MUTED, "strokeWidth": 1.5, "strokeDash": [4, 3]},
            x=x,
            **from_top_to_bottom,
        ),
        _layer(
            headings,
            {"type": "text", "align": "right", "color": palette.MUTED},
            x=at_right,
            y=y_of,
            text=_field("better", "nominal"),
        ),
        _layer(
            headings,
            {"type": "text", "align": "left", "fontWeight": "bold", "fontSize": 13, "color": palette.INK},
            x=at_left,
            y=y_of,
            text=_field("text", "nominal"),
        ),
        _layer(
            rows,
            {"type": "text", "align": "left", "dy": rise, "color": palette.INK, "limit": left - 14 if beside else 150},
            x=at_left,
            y=y_of,
            text=_field("label", "nominal"),
        ),
        _layer(
            rows,
            {"type": "text", "align": "right", "dy": rise, "color": palette.MUTED},
            x=at_right,
            y=y_of,
            text=_field("figure", "nominal"),
        ),
        _layer(
            with_interval,
            {"type": "rule", "strokeWidth": 4, "strokeCap": "round", "strokeOpacity": 0.55},
            x=_same_scale(x, "low"),
            x2={"field": "high"},
            y=y_of,
            color=_own_colour(),
        ),
        *_points(rows, x, y_of),
        *_beyond(rows, axis, x, y_of),
    ]
    return _chart(title, "", plot, height, layers)


def _room(texts: Iterable[str]) -> int:
    """Pixels that the longest text needs beside a plot, within reason: longer ones are cut."""
    return min(260, 20 + 7 * max(map(len, texts), default=0))


def _same_scale(encoding: Spec, name: str) -> Spec:
    return {**encoding, "field": name}


def _arm(arm: Arm, y: float, axis: Axis) -> dict[str, Any]:
    """A row as data, cut where it leaves the axis."""
    least, most = axis.domain
    inside = arm.low is not None and arm.high is not None and arm.high >= least and arm.low <= most
    return {
        "y": y,
        "label": arm.label,
        "figure": arm.figure,
        "colour": arm.colour,
        "estimate": arm.estimate,
        "low": max(arm.low, least) if inside and arm.low is not None else None,
        "high": min(arm.high, most) if inside and arm.high is not None else None,
        "verdict": arm.verdict,
    }


def _points(rows: Sequence[Mapping[str, Any]], x: Spec, y: Spec) -> Iterable[Spec]:
    shapes: tuple[tuple[str, Spec], ...] = (
        ("different", {"shape": "circle", "filled": True, "size": 90}),
        ("equivalent", {"shape": "diamond", "filled": True, "size": 110}),
        ("undecided", {"shape": "circle", "filled": False, "size": 80, "strokeWidth": 2, "fill": palette.PAPER}),
    )
    (least, most) = x["scale"]["domain"]
    for verdict, look in shapes:
        chosen = [row for row in rows if row["verdict"] == verdict and least <= row["estimate"] <= most]
        yield _layer(chosen, {"type": "point", **look}, x=x, y=y, color=_own_colour())


def _beyond(rows: Sequence[Mapping[str, Any]], axis: Axis, x: Spec, y: Spec) -> Iterable[Spec]:
    """Arrows for what lies outside a close-up."""
    least, most = axis.domain
    for shape, end, chosen in (
        ("triangle-left", least, [row for row in rows if row["estimate"] < least]),
        ("triangle-right", most, [row for row in rows if row["estimate"] > most]),
    ):
        yield _layer(
            [{**row, "estimate": end} for row in chosen],
            {"type": "point", "shape": shape, "filled": True, "size": 90},
            x=x,
            y=y,
            color=_own_colour(),
        )


# ── Values: strips with their medians ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Strip:
    """All values of one treatment, in the order of their blocks."""

    label: str
    figure: str
    colour: str
    values: tuple[float, ...]


def strips(title: str, subtitle: str, unit: str, groups: Sequence[Strip], width: int = HALF) -> Spec:
    """Every value as a dot and the median as a stroke, one row a treatment; quartiles where dots would overlap.

    Within a row, dots climb with the blocks, so that a drift shows as a slope. The axis is logarithmic where the
    values span more than a factor of four, and does not start at zero otherwise: dots are compared, not lengths.
    """
    beside = len(groups) > _ROOMY
    pitch, rise = (25.0, 0) if beside else (48.0, -18)
    left, right = (_room(g.label for g in groups), _room(g.figure for g in groups)) if beside else (0, 0)
    plot = width - 34 - left - right
    everything = [value for group in groups for value in group.values]
    divisor, unit_name = figures.axis(unit, everything)
    logarithmic = bool(everything) and min(everything) > 0 and max(everything) / min(everything) > 4
    names: list[dict[str, Any]] = []
    dots: list[dict[str, Any]] = []
    boxes: list[dict[str, Any]] = []
    for index, group in enumerate(groups):
        y = 30 + pitch * index
        values = np.asarray(group.values) / divisor
        names.append({"y": y + rise, "label": group.label, "figure": group.figure})
        common = {"colour": group.colour, "median": float(np.median(values))}
        if len(values) <= _DRAWN_ONE_BY_ONE:
            climb = np.linspace(7, -7, len(values)) if len(values) > 1 else np.zeros(1)
            dots += [{**common, "y": y + float(up), "value": float(v)} for up, v in zip(climb, values, strict=True)]
            boxes.append({**common, "y": y, "top": y - 11, "bottom": y + 11})
        else:
            low, first, third, high = (float(v) for v in np.quantile(values, (0.05, 0.25, 0.75, 0.95)))
            dots += [{**common, "y": y, "value": float(end)} for end in (values.min(), values.max())]
            spread = {"low": low, "first": first, "third": third, "high": high}
            boxes.append({**common, "y": y, "top": y - 11, "bottom": y + 11, **spread})
    height = int(30 + pitch * (len(groups) - 1) + 18)
    scaled = [value / divisor for value in everything]
    low, high, ticks = _log_ticks(scaled) if logarithmic else _linear_ticks(scaled)
    x = _field(
        "value",
        title=unit_name + (" (log scale)" if logarithmic else ""),
        scale={"type": "log" if logarithmic else "linear", "domain": [low, high], "nice": False, "zero": False},
        axis={
            "values": ticks,
            "labelOverlap": "greedy",
            "grid": False,
            "domain": False,
            "labelExpr": "format(datum.value, ',~r')",
        },
    )
    y_of = _field("y", scale={"domain": [0, height], "range": [0, height], "nice": False, "zero": False}, axis=None)
    summed_up = [box for box in boxes if "low" in box]
    layers = [
        _layer(
            boxes,
            {"type": "rect", "color": palette.TRACK, "cornerRadius": 3},
            x={"value": 0},
            x2={"value": plot},
            y=_same_scale(y_of, "top"),
            y2={"field": "bottom"},
        ),
        _layer(
            names,
            {"type": "text", "align": "left", "color": palette.INK, "limit": left - 8 if beside else 270},
            x={"value": -left},
            y=y_of,
            text=_field("label", "nominal"),
        ),
        _layer(
            names,
            {"type": "text", "align": "right", "color": palette.MUTED},
            x={"value": plot + right},
            y=y_of,
            text=_field("figure", "nominal"),
        ),
        *(
            _layer(
                summed_up,
                {"type": "rule", "strokeWidth": thickness, "strokeOpacity": 0.5},
                x=_same_scale(x, low),
                x2={"field": high},
                y=y_of,
                color=_own_colour(),
            )
            for low, high, thickness in (("low", "high", 3), ("first", "third", 10))
        ),
        _layer(
            dots,
            {"type": "point", "filled": True, "size": 34, "fillOpacity": 0.65},
            x=x,
            y=y_of,
            color=_own_colour(),
        ),
        _layer(
            boxes,
            {"type": "rule", "color": palette.INK, "strokeWidth": 2},
            x=_same_scale(x, "median"),
            y=_same_scale(y_of, "top"),
            y2={"field": "bottom"},
        ),
    ]
    return _chart(title, subtitle, plot, height, layers)


def _log_ticks(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """A domain around the values, and 1, 2, 5, 10, … within it: at most seven."""
    room = (max(values) / min(values)) ** 0.06
    low, high = min(values) / room, max(values) * room
    inside = [tick for tick in _NICE if low <= tick <= high]
    decades = [tick for tick in inside if math.isclose(math.log10(tick) % 1, 0, abs_tol=1e-9)]
    return low, high, inside if len(inside) <= 7 else decades[:: math.ceil(len(decades) / 7)]


def _linear_ticks(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """A domain around the values, and round numbers within it: at most six."""
    least, most = min(values, default=0.0), max(values, default=1.0)
    spread = most - least or abs(most) * 0.1 or 1.0
    low, high = least - 0.08 * spread, most + 0.08 * spread
    size = 10 ** math.floor(math.log10((high - low) / 3))
    step = next(step for step in (size, 2 * size, 5 * size, 10 * size) if (high - low) / step <= 6)
    first, last = math.ceil(low / step), math.floor(high / step)
    return low, high, [float(f"{index * step:.12g}") for index in range(first, last + 1)]


# ── Over time: what drifts ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Line:
    """Values of one treatment over blocks or positions, relative to its own median (0.01: 1 % above)."""

    label: str
    colour: str
    points: tuple[tuple[float, float], ...]


def thinned(points: Sequence[tuple[float, float]], bins: int) -> tuple[tuple[float, float], ...]:
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


def lines(title: str, subtitle: str, x_title: str, groups: Sequence[Line], width: int = HALF) -> Spec:
    """Lines around 0 %, one a treatment, with a legend by colour."""
    bins = max(12, min(_BINS, _POINTS // max(1, len(groups))))
    rows = [
        {"x": x, "y": 100 * y, "label": group.label, "colour": group.colour}
        for group in groups
        for x, y in thinned(group.points, bins)
    ]
    named = list(dict.fromkeys((group.label, group.colour) for group in groups))
    colour: Spec = _field(
        "label",
        "nominal",
        scale={"domain": [name for name, _ in named], "range": [colour for _, colour in named]},
        legend={"orient": "bottom", "title": None, "columns": 3} if len(named) <= 8 else None,
    )
    many = len({row["x"] for row in rows}) > 30 or len(groups) > 8
    x = _field(
        "x",
        title=x_title,
        axis={"tickMinStep": 1, "grid": False, "format": "d", "tickCount": 8},
        scale={"nice": False, "zero": False, "padding": 6},
    )
    y = _field(
        "y",
        title="% from its own median",
        axis={"tickCount": 5, "labelExpr": "datum.value ? format(datum.value, '+~g') : '0'"},
        scale={"zero": True, "nice": True},
    )
    layers = [
        _layer([{"y": 0}], {"type": "rule", "color": palette.MUTED, "strokeDash": [4, 3]}, y=y),
        _layer(
            rows,
            {
                "type": "line",
                "strokeWidth": 1.5,
                "strokeOpacity": 0.5 if many else 0.8,
                "point": False if many else {"size": 28, "filled": True},
            },
            x=x,
            y=y,
            color=colour,
        ),
    ]
    return _chart(title, subtitle, width - 62, 170, layers)
