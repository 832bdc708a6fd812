"""Rows with a name and a figure each: beside the plot where a picture is wide, else above each row. None is cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearmetal.report import palette
from nearmetal.report.charts.grammar import Spec, make_field, make_layer, same_scale
from nearmetal.report.charts.text_width import BREAK, LINE, measure_text, wrap_text

_MOST = 260
"""Pixels for names beside a plot; longer ones have several lines."""
_GAP = 14
_ABOVE = 21
"""From the middle of a row up to what stands above it."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """Pixels for names at the left, the plot, and figures at the right; `left` is 0 if names stand above rows."""

    left: int
    plot: int
    right: int

    @classmethod
    def from_names(cls, named: Iterable[tuple[str, str]], width: int, *, beside: bool) -> Rows:
        """For rows of these names and figures in so many pixels."""
        if not beside:
            return cls(0, width, 0)
        widths = [(measure_text(label), measure_text(figure)) for label, figure in named]
        left = _GAP + round(min(_MOST, max((label for label, _ in widths), default=0)))
        right = _GAP + round(max((figure for _, figure in widths), default=0))
        return cls(left, width - left - right, right)

    def place_row(self, label: str, figure: str, y: float) -> tuple[Row, float]:
        """A row as data, and how much taller it is than one whose name is short and whose middle is at `y`."""
        if self.left:
            lines = wrap_text(label, self.left - _GAP + 1)
            more = LINE * (len(lines) - 1)
            middle, rise = y + more / 2, 0
        else:
            lines = wrap_text(label, self.plot)
            fits = measure_text(lines[-1]) + _GAP + measure_text(figure) <= self.plot
            more = LINE * (len(lines) - fits)
            middle, rise = y + more, _ABOVE
        named = {"label": BREAK.join(lines), "label_y": y - rise, "figure": figure, "figure_y": middle - rise}
        return {"y": middle, **named}, more

    def draw_names(self, rows: Sequence[Row], y: Spec) -> tuple[Spec, Spec]:
        """Names and figures as layers. `y` is the vertical encoding."""
        end = self.plot + self.right
        return (
            _draw_text(rows, "label", -self.left, y, align="left", color=palette.INK),
            _draw_text(rows, "figure", end, y, align="right", color=palette.MUTED),
        )


def place_heading(text: str, room: float, y: float) -> tuple[Row, float]:
    """A heading over rows as data, its first line at `y`; and how much taller it is than one line."""
    lines = wrap_text(text, room, bold=True)
    return {"heading": BREAK.join(lines), "heading_y": y}, LINE * (len(lines) - 1)


def draw_headings(rows: Sequence[Row], x: float, y: Spec) -> Spec:
    return _draw_text(rows, "heading", x, y, align="left", fontWeight="bold", color=palette.INK)


def draw_grid(tracks: Iterable[Mapping[str, Any]], ticks: Sequence[float], x: Spec, y: Spec) -> Spec:
    """Lines at the ticks, behind rows and not behind headings. A track has its `top` and its `bottom`."""
    lines = [{**track, x["field"]: tick} for track in tracks for tick in ticks]
    look: Spec = {"type": "rule", "color": palette.LINE}
    return make_layer(lines, look, x=x, y=same_scale(y, "top"), y2={"field": "bottom"})


def _draw_text(rows: Sequence[Row], name: str, x: float, y: Spec, **look: str) -> Spec:
    mark = {"type": "text", "lineBreak": BREAK, "lineHeight": LINE, **look}
    return make_layer(rows, mark, x={"value": x}, y=same_scale(y, f"{name}_y"), text=make_field(name, "nominal"))
