"""Ramps: what went out, what came back and what failed at each offered rate, of one ramp or of several side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from nearmetal.report import palette
from nearmetal.report.charts import grammar

_PLOT = grammar.HALF - 62

_MOST_POINTS = 40
"""More rates than this are drawn as lines without dots."""


@dataclass(frozen=True)
class Rates:
    """Per second and client."""

    offered: float
    requests: float
    replies: float
    errors: float


def draw_ramp(title: str, subtitle: str, rates: Sequence[Rates], colour: str, saturation: float | None) -> grammar.Spec:
    """Three lines over the offered rate; a vertical stroke at the saturation point where there is one."""
    series = (("requests", palette.MUTED), ("replies", colour), ("errors", palette.INK))
    rows = [{"x": rate.offered, "y": getattr(rate, name), "what": name} for name, _ in series for rate in rates]
    most = max(rate.offered for rate in rates)
    x, y = _make_axes(most)
    names = [name for name, _ in series]
    look: grammar.Spec = grammar.make_field(
        "what",
        "nominal",
        scale={"domain": names, "range": [shade for _, shade in series]},
        legend=grammar.make_legend(names, _PLOT, symbolType="stroke", symbolStrokeWidth=3),
    )
    dash: grammar.Spec = grammar.make_field(
        "what", "nominal", scale={"domain": names, "range": [[2, 2], [1, 0], [6, 3]]}, legend=None
    )
    point: bool | grammar.Spec = {"size": 22, "filled": True} if len(rates) <= _MOST_POINTS else False
    edge = [] if saturation is None else [{"x": saturation, "name": "saturation"}]
    drawn = [
        grammar.make_layer(edge, {"type": "rule", "color": palette.MUTED, "strokeWidth": 7, "strokeOpacity": 0.3}, x=x),
        grammar.make_layer(
            rows, {"type": "line", "strokeWidth": 2, "point": point}, x=x, y=y, color=look, strokeDash=dash
        ),
        grammar.make_layer(
            edge,
            {"type": "text", "align": "right" if (saturation or 0) > most / 2 else "left", "color": palette.MUTED},
            x=x,
            y={"value": -9},
            text=grammar.make_field("name", "nominal"),
        ),
    ]
    return grammar.make_chart(title, subtitle, _PLOT, 190, drawn)


@dataclass(frozen=True)
class RampLine:
    """One line over the offered rate."""

    label: str
    points: tuple[tuple[float, float], ...]
    """Offered rate and what came of it, per second and client."""


def draw_ramps(title: str, subtitle: str, found: Sequence[RampLine], colour: str) -> grammar.Spec:
    """Lines over the offered rate, from pale to dark in their order; each has points of its own shape."""
    names = [grammar.legend_label(one.label, _PLOT) for one in found]
    shades = [palette.mix_colour(colour, 0.35 + 0.65 * (place + 1) / len(found)) for place in range(len(found))]
    points = [point for one in found for point in one.points]
    rows = [
        {"x": offered, "y": came, "climb": name}
        for name, one in zip(names, found, strict=True)
        for offered, came in one.points
    ]
    x, y = _make_axes(max(offered for offered, _ in points))
    if not any(came for _, came in points):
        y["scale"] = {"domain": [0, 1]}
    has_points = max(len(one.points) for one in found) <= _MOST_POINTS
    look_of_line = {} if has_points else {"symbolType": "stroke", "symbolStrokeWidth": 3}

    def by_name(looks: Sequence[str]) -> grammar.Spec:
        shown = grammar.make_legend(names, _PLOT, **look_of_line)
        return grammar.make_field("climb", "nominal", scale={"domain": names, "range": looks}, legend=shown)

    look = {"x": x, "y": y, "color": by_name(shades)}
    shape = by_name([grammar.SHAPES[place % len(grammar.SHAPES)] for place in range(len(found))])
    drawn = [grammar.make_layer(rows, {"type": "line", "strokeWidth": 1.8}, **look)]
    if has_points:
        drawn.append(grammar.make_layer(rows, {"type": "point", "size": 26, "filled": True}, **look, shape=shape))
    return grammar.make_chart(title, subtitle, _PLOT, 190, drawn)


def _make_axes(most: float) -> tuple[grammar.Spec, grammar.Spec]:
    x = grammar.make_field(
        "x",
        title="offered to each client, per second",
        axis={"grid": False, "format": "~r", "tickCount": 6},
        scale={"domain": [0, most * 1.03], "nice": False},
    )
    return x, grammar.make_field(
        "y", title="per second and client", axis={"tickCount": 5, "format": "~r"}, scale={"zero": True}
    )
