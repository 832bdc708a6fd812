"""Requests over time: a bar for each, a row for each connection, with the phases that it went through."""

from collections.abc import Sequence
from dataclasses import dataclass

from nearmetal.report import figures, palette
from nearmetal.report.charts.grammar import WIDE, Spec, make_chart, make_field, make_layer
from nearmetal.report.charts.tooltips import join_tip

UNANSWERED = "unanswered"
"""Until the connection closed; where that was not seen, a mark: nothing tells how long it was waited for."""
PHASES = ("connecting", "sending", "waiting", "receiving", UNANSWERED)
_COLOURS = (palette.MUTED, "#dd9a25", "#4a6fc9", "#12936c", "#c2313a")
_ROW = 14
_ROOM, _LITTLE_ROOM = 90, 48
"""Of the width, what is left for the axis and the legend: on a desktop, and on a phone."""
_LEAST = 1.54
"""Pixels below which a phase could not be seen, and is drawn as wide as that."""


@dataclass(frozen=True)
class Bar:
    """A phase of a request, in seconds from the beginning; `row` is its connection's.

    One that took no time is not drawn, but for the mark of one that was not answered.
    """

    row: int
    phase: str
    begin: float
    end: float

    @property
    def is_drawn(self) -> bool:
        return self.end > self.begin or self.phase == UNANSWERED


def _tell_bar(bar: Bar) -> str:
    took, at = (figures.format_quantity(seconds, "s") for seconds in (bar.end - bar.begin, bar.begin))
    return join_tip(
        f"connection {bar.row + 1}", f"{bar.phase} {took}" if bar.end > bar.begin else bar.phase, f"from {at}"
    )


def draw_timeline(title: str, subtitle: str, bars: Sequence[Bar], width: int = WIDE) -> Spec:
    is_wide = width >= WIDE
    across = width - (_ROOM if is_wide else _LITTLE_ROOM)
    bars = [bar for bar in bars if bar.is_drawn]
    rows = max((bar.row for bar in bars), default=0) + 1
    divisor, unit = figures.choose_axis("s", [bar.end for bar in bars])
    until = max((bar.end for bar in bars), default=1.0) / divisor
    drawn = [
        {
            "from": bar.begin / divisor,
            "to": max(bar.end / divisor, bar.begin / divisor + _LEAST / across * until * (bar.phase != "connecting")),
            "top": bar.row + 0.15,
            "bottom": bar.row + 0.85,
            "phase": bar.phase,
            "tip": _tell_bar(bar),
        }
        for bar in bars
    ]
    x = make_field("from", title=f"{unit} from the first request", axis={"format": "~r"}, scale={"nice": False})
    y = make_field(
        "top",
        title="connection",
        scale={"domain": [rows, 0], "nice": False},
        axis={"tickMinStep": 1, "grid": False, "format": "d"},
    )
    drawn_phases = {bar.phase for bar in bars}
    seen = [(phase, colour) for phase, colour in zip(PHASES, _COLOURS, strict=True) if phase in drawn_phases]
    colour = make_field(
        "phase",
        "nominal",
        scale={"domain": [phase for phase, _ in seen], "range": [colour for _, colour in seen]},
        legend={
            "orient": "bottom",
            "title": None,
            "columns": len(PHASES) if is_wide else 3,
            "columnPadding": 32 if is_wide else 16,
            "symbolType": "square",
        },
    )
    mark: Spec = {"type": "rect", "clip": True}
    layers = [make_layer(drawn, mark, x=x, x2={"field": "to"}, y=y, y2={"field": "bottom"}, color=colour)]
    return make_chart(title, subtitle, across, min(900, max(120, rows * _ROW)), layers)
