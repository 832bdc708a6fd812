"""A ramp: what went out, what came back and what failed at each offered rate, and where the server was saturated."""

from collections.abc import Sequence
from dataclasses import dataclass

from nearmetal.report import palette
from nearmetal.report.charts.grammar import HALF, Spec, chart, field, layer, legend

_PLOT = HALF - 62

_MOST_POINTS = 40
"""More rates than this are drawn as lines without dots."""


@dataclass(frozen=True)
class Rates:
    """Per second and client."""

    offered: float
    requests: float
    replies: float
    errors: float


def climb(title: str, subtitle: str, rates: Sequence[Rates], colour: str, saturation: float | None) -> Spec:
    """Three lines over the offered rate; a vertical stroke at the saturation point where there is one."""
    series = (("requests", palette.MUTED), ("replies", colour), ("errors", palette.INK))
    rows = [{"x": rate.offered, "y": getattr(rate, name), "what": name} for name, _ in series for rate in rates]
    most = max(rate.offered for rate in rates)
    x = field(
        "x",
        title="offered to each client, per second",
        axis={"grid": False, "format": "~r", "tickCount": 6},
        scale={"domain": [0, most * 1.03], "nice": False},
    )
    y = field("y", title="per second and client", axis={"tickCount": 5, "format": "~r"}, scale={"zero": True})
    names = [name for name, _ in series]
    look: Spec = field(
        "what",
        "nominal",
        scale={"domain": names, "range": [shade for _, shade in series]},
        legend=legend(names, _PLOT, symbolType="stroke", symbolStrokeWidth=3),
    )
    dash: Spec = field("what", "nominal", scale={"domain": names, "range": [[2, 2], [1, 0], [6, 3]]}, legend=None)
    point: bool | Spec = {"size": 22, "filled": True} if len(rates) <= _MOST_POINTS else False
    edge = [] if saturation is None else [{"x": saturation, "name": "saturation"}]
    drawn = [
        layer(edge, {"type": "rule", "color": palette.MUTED, "strokeWidth": 7, "strokeOpacity": 0.3}, x=x),
        layer(rows, {"type": "line", "strokeWidth": 2, "point": point}, x=x, y=y, color=look, strokeDash=dash),
        layer(
            edge,
            {"type": "text", "align": "right" if (saturation or 0) > most / 2 else "left", "color": palette.MUTED},
            x=x,
            y={"value": -9},
            text=field("name", "nominal"),
        ),
    ]
    return chart(title, subtitle, _PLOT, 190, drawn)
