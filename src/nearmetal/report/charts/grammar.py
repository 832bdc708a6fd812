"""What all pictures share: the look, and the few shapes of the grammar that they are put together from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from nearmetal.report import palette

Spec = dict[str, Any]

WIDE = 860
NARROW = 328
"""Widths in px that the page has for a picture: a desktop's column, and a phone's screen less its margins."""

HALF = 415
"""Width of a picture that stands beside another on a desktop, and is legible when a phone shrinks it."""

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


def chart(title: str, subtitle: str, width: int, height: int, layers: Sequence[Spec]) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {"text": title, "limit": NARROW, **({"subtitle": subtitle} if subtitle else {})},
        "width": width,
        "height": height,
        "padding": 6,
        "config": _CONFIG,
        "layer": [layer for layer in layers if layer["data"]["values"]],
    }


def layer(rows: Iterable[Mapping[str, Any]], mark: Spec, **encoding: Spec) -> Spec:
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": encoding}


def field(name: str, kind: Literal["quantitative", "nominal"] = "quantitative", **more: Any) -> Spec:
    return {"field": name, "type": kind, **more}


def own_colour() -> Spec:
    """The colour that each row of the data carries."""
    return {"field": "colour", "type": "nominal", "scale": None, "legend": None}


def same_scale(encoding: Spec, name: str) -> Spec:
    return {**encoding, "field": name}


def room(texts: Iterable[str]) -> int:
    """Pixels that the longest text needs beside a plot, within reason: longer ones are cut."""
    return min(260, 20 + 7 * max(map(len, texts), default=0))
