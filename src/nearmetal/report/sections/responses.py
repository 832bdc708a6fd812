"""What was measured: every value of every treatment, before anything is compared."""

from collections.abc import Sequence

from nearmetal.analysis.results import Cell
from nearmetal.report import charts, figures, words
from nearmetal.report.blocks import Block, Chart, Column, Panel, Paragraph, Quantity, Section, Table
from nearmetal.report.reading import ReportInput


class Responses:
    name = "responses"
    title = "What was measured"
    order = 20

    def render(self, report: ReportInput) -> Section | None:
        cells = [cell for cell in report.analysis.cells if cell.response not in words.COSTS]
        if not cells:
            return None
        blocks: list[Block] = []
        for workload in dict.fromkeys(cell.workload for cell in cells):
            chosen = [cell for cell in cells if cell.workload == workload]
            names = dict.fromkeys(cell.response for cell in chosen)
            primary_first = sorted(names, key=lambda name: (workload, name) not in report.primaries)
            flat = [name for name in primary_first if _constant(chosen, name)]
            panels = tuple(
                panel(workload, name, [cell for cell in chosen if cell.response == name], report)
                for name in primary_first
                if name not in flat
            )
            blocks.append(
                Chart(
                    f"responses-{workload}",
                    f"{words.plain(workload)}: each dot is one block's value, later blocks higher up; the stroke is the median, "
                    "which stands at the right.",
                    _described(chosen),
                    panels,
                )
            )
            blocks += [
                Paragraph(f"{words.response(name)}: {_same_everywhere(chosen, name)} in every trial of {words.plain(workload)}.")
                for name in flat
            ]
        blocks.append(cell_table("responses", "Mean and spread over blocks", cells, report))
        lead = "One value a block and treatment; repeats within a boot are averaged. Nothing is trimmed."
        return Section(self.name, self.title, lead, tuple(blocks))


def _constant(cells: Sequence[Cell], response: str) -> bool:
    return len({value for cell in cells if cell.response == response for value in cell.values}) <= 1


def _same_everywhere(cells: Sequence[Cell], response: str) -> str:
    cell = next(cell for cell in cells if cell.response == response)
    return figures.quantity(cell.values[0], cell.unit) if cell.values else "no value"


def panel(workload: str, response: str, cells: Sequence[Cell], report: ReportInput) -> Panel:
    """One response as strips, one a treatment."""
    return Panel(
        f"{workload}-{response}",
        charts.strips(
            words.response(response),
            words.direction(cells[0].better),
            cells[0].unit,
            [
                charts.Strip(
                    report.labels.treatment(cell.treatment),
                    figures.quantity(cell.median, cell.unit),
                    report.colour(cell.treatment),
                    cell.values,
                )
                for cell in cells
                if cell.values
            ],
        ),
    )


def _described(cells: Sequence[Cell]) -> str:
    return "; ".join(
        f"{words.response(cell.response)} of {words.plain(str(cell.treatment.get('environment', '')))}: median "
        f"{figures.quantity(cell.median, cell.unit)}"
        for cell in cells[:24]
    )


def cell_table(name: str, caption: str, cells: Sequence[Cell], report: ReportInput) -> Table:
    columns = (
        Column("workload"),
        Column("response"),
        Column("unit", where="data"),
        Column("treatment"),
        Column("blocks", numeric=True),
        Column("mean", numeric=True),
        Column("stddev", numeric=True),
        Column("min", numeric=True),
        Column("median", numeric=True),
        Column("max", numeric=True),
    )
    rows = tuple(
        (
            cell.workload,
            words.response(cell.response),
            cell.unit,
            report.labels.treatment(cell.treatment),
            len(cell.values),
            *(
                Quantity(value, cell.unit)
                for value in (cell.mean, cell.stddev, cell.minimum, cell.median, cell.maximum)
            ),
        )
        for cell in cells
    )
    return Table(name, caption, columns, rows, folded=len(rows) > 40)


plugin = Responses()
