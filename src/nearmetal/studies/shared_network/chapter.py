"""What is left to each client, in TCP and at saturation, beside the thesis's tables and the figures in its text."""

from collections.abc import Iterable, Sequence

from nearmetal.analysis.results import Cell
from nearmetal.report import censored_values
from nearmetal.report.blocks import LONG, Block, Column, Quantity, Table, Value
from nearmetal.report.client_lines import find_protocol, label_without_clients
from nearmetal.report.report_input import Contents, ReportInput
from nearmetal.report.table_parts import list_arm, make_columns, make_quantity
from nearmetal.report.table_values import align_decimals
from nearmetal.studies.published.figures import PublishedStudy, PublishedTable
from nearmetal.studies.published.study_chapter import StudyChapter

_MEASURED_FOR = {"bandwidth": "", "transfer": "; published in 10 s, measured in the time the study says"}
"""Responses that have a table of the thesis, and what is not alike in it."""
_SATURATION = "saturation"

_LEAD = (
    "What several clients leave to each of them, beside the same figure of the thesis. Its machines were others, so "
    "only the shares can be compared."
)


def _render(report: ReportInput, found: PublishedStudy) -> Contents | None:
    workloads = {workload.name for workload in report.manifest.study.workloads if workload.kind == "iperf3"}
    blocks: list[Block] = []
    for response in _MEASURED_FOR:
        cells = [cell for cell in report.analysis.cells if cell.workload in workloads and cell.response == response]
        tcp = [cell for cell in cells if find_protocol(cell, report) == "tcp"]
        if tcp:
            blocks.append(_make_shares(tcp, found, report))
    saturated = [cell for cell in report.analysis.cells if cell.response == _SATURATION]
    if saturated:
        blocks.append(_make_saturation(saturated, found, report))
    return (_LEAD, blocks) if blocks else None


def _make_shares(cells: Sequence[Cell], found: PublishedStudy, report: ReportInput) -> Table:
    response = cells[0].response
    printed = found.find_table(response)
    columns = (
        Column("treatment"),
        *make_columns("clients", "each client", "share of one alone", "published", "share, published", numeric=True),
    )
    caption = (
        f"TCP {report.labels.name_response(cells[0].workload, response)} of each client beside table {printed.number}, "
        f"and what share it is of what a client alone has{_MEASURED_FOR[response]}"
    )
    rows = tuple(_list_shares(cells, printed, found, report))
    return Table(f"network-{response}-published", caption, columns, rows)


def _list_shares(
    cells: Sequence[Cell], printed: PublishedTable, found: PublishedStudy, report: ReportInput
) -> Iterable[tuple[Value, ...]]:
    """Treatments that differ in their clients alone stand together, fewest clients first."""
    alone: dict[str, float] = {}
    placed = sorted(
        ((label_without_clients(cell.treatment, report), cell) for cell in cells),
        key=lambda place: report.asked(place[1].treatment).clients.count,
    )
    for name in dict.fromkeys(name for name, _ in placed):
        for cell in (cell for other, cell in placed if other == name):
            asked = report.asked(cell.treatment)
            clients = asked.clients.count
            each = cell.mean / clients
            if clients == 1:
                alone[name] = each
            environment = found.name_environment(asked.environment.kind, asked.server.nic)
            theirs, first = (_average_published(printed, found, environment, count) for count in (clients, 1))
            yield (
                name,
                clients,
                Quantity(each, cell.unit),
                f"{each / alone[name]:.3f} ×" if alone.get(name) else None,
                make_quantity(theirs, cell.unit),
                None if theirs is None or first is None else f"{theirs / first:.3f} ×",
            )


def _average_published(
    printed: PublishedTable, found: PublishedStudy, environment: str | None, clients: int
) -> float | None:
    """In SI units; None where it was not published."""
    figure = None if environment is None else printed.find_figure(environment=environment, clients=clients)
    values = () if figure is None else found.convert_to_si(printed, figure)
    return sum(values) / len(values) if values else None


def _make_saturation(cells: Sequence[Cell], found: PublishedStudy, report: ReportInput) -> Table:
    columns = (*make_columns("workload", "treatment"), *make_columns("each client", "published for each", numeric=True))
    rows: list[tuple[Value, ...]] = [
        (
            *list_arm(cell.workload, cell.treatment, report),
            censored_values.make_quantity(cell, "mean", report.asked(cell.treatment).clients.count),
            _show_saturation(cell, found, report),
        )
        for cell in cells
    ]
    caption = "Saturation of each client, mean over blocks, beside the range in the thesis's text"
    return Table("saturation-published", caption, columns, align_decimals(rows), folded=len(rows) > LONG)


def _show_saturation(cell: Cell, found: PublishedStudy, report: ReportInput) -> str | None:
    """The published saturation of as many clients in the same environment: "17 to 20 requests/s"."""
    asked = report.asked(cell.treatment)
    environment = found.name_environment(asked.environment.kind, asked.server.nic)
    at = {"environment": environment, "clients": asked.clients.count}
    for statement in found.statements:
        if statement.what.startswith(_SATURATION) and dict(statement.at) == at:
            return f"{statement.low:g} to {statement.high:g} {statement.unit}"
    return None


plugin = StudyChapter("shared-network", "Beside the thesis", 19, _render, "shared_network")
