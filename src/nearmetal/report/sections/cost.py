"""What each environment costs its host, in the host's own coin."""

from collections.abc import Sequence

from nearmetal.analysis.results import Cell
from nearmetal.model import COSTS
from nearmetal.report.blocks import Chart, Section
from nearmetal.report.reading import ReportInput
from nearmetal.report.sections.responses import cell_table, panel

_LEAD = (
    "What the host spends, the virtual machine monitor included: CPU seconds for each request or event, memory that it "
    "holds beyond what the machine itself uses, and the time until a fresh machine is ready."
)


class Cost:
    name = "cost"
    title = "What it costs the host"
    order = 30

    def render(self, report: ReportInput) -> Section | None:
        cells = [cell for cell in report.analysis.cells if cell.response in COSTS]
        if not cells:
            return None
        panels = tuple(
            panel(chosen, report)
            for response in COSTS
            for workload in dict.fromkeys(cell.workload for cell in cells)
            if (chosen := _of(cells, workload, response))
        )
        chart = Chart(
            "cost",
            "Each dot is one block's value, later blocks higher up. The stroke is the median, written at the right.",
            "Costs of every treatment by workload; the table below has the same figures.",
            panels,
        )
        return Section(self.name, self.title, _LEAD, (chart, cell_table("cost", "Cost over blocks", cells, report)))


def _of(cells: Sequence[Cell], workload: str, response: str) -> list[Cell]:
    return [cell for cell in cells if cell.workload == workload and cell.response == response]


plugin = Cost()
