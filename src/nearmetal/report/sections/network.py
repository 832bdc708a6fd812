"""What iperf3 found against the number of clients: TCP and UDP, per environment."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nearmetal.analysis import single_arm
from nearmetal.analysis.outlier_clients import told_by_client
from nearmetal.analysis.responses import key_of
from nearmetal.analysis.results import Cell
from nearmetal.analysis.signed_rank import Centre
from nearmetal.report import words
from nearmetal.report.blocks import Block, Chart, Column, Panel, Quantity, Table
from nearmetal.report.charts.client_counts import IntervalPoint, draw_by_count
from nearmetal.report.client_lines import draw_through, label_without_clients, make_courses
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import list_centre, make_columns, make_quantity

_RESPONSES = ("bandwidth", "transfer", "jitter", "loss")
_SUMS = ("bandwidth", "transfer")
"""Responses that are the sum of all clients; of the others, a value is that of one client on average."""

_LEAD = "What TCP and UDP carry when several clients share the way to the server, for each number of clients."


def _render(report: ReportInput) -> Contents | None:
    study = report.manifest.study
    workloads = {workload.name for workload in study.workloads if workload.kind == "iperf3"}
    cells = [cell for cell in report.analysis.cells if cell.workload in workloads and cell.response in _RESPONSES]
    if len({report.asked(cell.treatment).clients.count for cell in cells}) < 2:
        return None
    panels = tuple(
        _make_panel(response, chosen, report) for response in _RESPONSES if (chosen := _select_cells(cells, response))
    )
    alpha = study.design.alpha
    caption = (
        f"Each point is the centre of the blocks on its {words.describe_own_interval(alpha)}, where there "
        "are blocks enough. Solid lines and filled points are TCP, dashed lines and hollow points UDP."
    )
    description = "Bandwidth, transfer, jitter and loss against the number of clients; the table has the figures."
    blocks: list[Block] = [Chart("network", caption, description, panels), _make_table(cells, report)]
    blocks += _show_each_client(cells, ("loss", "jitter", "bandwidth"), report)
    return _LEAD, blocks


def _select_cells(cells: Iterable[Cell], response: str) -> list[Cell]:
    return [cell for cell in cells if cell.response == response]


def _make_panel(response: str, cells: Sequence[Cell], report: ReportInput) -> Panel:
    together = ", all clients together" if response in _SUMS else ""
    title = f"{report.labels.name_response(cells[0].workload, response)}{together}".capitalize()
    subtitle = words.name_direction(cells[0].better)
    return Panel(response, draw_by_count(title, subtitle, "clients", cells[0].unit, make_courses(cells, report)))


def _make_table(cells: Sequence[Cell], report: ReportInput) -> Table:
    study = report.manifest.study
    columns = (
        *make_columns("workload", "response"),
        Column("unit", where="data"),
        Column("treatment"),
        *make_columns("clients", "blocks", "mean", "each client", "centre", "from", "to", numeric=True),
    )
    rows = tuple(
        (
            words.name_workload(cell.workload),
            report.labels.name_response(cell.workload, cell.response),
            cell.unit,
            label_without_clients(cell.treatment, report),
            clients,
            len(cell.values),
            Quantity(cell.mean, cell.unit),
            Quantity(cell.mean / clients, cell.unit) if cell.response in _SUMS else None,
            *list_centre(cell, report),
        )
        for cell in cells
        for clients in (report.asked(cell.treatment).clients.count,)
    )
    caption = (
        "Against the number of clients: mean over blocks, in all and of each client, and the centre of the blocks with "
        f"its {words.describe_own_interval(study.design.alpha)}"
    )
    return Table("network", caption, columns, rows, folded=len(rows) > 12)


@dataclass(frozen=True)
class _OfClient:
    """A response of one client, over blocks."""

    cell: Cell
    clients: int
    client: int
    """From 1."""
    mean: float
    centre: Centre


def _show_each_client(cells: Sequence[Cell], responses: Sequence[str], report: ReportInput) -> list[Block]:
    """Of those responses whose values are known for each client; nothing if there are none."""
    found = list(_of_clients([cell for cell in cells if cell.response in responses], report))
    if not found:
        return []
    alpha = report.manifest.study.design.alpha
    panels = tuple(
        _make_client_panel(response, chosen, report)
        for response in responses
        if (chosen := [one for one in found if one.cell.response == response])
    )
    caption = (
        "Each client by itself, with as many clients as there were at most. Each point is the centre of the blocks on "
        f"its {words.describe_own_interval(alpha)}, if there are blocks enough. UDP has dashes and hollow points."
    )
    description = "What each client had, by its number; the table has the figures, for fewer clients too."
    return [Chart("each-client", caption, description, panels), _make_client_table(found, report)]


def _of_clients(cells: Sequence[Cell], report: ReportInput) -> Iterator[_OfClient]:
    alpha = report.manifest.study.design.alpha
    for cell in cells:
        arm = report.arms.get((key_of(cell.treatment), cell.workload))
        told = told_by_client(arm).get(cell.response) if arm else None
        for client, values in enumerate(zip(*told.trials, strict=True) if told else ()):
            own = cell.model_copy(update={"values": values, "censored": (None,) * len(values)})
            yield _OfClient(
                cell,
                len(told.trials[0]) if told else 0,
                client + 1,
                sum(values) / len(values),
                single_arm.estimate_centre(own, alpha),
            )


def _make_client_panel(response: str, found: Sequence[_OfClient], report: ReportInput) -> Panel:
    lines = [(one.cell.workload, label_without_clients(one.cell.treatment, report)) for one in found]
    most = {line: one.clients for line, one in sorted(zip(lines, found, strict=True), key=lambda pair: pair[1].clients)}
    points = (
        (one.cell, IntervalPoint(one.client, one.centre.estimate, one.centre.interval))
        for line, one in zip(lines, found, strict=True)
        if one.clients == most[line]
    )
    courses = draw_through(points, report)
    first = found[0].cell
    title = f"{report.labels.name_response(first.workload, response)}, each client".capitalize()
    return Panel(response, draw_by_count(title, words.name_direction(first.better), "client", first.unit, courses))


def _make_client_table(found: Sequence[_OfClient], report: ReportInput) -> Table:
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


plugin = BuiltInSection("network", "Clients that share a network", 16, _render)
