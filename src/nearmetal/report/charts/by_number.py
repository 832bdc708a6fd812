"""Values against a small number of things, such as clients: one line a group, each point with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearmetal.report import figures, palette
from nearmetal.report.charts.grammar import HALF, Spec, chart, field, layer, own_colour, same_scale

_APART = 0.07
"""How far groups stand beside each other at one number, in numbers: so that no interval hides another."""


@dataclass(frozen=True)
class Point:
    """A group's value at one number, and the interval where there is one; in the unit of the response."""

    number: int
    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Course:
    """One group over the numbers. `dashed` tells two kinds of groups apart without a colour."""

    label: str
    colour: str
    dashed: bool
    points: tuple[Point, ...]


def by_number(title: str, subtitle: str, x_title: str, unit: str, courses: Sequence[Course]) -> Spec:
    """Lines from 0 up, so that heights can be compared as well as slopes; the name of each at its last point."""
    values = [end for course in courses for point in course.points for end in (point.value, *(point.interval or ()))]
    divisor, unit_name = figures.axis(unit, values)
    rows = []
    for place, course in enumerate(courses):
        aside = (place - (len(courses) - 1) / 2) * _APART
        for point in course.points:
            low, high = point.interval or (point.value, point.value)
            rows.append(
                {
                    "x": point.number + aside,
                    "y": point.value / divisor,
                    "low": low / divisor,
                    "high": high / divisor,
                    "label": course.label,
                    "colour": course.colour,
                    "dash": course.dashed,
                    "course": place,
                }
            )
    numbers = sorted({point.number for course in courses for point in course.points})
    x = field(
        "x",
        title=x_title,
        axis={"values": numbers, "grid": False, "format": "d"},
        scale={"domain": [numbers[0] - 0.4, numbers[-1] + 0.4], "nice": False, "zero": False},
    )
    y = field("y", title=unit_name, axis={"tickCount": 5, "format": "~r"}, scale={"zero": True, "nice": True})
    names = list(dict.fromkeys((course.label, course.colour, course.dashed) for course in courses))
    labels = [name for name, _, _ in names]
    legend: Spec = field(
        "label",
        "nominal",
        scale={"domain": labels, "range": [colour for _, colour, _ in names]},
        legend={"orient": "bottom", "title": None, "columns": 2, "symbolType": "stroke", "symbolStrokeWidth": 3},
    )
    dash: Spec = field(
        "label",
        "nominal",
        scale={"domain": labels, "range": [[5, 4] if dashed else [1, 0] for _, _, dashed in names]},
    )
    drawn = [
        layer(
            rows,
            {"type": "line", "strokeWidth": 1.8, "strokeOpacity": 0.85},
            x=x,
            y=y,
            color=legend,
            detail=field("course"),
            strokeDash=dash,
        ),
        layer(
            [row for row in rows if row["low"] != row["high"]],
            {"type": "rule", "strokeWidth": 3, "strokeCap": "round", "strokeOpacity": 0.5},
            x=x,
            y=same_scale(y, "low"),
            y2={"field": "high"},
            color=own_colour(),
        ),
        layer(
            [row for row in rows if not row["dash"]],
            {"type": "point", "size": 46, "filled": True},
            x=x,
            y=y,
            color=own_colour(),
        ),
        layer(
            [row for row in rows if row["dash"]],
            {"type": "point", "size": 46, "strokeWidth": 1.8, "filled": False, "fill": palette.PAPER},
            x=x,
            y=y,
            color=own_colour(),
        ),
    ]
    return chart(title, subtitle, HALF - 62, 190, drawn)
