"""Clients that do not get what the others get, of everything that is known for each client."""

from collections.abc import Iterable, Sequence

from nearmetal.analysis.clients import FEWEST, OddClient, fewest_blocks, held, odd_clients
from nearmetal.analysis.responses import key_of
from nearmetal.analysis.results import Cell
from nearmetal.model import TrialRecord
from nearmetal.report import figures, words
from nearmetal.report.blocks import Block, Column, Paragraph, Quantity, Section, Table, Value
from nearmetal.report.reading import ReportInput


class OddClients:
    name = "odd-clients"
    title = "Clients unlike the others"
    order = 19

    def render(self, report: ReportInput) -> Section | None:
        looked_at = list(_looked_at(report))
        if not looked_at:
            return None
        design = report.manifest.study.design
        found = [
            (cell, odd)
            for cell, rows in looked_at
            for odd in odd_clients(rows, cell.scale, design.margin, design.alpha)
        ]
        lead = (
            "A client is odd when it lies on one side of the others in more blocks than chance allows, by more than "
            f"{figures.percent(design.margin)}, and by more than the others differ among themselves. Looked at: "
            f"{figures.count(len(looked_at), 'response of a treatment', 'responses of treatments')} with at least "
            f"{FEWEST} clients, each at the level {design.alpha:g}."
        )
        few = [
            rows for cell, rows in looked_at if len(held(rows, cell.scale)) < fewest_blocks(len(rows[0]), design.alpha)
        ]
        blocks: list[Block] = [_table(found, report)] if found else []
        if few:
            blocks.append(Paragraph(_too_few(few, len(looked_at), design.alpha)))
        if not found and len(few) < len(looked_at):
            blocks.append(Paragraph("None of the others is." if few else "None is."))
        return Section(self.name, self.title, lead, tuple(blocks))


def _too_few(few: Sequence[Sequence[Sequence[float]]], looked_at: int, level: float) -> str:
    """What nobody can say; and how many blocks it would take, by the number of clients."""
    begin = "Too" if len(few) == looked_at else f"Of {len(few)} of them there are too"
    numbers = sorted({len(rows[0]) for rows in few})
    needed = figures.listing(f"{fewest_blocks(clients, level)} with {clients} clients" for clients in numbers)
    return f"{begin} few blocks to tell: it takes {needed}."


def _looked_at(report: ReportInput) -> Iterable[tuple[Cell, list[list[float]]]]:
    """Each cell with the values of each client, one row a block; of trials that count."""
    for cell in report.analysis.cells:
        arm = report.arms.get((key_of(cell.treatment), cell.workload))
        rows = [_row(cell.response, replicate.records) for replicate in arm.first] if arm else []
        told = [row for row in rows if len(row) >= FEWEST]
        if told and len({len(row) for row in told}) == 1:
            yield cell, told


def _row(response: str, repeats: Sequence[TrialRecord]) -> list[float]:
    """One value a client, repeats averaged; nothing where a trial did not tell them."""
    told = [record.responses[response].by_client for record in repeats if response in record.responses]
    known = [each for each in told if each is not None]
    if not known or len(known) < len(repeats):
        return []
    return [sum(values) / len(values) for values in zip(*known, strict=True)]


def _table(found: Sequence[tuple[Cell, OddClient]], report: ReportInput) -> Table:
    columns = (
        Column("workload"),
        Column("response"),
        Column("treatment"),
        Column("client", numeric=True),
        Column("from the median client", numeric=True, where="page"),
        Column("deviation", numeric=True, where="data"),
        Column("unit", where="data"),
        Column("blocks that agree", numeric=True),
        Column("p", numeric=True),
    )
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (
            words.workload(cell.workload),
            words.response(cell.response),
            report.labels.treatment(cell.treatment),
            odd.client + 1,
            _deviation(odd, cell),
            odd.deviation,
            "share" if cell.scale == "ratio" else cell.unit,
            f"{odd.agreeing} of {odd.trials}",
            Quantity(odd.p, "p"),
        )
        for cell, odd in found
    )
    caption = "Odd clients, counted from 1 in the order in which they were made"
    return Table("odd-clients", caption, columns, rows)


def _deviation(odd: OddClient, cell: Cell) -> str:
    """ "−30.0 %", "+2.1 points"."""
    if cell.scale == "ratio":
        return f"{odd.deviation * 100:+.1f} %".replace("-", "−")
    return figures.difference(odd.deviation, None, cell.unit)


plugin = OddClients()
