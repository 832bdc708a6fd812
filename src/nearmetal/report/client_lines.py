"""Cells as lines over the number of clients: one a workload and treatment, along which only that number differs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nearmetal.analysis import single_arm
from nearmetal.analysis.results import Cell
from nearmetal.model import Assignment
from nearmetal.report import words
from nearmetal.report.charts.client_counts import CourseLine, IntervalPoint
from nearmetal.report.report_input import ReportInput


def make_courses(cells: Iterable[Cell], report: ReportInput) -> list[CourseLine]:
    """The lines, in the order of the cells. Where only a bound is known they have no point."""
    alpha = report.manifest.study.design.alpha
    points = (
        (cell, IntervalPoint(report.asked(cell.treatment).clients.count, centre.estimate, centre.interval))
        for cell in cells
        if not any(cell.censored)
        for centre in (single_arm.estimate_centre(cell, alpha),)
    )
    return draw_through(points, report)


def draw_through(found: Iterable[tuple[Cell, IntervalPoint]], report: ReportInput) -> list[CourseLine]:
    """A line through the points of each workload and treatment; dashed for UDP."""
    along: dict[tuple[str, str], list[tuple[Cell, IntervalPoint]]] = {}
    for cell, point in found:
        along.setdefault((cell.workload, label_without_clients(cell.treatment, report)), []).append((cell, point))
    several = len({workload for workload, _ in along}) > 1
    return [
        CourseLine(
            label=f"{name}, {words.strip_controls(workload)}" if several else name,
            colour=report.colour(members[0][0].treatment),
            about=name,
            dashed=find_protocol(members[0][0], report) == "udp",
            points=tuple(sorted((point for _, point in members), key=lambda point: point.number)),
        )
        for (workload, name), members in along.items()
    ]


def of_each(lines: Sequence[CourseLine]) -> list[CourseLine]:
    """Lines of sums over all clients as lines of one client's share."""
    return [replace(line, points=tuple(_divide_point(point) for point in line.points)) for line in lines]


def _divide_point(point: IntervalPoint) -> IntervalPoint:
    spread = None if point.interval is None else (point.interval[0] / point.number, point.interval[1] / point.number)
    return IntervalPoint(point.number, point.value / point.number, spread)


def label_without_clients(treatment: Assignment, report: ReportInput) -> str:
    """A treatment's name without its number of clients."""
    keys = {one.factor: one.key for one in report.asked(treatment).settings}
    return report.labels.name_treatment(
        {name: of for name, of in treatment.items() if keys.get(name) != "clients.count"}
    )


def find_protocol(cell: Cell, report: ReportInput) -> str:
    """ "udp" where the workload says so, else "tcp"."""
    return str(report.parameter(cell.treatment, cell.workload, "protocol") or "tcp")
