"""What was measured: every value of every treatment, before anything is compared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from nearmetal.analysis.results import Cell
from nearmetal.model import COSTS
from nearmetal.report import censored_values, figures, words
from nearmetal.report.blocks import Block, Chart, Column, Panel, Paragraph, Quantity, Table, Value
from nearmetal.report.charts.axes import TOO_FAR
from nearmetal.report.charts.strips import Strip, describe_strips, draw_strips, has_dots
from nearmetal.report.charts.tooltips import join_tip, name_block
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import make_columns
from nearmetal.report.table_values import show_value

_BOUNDS: Final = (
    " Of some blocks only a bound is known, and that is where their dot stands: behind ≥ values may lie higher, behind "
    "≤ lower, and – is a median of which nothing is known."
)


def _render(report: ReportInput) -> Contents | None:
    cells = [cell for cell in report.cells if cell.response not in COSTS]
    if not cells:
        return None
    panels: dict[tuple[str, str], Panel] = {}
    flat: list[str] = []
    undrawn: list[str] = []
    for workload, response in _primary_first(cells, report):
        chosen = [cell for cell in cells if (cell.workload, cell.response) == (workload, response)]
        if is_flat(chosen):
            flat.append(_describe_flat(chosen[0], report))
        elif (said := in_words(chosen, report)) is not None:
            undrawn.append(said)
        else:
            panels[workload, response] = make_panel(chosen, report)
    first, rest = _at_first_sight(panels, report)
    blocks: list[Block] = []
    if first:
        shown = [cell for cell in cells if (cell.workload, cell.response) in panels]
        blocks.append(Chart("responses", how_drawn(shown), _describe_cells(cells, report), first))
    if rest:
        caption = "Responses that no comparison was fixed for beforehand"
        blocks.append(Chart("responses-more", caption, f"{caption}; the table has them.", rest, folded=True))
    blocks += [Paragraph(f"The same in every trial: {'; '.join(flat)}.")] if flat else []
    blocks += [Paragraph(text) for text in undrawn]
    blocks += cell_tables("responses", "Mean and spread over blocks", cells, report)
    lead = (
        "One value a block and treatment; repeats within a boot are averaged. Nothing is trimmed. A verdict is "
        "what is typical within a block, and need not be what these medians differ by."
    )
    if report.manifest.plan.looks:
        lead += " All blocks are here; a verdict rests on those before the look that decided it."
    return lead, blocks


def _at_first_sight(
    panels: Mapping[tuple[str, str], Panel], report: ReportInput
) -> tuple[tuple[Panel, ...], tuple[Panel, ...]]:
    """What is shown and what is folded away: those that verdicts are about, and the rest."""
    shown = [pair for pair in panels if pair in report.primaries] or list(panels)
    return tuple(panels[pair] for pair in shown), tuple(panels[pair] for pair in panels if pair not in shown)


def _primary_first(cells: Sequence[Cell], report: ReportInput) -> list[tuple[str, str]]:
    """Workloads in their order, and of each the response that its verdicts are about before the rest."""
    pairs = list(dict.fromkeys((cell.workload, cell.response) for cell in cells))
    workloads = list(dict.fromkeys(workload for workload, _ in pairs))
    return sorted(pairs, key=lambda pair: (workloads.index(pair[0]), pair not in report.primaries))


def in_words(cells: Sequence[Cell], report: ReportInput) -> str | None:
    """What there is to say of one response of one workload, if a picture would not show more."""
    if is_flat(cells):
        told = f"{_describe_flat(cells[0], report)} in every trial."
        return told[:1].upper() + told[1:]
    first = cells[0]
    named = f"{report.labels.name_response(first.workload, first.response)} of {words.name_workload(first.workload)}"
    is_drawable = any(_lies_somewhere(value) for cell in cells for value in cell.values)
    return None if is_drawable else f"{named}: no value can be drawn; the table has them."


def is_flat(cells: Sequence[Cell]) -> bool:
    """Whether all values of all of them are the same."""
    values, censored_values = cells[0].values[:1], cells[0].censored[:1]
    return all(
        (cell.values, cell.censored) == (values * len(cell.values), censored_values * len(cell.values))
        for cell in cells
    )


def _describe_flat(cell: Cell, report: ReportInput) -> str:
    """ "errors of web: 0 %"."""
    named = f"{report.labels.name_response(cell.workload, cell.response)} of {words.name_workload(cell.workload)}"
    return f"{named}: {_show_median(cell)}"


def _show_median(cell: Cell) -> str:
    """ "1.2 ms", "≥ 60/s"; of blocks that bound nothing together "–"."""
    return show_value(censored_values.make_quantity(cell, "median"))


def how_drawn(cells: Sequence[Cell]) -> str:
    """What `make_panel` draws of them, as a caption."""
    dot = "one block's value, later blocks higher up"
    told = describe_strips((len(_list_drawable(cell.values)) for cell in cells), dot)
    return told + (_BOUNDS if any(bound for cell in cells for bound in cell.censored) else "")


def make_panel(cells: Sequence[Cell], report: ReportInput) -> Panel:
    """One response of one workload as strips, one a treatment."""
    first = cells[0]
    name = f"{first.workload or 'boot'}-{first.response}"
    # Of each value that is drawn, "block 3 · ≥ 60/s".
    strips = [
        Strip(
            _name_strip(cell, report),
            _show_median(cell),
            report.colour(cell.treatment),
            values,
            report.labels.name_treatment(cell.treatment),
            tuple(
                join_tip(
                    name_block(block),
                    "no bound" if bound == "both" else show_value(Quantity(value, cell.unit, bound=bound)),
                )
                for block, value, bound in zip(cell.blocks, cell.values, cell.censored, strict=True)
                if _lies_somewhere(value)
            )
            if has_dots(len(values))
            else (),
        )
        for cell in cells
        if (values := _list_drawable(cell.values))
    ]
    title = f"{words.name_workload(first.workload)}: {report.labels.name_response(first.workload, first.response)}"
    return Panel(name, draw_strips(title, words.name_direction(first.better), first.unit, strips))


def _name_strip(cell: Cell, report: ReportInput) -> str:
    """ "docker, failed in 4 blocks": those have no dot."""
    failed = f", failed in {figures.format_count(cell.failed, 'block')}" if cell.failed else ""
    return report.labels.name_treatment(cell.treatment) + failed


def _list_drawable(values: Iterable[float]) -> tuple[float, ...]:
    most = TOO_FAR
    return tuple([value for value in values if abs(value) < most])


def _lies_somewhere(value: float) -> bool:
    """Whether a value is not so far off that no float holds its distance from others."""
    return abs(value) < TOO_FAR


def _describe_cells(cells: Sequence[Cell], report: ReportInput) -> str:
    return "; ".join(
        f"{report.labels.name_response(cell.workload, cell.response)} of "
        f"{words.strip_controls(str(cell.treatment.get('environment', '')))}: median {_show_median(cell)}"
        for cell in cells[:24]
    )


def cell_tables(name: str, caption: str, cells: Sequence[Cell], report: ReportInput) -> list[Block]:
    """For people without those that are the same in every trial, which a sentence says; for programs all of them."""
    told = [
        one
        for pair in dict.fromkeys((cell.workload, cell.response) for cell in cells)
        if not is_flat(of_pair := [cell for cell in cells if (cell.workload, cell.response) == pair])
        for one in of_pair
    ]
    whole = cell_table(name, caption, cells, report)
    if len(told) in (0, len(cells)):
        return [whole]
    return [replace(whole, where="data"), replace(cell_table(f"{name}-shown", caption, told, report), where="page")]


def cell_table(name: str, caption: str, cells: Sequence[Cell], report: ReportInput) -> Table:
    columns = (
        *make_columns("workload", "response"),
        Column("unit", where="data"),
        Column("treatment"),
        *make_columns("blocks", "mean", "stddev", "min", "median", "max", numeric=True),
        *censored_values.COLUMNS,
        *([Column("failed", numeric=True)] if (has_failures := any(cell.failed for cell in cells)) else []),
    )
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (
            words.name_workload(cell.workload),
            report.labels.name_response(cell.workload, cell.response),
            cell.unit,
            report.labels.name_treatment(cell.treatment),
            len(cell.values),
            censored_values.make_quantity(cell, "mean"),
            censored_values.make_deviation(cell),
            censored_values.make_quantity(cell, "minimum"),
            censored_values.make_quantity(cell, "median"),
            censored_values.make_quantity(cell, "maximum"),
            *censored_values.list_counts(cell),
            *([cell.failed] if has_failures else []),
        )
        for cell in cells
    )
    return Table(name, caption, columns, rows, folded=True)


plugin = BuiltInSection("responses", "Measurements", 20, _render)
