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
    """The lines, in the order of the cells; dashed for UDP. Where only a bound is known they have no point."""
    study = report.manifest.study
    along: dict[tuple[str, str], list[tuple[int, Cell]]] = {}
    for cell in cells:
        if any(cell.censored):
            continue
        clients = report.asked(cell.treatment).clients.count
        along.setdefault((cell.workload, label_without_clients(cell.treatment, report)), []).append((clients, cell))
    several = len({workload for workload, _ in along}) > 1
    return [
        CourseLine(
            label=f"{name}, {words.strip_controls(workload)}" if several else name,
            colour=report.colour(members[0][1].treatment),
            about=name,
            dashed=find_protocol(members[0][1], report) == "udp",
            points=tuple(
                IntervalPoint(clients, found.estimate, found.interval)
                for clients, cell in sorted(members, key=lambda member: member[0])
                for found in (single_arm.estimate_centre(cell, study.design.alpha),)
            ),
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
