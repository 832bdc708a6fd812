"""What CPUs did over time: the share of each state in each interval, stacked; what is blank was idle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearmetal.report import palette
from nearmetal.report.charts.grammar import HALF, Spec, make_chart, make_field, make_layer
from nearmetal.report.charts.tooltips import join_tip

STATES: Mapping[str, tuple[str, ...]] = {
    "user": ("usr", "nice"),
    "kernel": ("sys",),
    "irq": ("irq", "soft"),
    "guests": ("guest", "gnice"),
    "iowait": ("iowait",),
    "steal": ("steal",),
}
"""What is drawn, from the bottom up, and the kernel's states that it is the sum of."""

_COLOURS = ("#4a6fc9", "#c2517f", "#7c9a2f", "#2f9c95", "#dd9a25", palette.MUTED)
"""None is an environment's; all are legible on light and dark."""


@dataclass(frozen=True)
class Interval:
    """Shares of each state of `STATES`, in percent, from one second to another."""

    begin: float
    end: float
    shares: Mapping[str, float]


def draw_shares(title: str, subtitle: str, intervals: Sequence[Interval], until: float, about: str = "") -> Spec:
    """One picture of the treatment that is named `about`. `until` is the last second shown: pictures have one axis."""
    rows = []
    for interval in intervals:
        top = 0.0
        for state in STATES:
            bottom, top = top, top + interval.shares[state]
            if top > bottom:
                when = f"{interval.begin:.3g} to {interval.end:.3g} s"
                tip = join_tip(about or title, when, f"{state} {top - bottom:.3g} %")
                rows.append(
                    {
                        "from": interval.begin,
                        "to": interval.end,
                        "low": bottom,
                        "top": top,
                        "state": state,
                        "tip": tip,
                    }
                )
    x = make_field(
        "from",
        title="seconds from the beginning of the measuring",
        axis={"grid": False, "format": "~r", "tickCount": 6},
        scale={"domain": [0, until], "nice": False},
    )
    y = make_field(
        "low",
        title="% of the CPUs",
        axis={"values": [0, 25, 50, 75, 100], "format": "d"},
        scale={"domain": [0, 100], "nice": False},
    )
    colour = make_field(
        "state",
        "nominal",
        scale={"domain": list(STATES), "range": list(_COLOURS)},
        legend={
            "orient": "bottom",
            "title": None,
            "columns": len(STATES),
            "columnPadding": 7,
            "symbolType": "square",
            "symbolSize": 70,
            "offset": 4,
        },
    )
    bars = make_layer(
        rows, {"type": "rect", "clip": True}, x=x, x2={"field": "to"}, y=y, y2={"field": "top"}, color=colour
    )
    frame = make_layer(
        [{"from": 0, "low": 0}, {"from": until, "low": 0}], {"type": "line", "color": palette.LINE}, x=x, y=y
    )
    return make_chart(title, subtitle, HALF - 62, 120, [frame, bars])
