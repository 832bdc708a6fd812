"""What each of several clients had: a picture over the clients, and a table of all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nearmetal.analysis import centre
from nearmetal.analysis.clients import told_by_client
from nearmetal.analysis.responses import key_of
from nearmetal.analysis.results import Cell
from nearmetal.analysis.signed_rank import Centre
from nearmetal.report import words
from nearmetal.report.blocks import Block, Chart, Column, Panel, Table
from nearmetal.report.charts.by_number import CourseLine, Point, by_number
from nearmetal.report.courses import find_protocol, label_without_clients
from nearmetal.report.reading import ReportInput
from nearmetal.report.table_parts import make_columns, make_quantity


@dataclass(frozen=True)
class _OfClient:
    """A response of one client, over blocks."""

    cell: Cell
    clients: int
    client: int
    """From 1."""
    mean: float
    centre: Centre


def render_each_client(cells: Sequence[Cell], responses: Sequence[str], report: ReportInput) -> list[Block]:
    """Of those responses whose values are known for each client; nothing if there are none."""
    found = list(_of_clients([cell for cell in cells if cell.response in responses], report))
    if not found:
        return []
    alpha = report.manifest.study.design.alpha
    panels = tuple(
        _make_panel(response, chosen, report)
        for response in responses
        if (chosen := [one for one in found if one.cell.response == response])
    )
    caption = (
        "Each client by itself, with as many clients as there were at most. Each point is the centre of the blocks on "
        f"its {words.describe_own_interval(alpha)}, if there are blocks enough. UDP has dashes and hollow points."
    )
    description = "What each client had, by its number; the table has the figures, for fewer clients too."
    return [Chart("each-client", caption, description, panels), _make_table(found, report)]


def _of_clients(cells: Sequence[Cell], report: ReportInput) -> Iterator[_OfClient]:
    alpha = report.manifest.study.design.alpha
    for cell in cells:
        arm = report.arms.get((key_of(cell.treatment), cell.workload))
        told = told_by_client(arm).get(cell.response) if arm else None
        for client, values in enumerate(zip(*told.trials, strict=True) if told else ()):
            own = cell.model_copy(update={"values": values, "censored": (None,) * len(values)})
            yield _OfClient(
                cell, len(told.trials[0]) if told else 0, client + 1, sum(values) / len(values), centre.of(own, alpha)
            )


def _make_panel(response: str, found: Sequence[_OfClient], report: ReportInput) -> Panel:
    lines: dict[tuple[str, str], list[_OfClient]] = {}
    for one in found:
        lines.setdefault((one.cell.workload, label_without_clients(one.cell.treatment, report)), []).append(one)
    several = len({workload for workload, _ in lines}) > 1
    courses = []
    for (workload, name), members in lines.items():
        most = max(one.clients for one in members)
        courses.append(
            CourseLine(
                label=f"{name}, {words.strip_controls(workload)}" if several else name,
                colour=report.colour(members[0].cell.treatment),
                dashed=find_protocol(members[0].cell, report) == "udp",
                points=tuple(
                    Point(one.client, one.centre.estimate, one.centre.interval)
                    for one in members
                    if one.clients == most
                ),
            )
        )
    first = found[0].cell
    title = f"{report.labels.name_response(first.workload, response)}, each client".capitalize()
    return Panel(response, by_number(title, words.name_direction(first.better), "client", first.unit, courses))


def _make_table(found: Sequence[_OfClient], report: ReportInput) -> Table:
    columns = (
        *make_columns("workload", "response"),
        Column("unit", where="data"),
        Column("treatment"),
        *make_columns("clients", "client", "mean", "centre", "from", "to", numeric=True),
    )
    rows = tuple(
        (
            words.name_workload(one.cell.workload),
            report.labels.name_response(one.cell.workload, one.cell.response),
            one.cell.unit,
            label_without_clients(one.cell.treatment, report),
            one.clients,
            one.client,
            *(
                make_quantity(value, one.cell.unit)
                for value in (one.mean, one.centre.estimate, *(one.centre.interval or (None, None)))
            ),
        )
        for one in found
    )
    caption = (
        "Each client by its number, from 1 in the order in which they were made: mean over blocks, and the centre of "
        f"the blocks with its {words.describe_own_interval(report.manifest.study.design.alpha)}"
    )
    return Table("each-client", caption, columns, rows, folded=True)
