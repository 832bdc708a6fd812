"""Levels of isolation side by side: every figure that httperf prints, percentiles of latency, and noise."""

from collections.abc import Mapping, Sequence

from nearmetal.analysis.responses import key_of
from nearmetal.model import Assignment
from nearmetal.report import figures, words
from nearmetal.report.blocks import Block, Column, Notice, Quantity, Table, Value
from nearmetal.report.connections import PERCENTILES, ROWS, average_rows
from nearmetal.report.reading import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import list_centre, make_columns, make_quantity
from nearmetal.studies import published
from nearmetal.studies.published import PublishedStudy

_FACTOR = "isolation"
_TABLE = "httperf"
_COUNTS = ("connections", "requests")
"""What a workload calls its number of connections."""
_NOISE = ("ticks", "interrupts", "lost", "gaps", "longest")

_LEAD = (
    "The same load at each level of isolation, in the rows that httperf prints. How evenly a server answered is not "
    "proof that its CPU was isolated: the noise on that CPU is."
)


def _render(report: ReportInput) -> Contents | None:
    treatments = report.manifest.plan.treatments
    if len({treatment.get(_FACTOR) for treatment in treatments}) < 2:
        return None
    blocks: list[Block] = []
    for workload in report.manifest.study.workloads:
        if workload.kind in ("http", "httperf"):
            blocks += _of_workload(workload.name, treatments, report)
    noise = _make_noise(report)
    if noise is not None:
        blocks.append(noise)
    return (_LEAD, blocks) if blocks else None


def _of_workload(workload: str, treatments: Sequence[Assignment], report: ReportInput) -> list[Block]:
    trials = [report.trials(workload, treatment) for treatment in treatments]
    told = [average_rows(records, report) for records in trials]
    if not any(told):
        text = f"What the generator told of {words.name_workload(workload)} cannot be read from the run's folder."
        return [Notice(text, "warning")] if any(trials) else []
    blocks: list[Block] = [_make_rows(workload, treatments, told, report)]
    if any(name in one for one in told for name in PERCENTILES):
        blocks.append(_make_latency(workload, treatments, told, report))
    return blocks


def _make_rows(
    workload: str, treatments: Sequence[Assignment], told: Sequence[Mapping[str, float]], report: ReportInput
) -> Table:
    printed = [_list_printed(workload, treatment, report) for treatment in treatments]
    shown = [index for index, one in enumerate(printed) if one]
    columns = (
        Column("figure"),
        *(Column(_name_level(treatment, treatments, report), numeric=True) for treatment in treatments),
        *(Column(f"published: {treatments[index][_FACTOR]}", numeric=True) for index in shown),
        Column("unit", where="data"),
    )
    rows: list[tuple[Value, ...]] = [
        (
            row.name,
            *(make_quantity(one.get(row.name), row.unit) for one in told),
            *(make_quantity(printed[index].get(row.name), row.unit) for index in shown),
            row.unit,
        )
        for row in ROWS
        if any(row.name in one for one in (*told, *printed))
    ]
    caption = f"{words.name_workload(workload)}: each figure of a run by isolation, mean over blocks"
    caption += _about_published(workload, treatments, bool(shown), report)
    return Table(f"isolation-{workload}", caption, columns, tuple(rows))


def _about_published(workload: str, treatments: Sequence[Assignment], shown: bool, report: ReportInput) -> str:
    """What the published figures beside ours are; where there are none, of what they would be."""
    found = _find_published(report)
    if found is None:
        return ""
    counts = sorted({str(_find_connections(workload, treatment, report)) for treatment in treatments})
    asked = f"{figures.join_listing(counts)} {'connection' if counts == ['1'] else 'connections'}"
    if shown:
        return f"; published is the first run under the heading of {asked}, on another machine"
    headings = dict.fromkeys(str(one.at["heading"]) for one in found.find_table(_TABLE).figures)
    return f"; of {asked} nothing was published, but of {figures.join_listing(headings)}"


def _name_level(treatment: Assignment, treatments: Sequence[Assignment], report: ReportInput) -> str:
    """The level alone where nothing else differs, so that all levels and the published ones stand side by side."""
    others = {key_of({name: level for name, level in one.items() if name != _FACTOR}) for one in treatments}
    return str(treatment[_FACTOR]) if len(others) == 1 else report.labels.name_treatment(treatment)


def _list_printed(workload: str, treatment: Assignment, report: ReportInput) -> dict[str, float]:
    """The published figures of this level and of as many connections, in SI units."""
    found = _find_published(report)
    if found is None:
        return {}
    table = found.find_table(_TABLE)
    at = {_FACTOR: treatment[_FACTOR], "heading": _find_connections(workload, treatment, report), "run": 1}
    return {
        str(figure.at["what"]): found.convert_to_si(table, figure)[0]
        for figure in table.figures
        if all(figure.at.get(name) == value for name, value in at.items())
    }


def _find_published(report: ReportInput) -> PublishedStudy | None:
    """The published figures of this study, where they are httperf's."""
    found = published.find_published(report.manifest.study.name)
    return found if found is not None and _TABLE in {table.name for table in found.tables} else None


def _find_connections(workload: str, treatment: Assignment, report: ReportInput) -> object:
    given = report.asked(treatment).workload(workload).parameters
    return next((found for name in _COUNTS if (found := given.get(name)) is not None), None)


def _make_latency(
    workload: str, treatments: Sequence[Assignment], told: Sequence[Mapping[str, float]], report: ReportInput
) -> Table:
    columns = (Column("treatment"), *(Column(name, numeric=True) for name in PERCENTILES))
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (report.labels.name_treatment(treatment), *(make_quantity(one.get(name), "s") for name in PERCENTILES))
        for treatment, one in zip(treatments, told, strict=True)
    )
    caption = f"{words.name_workload(workload)}: latency from when each request should have been sent, mean over blocks"
    return Table(f"isolation-latency-{workload}", caption, columns, rows)


def _make_noise(report: ReportInput) -> Table | None:
    kinds = {workload.name for workload in report.manifest.study.workloads if workload.kind == "noise"}
    cells = [cell for cell in report.analysis.cells if cell.workload in kinds and cell.response in _NOISE]
    if not cells:
        return None
    columns = (
        *make_columns("treatment", "noise"),
        *make_columns("blocks", "mean", "centre", "from", "to", numeric=True),
    )
    alpha = report.manifest.study.design.alpha
    rows = tuple(
        (
            report.labels.name_treatment(cell.treatment),
            cell.response,
            len(cell.values),
            Quantity(cell.mean, cell.unit),
            *list_centre(cell, report),
        )
        for cell in sorted(cells, key=lambda one: _NOISE.index(one.response))
    )
    caption = (
        "Noise on the CPU that is isolated, or would be: its timer's ticks and all interrupts, the share of time lost "
        "to a program that wants it, gaps, the longest: mean over blocks, and the centre of the blocks with its "
        f"{words.describe_own_interval(alpha)}"
    )
    return Table("isolation-noise", caption, columns, rows)


plugin = BuiltInSection("cpu-isolation", "Levels of isolation", 17, _render)
