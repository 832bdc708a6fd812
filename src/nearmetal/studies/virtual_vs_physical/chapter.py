"""Transactions of every treatment, and each comparison beside the same one in the published study, as ratios."""

from collections.abc import Sequence
from functools import partial

from nearmetal import units
from nearmetal.analysis import single_arm
from nearmetal.analysis.results import Cell, Contrast
from nearmetal.model import Assignment
from nearmetal.report import censored_values, figures, words
from nearmetal.report.blocks import LONG, Block, Column, Table, Value
from nearmetal.report.report_input import Contents, ReportInput
from nearmetal.studies.published import ratios
from nearmetal.studies.published.figures import Figure, PublishedStudy
from nearmetal.studies.published.study_chapter import StudyChapter
from nearmetal.study.levels import find_placeholders

_RESPONSE = "transactions"
_TABLES = {False: "one-host", True: "several-hosts"}
"""Of the published study, by whether machines are on several hosts."""

_LEAD = (
    "Requests answered in a run of each treatment, and every comparison beside what the published study makes of the "
    "same two: as ratios, because neither the link rate nor the size of a reply is known of its counts."
)


def _render(report: ReportInput, counts: PublishedStudy) -> Contents | None:
    cells = [cell for cell in report.analysis.cells if cell.response == _RESPONSE]
    if not cells:
        return None
    blocks: list[Block] = [_make_measured(cells, report)]
    contrasts = [contrast for contrast in report.analysis.contrasts if contrast.response == _RESPONSE]
    if contrasts:
        ratio = partial(_find_ratio, counts=counts, report=report)
        caption = (
            "A point is the ratio measured here on its interval, a hollow square the published one. The published link "
            "looks full in most rows, which pulls its ratios to 1."
        )
        title = "Ratios of transactions, measured and published"
        told = "Each comparison beside the published one, as ratios of transactions"
        blocks += [
            *ratios.make_charts("transactions", title, caption, contrasts, ratio, report),
            ratios.make_table("transactions-published", told, contrasts, ratio, report),
        ]
    return _LEAD, blocks


def _make_measured(cells: Sequence[Cell], report: ReportInput) -> Table:
    """As the published table is laid out: a column for each number of workers, where that number is a factor."""
    study = report.manifest.study
    workers = {id(cell): report.parameter(cell.treatment, cell.workload, "workers") for cell in cells}
    numbers = sorted(dict.fromkeys(workers.values()), key=lambda number: number if isinstance(number, int) else 0)
    rows: dict[tuple[str, str], dict[object, Cell]] = {}
    for cell in cells:
        name = report.labels.name_treatment(_without_workers(cell, report))
        rows.setdefault((cell.workload, name), {})[workers[id(cell)]] = cell
    columns = (
        Column("workload", where="data"),
        Column("treatment"),
        *(
            column
            for number in numbers
            for column in (
                Column(_count_workers(number), numeric=True, where="page"),
                *(Column(f"{_count_workers(number)}: {what}", numeric=True, where="data") for what in _FIGURES),
            )
        ),
    )
    alpha = study.design.alpha
    caption = (
        f"Transactions {_describe_length(cells, report)}: the centre of the blocks, and in brackets its "
        f"{words.describe_own_interval(alpha)}"
    )
    filled = tuple(
        (
            words.name_workload(workload),
            name,
            *(value for number in numbers for value in _make_values(row.get(number), alpha)),
        )
        for (workload, name), row in rows.items()
    )
    return Table("transactions", caption, columns, filled, folded=len(filled) > LONG)


_FIGURES = ("mean", "stddev", "centre", "low", "high", "blocks")


def _make_values(cell: Cell | None, alpha: float) -> tuple[Value, ...]:
    """The page's text, then what `_FIGURES` names."""
    if cell is None:
        return (None,) * (1 + len(_FIGURES))
    found = single_arm.estimate_centre(cell, alpha)
    low, high = found.interval or (None, None)
    spread = "" if low is None or high is None else f" ({low:,.0f} – {high:,.0f})"
    deviation = cell.stddev if censored_values.has_deviation(cell) else None
    text = f"{found.estimate:,.0f}{spread}"
    return text, cell.mean, deviation, found.estimate, low, high, len(cell.values)


def _count_workers(number: object) -> str:
    if isinstance(number, int):
        return figures.format_count(number, "worker")
    return "transactions" if number is None else str(number)


def _without_workers(cell: Cell, report: ReportInput) -> Assignment:
    """The treatment less the factors that say how many workers there are."""
    study = report.manifest.study
    given = next(spec.parameters.get("workers") for spec in study.workloads if spec.name == cell.workload)
    filling = set(find_placeholders(given))
    return {name: level for name, level in cell.treatment.items() if name not in filling}


def _describe_length(cells: Sequence[Cell], report: ReportInput) -> str:
    """ "in 60 s", where the study says so and says it once."""
    given = {report.parameter(cell.treatment, cell.workload, "duration") for cell in cells}
    lengths = {units.parse_duration(one) for one in given if isinstance(one, str)}
    return f"in {figures.format_quantity(lengths.pop(), 's')}" if len(given) == len(lengths) == 1 else "in a run"


def _published_count(
    treatment: Assignment, workload: str, counts: PublishedStudy, report: ReportInput
) -> Figure | None:
    """The count of the same environment, card, offload and workers; None where it was not published."""
    asked = report.asked(treatment)
    environment = counts.name_environment(asked.environment.kind, asked.server.nic)
    workers = report.parameter(treatment, workload, "workers")
    offload = asked.treatments.get("offload", True)
    if environment is None or not isinstance(workers, int) or not isinstance(offload, bool):
        return None
    table = counts.find_table(_TABLES[set(asked.clients.places) != {asked.server.host}])
    return table.find_figure(environment=environment, offloading=offload, workers=workers)


def _find_ratio(contrast: Contrast, counts: PublishedStudy, report: ReportInput) -> float | None:
    """Published treatment over published reference, both of one table."""
    one, other = (
        _published_count(treatment, contrast.workload, counts, report)
        for treatment in (contrast.treatment, contrast.reference)
    )
    return None if one is None or other is None or other.mean == 0 else one.mean / other.mean


plugin = StudyChapter("transactions", "Transactions", 14, _render, "virtual_vs_physical")
