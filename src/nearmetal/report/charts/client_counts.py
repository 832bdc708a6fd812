"""Values against a small number of things, such as clients: one line a group, each point with its interval.

Lines of one colour and dash differ in the shape of their points.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nearmetal.report import figures, palette
from nearmetal.report.charts import grammar
from nearmetal.report.charts.tooltips import join_tip

_APART, _SPREAD = 0.07, 0.7
"""How far groups stand beside each other at one number, in numbers, and all of them at most: so that no interval hides
another."""

_PLOT = grammar.HALF - 62


@dataclass(frozen=True)
class IntervalPoint:
    """A group's value at one number, and the interval where there is one; in the unit of the response."""

    number: int
    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class CourseLine:
    """One group over the numbers. `dashed` tells two kinds of groups apart without a colour."""

    label: str
    colour: str
    dashed: bool
    points: tuple[IntervalPoint, ...]
    about: str = ""
    """The treatment's name without the number, if the label has more."""


def draw_by_count(title: str, subtitle: str, x_title: str, unit: str, courses: Sequence[CourseLine]) -> grammar.Spec:
    """Lines from 0 up, so that heights can be compared as well as slopes; the name of each at its last point."""
    values = [end for course in courses for point in course.points for end in (point.value, *(point.interval or ()))]
    divisor, unit_name = figures.choose_axis(unit, values)
    apart = min(_APART, _SPREAD / len(courses))
    labels = [grammar.legend_label(course.label, _PLOT) for course in courses]
    rows = []
    for place, course in enumerate(courses):
        aside = (place - (len(courses) - 1) / 2) * apart
        for point in course.points:
            low, high = point.interval or (point.value, point.value)
            rows.append(
                {
                    "name": course.about or course.label,
                    "tip": join_tip(course.about or course.label, *_tell_point(point, x_title, unit)),
                    "x": point.number + aside,
                    "y": point.value / divisor,
                    "low": low / divisor,
                    "high": high / divisor,
                    "label": labels[place],
                    "colour": course.colour,
                    "dash": course.dashed,
                    "course": place,
                }
            )
    numbers = sorted({point.number for course in courses for point in course.points})
    x = grammar.make_field(
        "x",
        title=x_title,
        axis={"values": numbers, "grid": False, "format": "d"},
        scale={"domain": [numbers[0] - 0.4, numbers[-1] + 0.4], "nice": False, "zero": False},
    )
    scale: grammar.Spec = {"zero": True, "nice": True} if any(values) else {"domain": [0, 1]}
    y = grammar.make_field("y", title=unit_name, axis={"tickCount": 5, "format": "~r"}, scale=scale)
    drawn = [
        *(
            grammar.make_layer(
                [{**row, "tip": row["name"]} for row in rows if row["dash"] == dashed],
                {"type": "line", "strokeWidth": 1.8, "strokeOpacity": 0.85, "strokeDash": dash},
                x=x,
                y=y,
                color=grammar.own_colour(),
                detail=grammar.make_field("course"),
            )
            for dashed, dash in ((False, [1, 0]), (True, [5, 4]))
        ),
        grammar.make_layer(
            [row for row in rows if row["low"] != row["high"]],
            {"type": "rule", "strokeWidth": 3, "strokeCap": "round", "strokeOpacity": 0.5},
            x=x,
            y=grammar.same_scale(y, "low"),
            y2={"field": "high"},
            color=grammar.own_colour(),
        ),
        grammar.make_layer(
            rows, {"type": "point", "size": 46, "strokeWidth": 1.8}, x=x, y=y, **_style_points(courses, labels)
        ),
    ]
    return grammar.make_chart(title, subtitle, _PLOT, 190, drawn)


def _tell_point(point: IntervalPoint, x_title: str, unit: str) -> tuple[str, str]:
    """ "3 clients", "940 Mbit/s (930 Mbit/s to 950 Mbit/s)"."""
    value, *ends = (figures.format_quantity(one, unit) for one in (point.value, *(point.interval or ())))
    number = figures.format_count(point.number, x_title.removesuffix("s"))
    return number, f"{value} ({' to '.join(ends)})" if ends else value


def _style_points(courses: Sequence[CourseLine], labels: Sequence[str]) -> dict[str, grammar.Spec]:
    """How the points of each line look, and the legend that shows it."""
    places = grammar.places_among_alike((course.colour, course.dashed) for course in courses)
    looks: dict[str, list[str]] = {
        "fill": [palette.PAPER if course.dashed else course.colour for course in courses],
        "stroke": [course.colour for course in courses],
        "shape": [grammar.SHAPES[place % len(grammar.SHAPES)] for place in places],
    }
    return {
        channel: grammar.make_field(
            "label", "nominal", scale={"domain": labels, "range": look}, legend=grammar.make_legend(labels, _PLOT)
        )
        for channel, look in looks.items()
    }
