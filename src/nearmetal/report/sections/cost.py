"""What each environment costs its host, in the host's own coin."""

from dataclasses import replace

from nearmetal.model import COSTS
from nearmetal.report.blocks import Block, Chart, Paragraph
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.sections.responses import cell_table, how_drawn, in_words, make_panel

_LEAD = (
    "The host's own expense, with that of the virtual machine monitor: CPU seconds for each request or event, memory "
    "beyond the machine's own, and the time until a fresh or restarted machine is ready."
)


def _render(report: ReportInput) -> Contents | None:
    every = [cell for cell in report.cells if cell.response in COSTS]
    # Memory beyond the guest's own, of what has no guest, is no cost.
    cells = [cell for cell in every if cell.response != "memory_overhead" or any(cell.values)] or every
    if not cells:
        return None
    workloads = dict.fromkeys(cell.workload for cell in cells)
    each = [
        chosen
        for response in COSTS
        for workload in workloads
        if (chosen := [cell for cell in cells if (cell.workload, cell.response) == (workload, response)])
    ]
    drawn = [chosen for chosen in each if in_words(chosen, report) is None]
    panels = tuple(make_panel(chosen, report) for chosen in drawn)
    blocks: list[Block] = []
    if panels:
        caption = how_drawn([cell for chosen in drawn for cell in chosen])
        described = "Costs of every treatment by workload; the table below has the same figures."
        blocks.append(Chart("cost", caption, described, panels))
    blocks += [Paragraph(said) for chosen in each if (said := in_words(chosen, report)) is not None]
    table = cell_table("cost", "Cost over blocks", every, report)
    if len(cells) == len(every):
        blocks.append(table)
    else:
        shown = replace(cell_table("cost-shown", "Cost over blocks", cells, report), where="page")
        blocks += [replace(table, where="data"), shown]
    return _LEAD, blocks


plugin = BuiltInSection("cost", "Host cost", 30, _render)
