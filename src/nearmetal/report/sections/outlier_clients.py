"""Clients that do not get what the others get, of everything that is known for each client."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nearmetal.analysis.outlier_clients import (
    FEWEST,
    ClientValues,
    OutlierClient,
    fewest_blocks,
    find_outlier_clients,
    held,
    level,
    told_by_client,
)
from nearmetal.analysis.responses import Key, key_of
from nearmetal.analysis.results import Cell
from nearmetal.report import figures, words
from nearmetal.report.blocks import Block, Column, Paragraph, Quantity, Table, Value
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import make_columns


def _render(report: ReportInput) -> Contents | None:
    looked_at = list(_looked_at(report))
    if not looked_at:
        return None
    margin = report.manifest.study.design.margin
    found = [
        (one.cell, odd)
        for one in looked_at
        for odd in find_outlier_clients(one.trials, one.cell.scale, margin, one.level)
    ]
    lead = (
        "A client is odd when it lies on one side of the others in more blocks than chance allows, by more than "
        f"{figures.format_percent(margin)}, and by more than the others differ among themselves. Looked at: "
        f"{figures.format_count(len(looked_at), 'response of a treatment', 'responses of treatments')} with at "
        f"least {FEWEST} clients, a primary one at the level {level(True):g}, others at {level(False):g} each."
    )
    few = [one for one in looked_at if len(held(one.trials, one.cell.scale)) < one.fewest]
    blocks: list[Block] = [_make_table(found, report)] if found else []
    if few:
        # What nobody can say; and how many blocks it would take, by the number of clients.
        begin = "Too" if len(few) == len(looked_at) else f"Of {len(few)} of them there are too"
        needed = [
            f"{of}{figures.join_listing(f'{blocks} with {clients} clients' for clients, blocks in sorted(of_these))}"
            for is_primary, of in ((True, ""), (False, "of a response that is not primary, "))
            if (of_these := {(one.clients, one.fewest) for one in few if one.is_primary is is_primary})
        ]
        blocks.append(Paragraph(f"{begin} few blocks to tell: it takes {'; '.join(needed)}."))
    if not found and len(few) < len(looked_at):
        blocks.append(Paragraph("None of the others is." if few else "None is."))
    return lead, blocks


@dataclass(frozen=True)
class _LookedAt:
    cell: Cell
    trials: Sequence[Sequence[float]]
    is_primary: bool

    @property
    def level(self) -> float:
        return level(self.is_primary)

    @property
    def clients(self) -> int:
        return len(self.trials[0])

    @property
    def fewest(self) -> int:
        """Blocks with which anything can be told."""
        return fewest_blocks(self.clients, self.level)


def _looked_at(report: ReportInput) -> Iterator[_LookedAt]:
    """What the warnings of the run are about too, of trials that count."""
    of: dict[tuple[Key, str], dict[str, ClientValues]] = {}
    for cell in report.analysis.cells:
        where = key_of(cell.treatment), cell.workload
        if where not in of:
            of[where] = told_by_client(report.arms[where]) if where in report.arms else {}
        told = of[where].get(cell.response)
        if told and len(told.trials[0]) >= FEWEST:
            yield _LookedAt(cell, told.trials, (cell.workload, cell.response) in report.primaries)


def _make_table(found: Sequence[tuple[Cell, OutlierClient]], report: ReportInput) -> Table:
    columns = (
        *make_columns("workload", "response", "treatment"),
        Column("client", numeric=True),
        Column("from the median client", numeric=True, where="page"),
        Column("deviation", numeric=True, where="data"),
        Column("unit", where="data"),
        *make_columns("blocks that agree", "p", numeric=True),
    )
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (
            words.name_workload(cell.workload),
            report.labels.name_response(cell.workload, cell.response),
            report.labels.name_treatment(cell.treatment),
            odd.client + 1,
            _show_deviation(odd, cell),
            odd.deviation,
            "share" if cell.scale == "ratio" else cell.unit,
            f"{odd.agreeing} of {odd.trials}",
            Quantity(odd.p, "p"),
        )
        for cell, odd in found
    )
    caption = "Odd clients, counted from 1 in the order in which they were made"
    return Table("odd-clients", caption, columns, rows)


def _show_deviation(odd: OutlierClient, cell: Cell) -> str:
    """ "−30.0 %", "+2.1 points"."""
    if cell.scale == "ratio":
        return f"{odd.deviation * 100:+.1f} %".replace("-", "−")
    return figures.format_difference(odd.deviation, None, cell.unit)


plugin = BuiltInSection("odd-clients", "Clients unlike the others", 19, _render)
