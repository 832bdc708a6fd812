"""What sysbench measured in the published study's own statistics and beside them, and what it claimed, tested."""

import statistics
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from nearmetal import units
from nearmetal.analysis.results import Cell, Contrast
from nearmetal.model import Assignment, Level
from nearmetal.report import censored_values, figures, words
from nearmetal.report.blocks import Badge, Block, Column, Quantity, Statement, Statements, Table, Value
from nearmetal.report.report_input import Contents, ReportInput
from nearmetal.report.table_parts import make_columns
from nearmetal.studies.published import ratios
from nearmetal.studies.published.figures import Claim, PublishedStudy
from nearmetal.studies.published.study_chapter import StudyChapter

_SUMMARY = "summary"
_TABLES = {"cpu": {"events": "cpu"}, "fileio": {"read": "read", "written": "written", "latency_mean": "latency"}}
"""Test of sysbench and response to the published table of the five values each."""
_STATISTICS = ("Min", "Max", "Avg", "StdDev")
_MEMORY = {2 * 2**30: "2G", 2**30: "1G"}
_PUBLISHED_FILES = 2 * 2**30
"""Bytes that were read and written."""
_EMULATION, _HARDWARE = "tcg", "whpx"
"""The published accelerators. Ours in hardware is another, and the nearest there is."""

_LEAD = (
    "The published statistics of each test beside the same ones of what was measured here, a block for a run. The "
    "machines are others, so figures are not to be compared from one to the other; ratios are."
)


def _render(report: ReportInput, found: PublishedStudy) -> Contents | None:
    tables = [one for workload in _list_tests(report) if (one := _make_statistics(workload, found, report)) is not None]
    if not tables:
        return None
    return _LEAD, (_show_claims(found, report), *_show_ratios(found, report), *tables)


def _list_tests(report: ReportInput) -> dict[str, str]:
    """Workload to the test of sysbench that it is."""
    return {
        spec.name: str(spec.parameters.get("test"))
        for spec in report.manifest.study.workloads
        if spec.kind == "sysbench" and spec.parameters.get("test") in _TABLES
    }


def _table_of(workload: str, response: str, report: ReportInput) -> str | None:
    """The published table with values of a response; None where there is none."""
    return _TABLES.get(_list_tests(report).get(workload, ""), {}).get(response)


def _is_as_large(workload: str, treatment: Assignment, report: ReportInput) -> bool:
    """Whether its files are as large as the published ones at least: smaller ones fit into memories that those did
    not, and say nothing of them. A test without files is."""
    given = report.parameter(treatment, workload, "total_size")
    return given is None or units.parse_size(given) >= _PUBLISHED_FILES


def _find_place(treatment: Assignment, found: PublishedStudy, report: ReportInput) -> dict[str, Level] | None:
    """Which of the published tests a treatment is; None where it is none of them."""
    asked = report.asked(treatment)
    machine = asked.server
    environment, memory = found.name_environment(asked.environment.kind, machine.nic), _MEMORY.get(machine.memory)
    if environment is None or memory is None or machine.accel == "auto":
        return None
    place: dict[str, Level] = {"environment": environment, "memory": memory, "cpus": machine.vcpus}
    if environment == "QEMU":
        place["accelerator"] = _EMULATION if machine.accel == _EMULATION else _HARDWARE
    return place


def _make_statistics(workload: str, found: PublishedStudy, report: ReportInput) -> Table | None:
    cells = [
        cell
        for cell in report.analysis.cells
        if cell.workload == workload and _table_of(workload, cell.response, report) is not None
    ]
    if not cells:
        return None
    columns = (
        *make_columns("treatment", "figure", "from"),
        Column("runs", numeric=True),
        *make_columns("min", "max", "average", "stddev", numeric=True),
        Column("unit", where="data"),
    )
    ordered = sorted(cells, key=lambda cell: _order_cells(workload, cell, report))
    rows = tuple(row for cell in ordered for row in _make_rows(cell, found, report))
    # Of its files, and of the published ones, for a test of files.
    given = report.parameter(report.manifest.plan.treatments[0], workload, "total_size")
    size = "" if given is None else f", on {given} of files (published: on 2 GiB of the 4 GiB that were prepared)"
    caption = f"{words.name_workload(workload)}{size}: the standard deviation is the population's, as published"
    return Table(f"statistics-{workload}", caption, columns, rows)


def _order_cells(workload: str, cell: Cell, report: ReportInput) -> tuple[int, int]:
    """Responses as published, and in each the treatments as planned."""
    listed = list(_TABLES[_list_tests(report)[workload]])
    return listed.index(cell.response), list(report.manifest.plan.treatments).index(dict(cell.treatment))


def _make_rows(cell: Cell, found: PublishedStudy, report: ReportInput) -> Iterator[tuple[Value, ...]]:
    """Ours, and below it the published one where there is one."""
    what = (report.labels.name_treatment(cell.treatment), report.labels.name_response(cell.workload, cell.response))
    ours = (
        censored_values.make_quantity(cell, "minimum"),
        censored_values.make_quantity(cell, "maximum"),
        censored_values.make_quantity(cell, "mean"),
    )
    deviation = Quantity(statistics.pstdev(cell.values), cell.unit) if censored_values.has_deviation(cell) else None
    yield *what, "here", len(cell.values), *ours, deviation, cell.unit
    printed = _list_printed(cell, found, report)
    if printed:
        runs = len(found.find_table(_table_of(cell.workload, cell.response, report) or "").figures[0].values)
        yield *what, "published", runs, *(Quantity(value, cell.unit) for value in printed), cell.unit


def _list_printed(cell: Cell, found: PublishedStudy, report: ReportInput) -> list[float]:
    """As the source's own tables have them, which are rounded, in SI units; nothing for what was not published."""
    place = _find_place(cell.treatment, found, report)
    test = _table_of(cell.workload, cell.response, report)
    if place is None or test is None:
        return []
    table = found.find_table(_SUMMARY)
    printed = (table.find_figure(**place, test=test, statistic=statistic) for statistic in _STATISTICS)
    return [found.convert_to_si(table, figure)[0] for figure in printed if figure is not None]


def _list_compared(report: ReportInput) -> list[Contrast]:
    return [
        contrast
        for contrast in report.analysis.contrasts
        if _table_of(contrast.workload, contrast.response, report) is not None
    ]


def _show_ratios(found: PublishedStudy, report: ReportInput) -> list[Block]:
    contrasts = _list_compared(report)
    if not contrasts:
        return []

    ratio = partial(_published_ratio, found=found, report=report)
    caption = "A point is the ratio measured here on its interval, a hollow square the published one."
    title = "Ratios, measured and published"
    told = "Each comparison beside the same one of the published averages"
    drawn = [contrast for contrast in contrasts if contrast.primary]
    return [
        *ratios.make_charts("system-vs-os", title, caption, drawn, ratio, report),
        ratios.make_table("system-vs-os-ratios", told, contrasts, ratio, report),
    ]


def _published_ratio(contrast: Contrast, found: PublishedStudy, report: ReportInput) -> float | None:
    if not _is_as_large(contrast.workload, contrast.treatment, report):
        return None
    table = _table_of(contrast.workload, contrast.response, report)
    one, other = (_find_place(side, found, report) for side in (contrast.treatment, contrast.reference))
    return None if table is None or one is None or other is None else found.compute_ratio(table, one, other)


def _show_claims(found: PublishedStudy, report: ReportInput) -> Statements:
    """Each with every comparison here that it can be held against; with none, that is said."""
    contrasts = _list_compared(report)
    untested = Statement("", "This run compares no such two.", Badge("not asked", "unknown"))
    return Statements(
        tuple(
            replace(statement, about=_write_claim(claim, found))
            for claim in found.claims
            for statement in [
                Statement(
                    about="",
                    text=f"{words.name_workload(contrast.workload)}: {words.write_sentence(contrast, report.labels)}.",
                    badge=words.badge_verdict(contrast),
                    detail=("" if contrast.primary else f"{words.name_standing(contrast)}, ")
                    + words.small_print(contrast),
                )
                for contrast in contrasts
                if _table_of(contrast.workload, contrast.response, report) == claim.table
                and _is_as_large(contrast.workload, contrast.treatment, report)
                and _find_place(contrast.treatment, found, report) == dict(claim.of)
                and _find_place(contrast.reference, found, report) == dict(claim.against)
            ]
            or [untested]
        )
    )


def _write_claim(claim: Claim, found: PublishedStudy) -> str:
    ratio = figures.format_ratio(found.compute_ratio(claim.table, claim.of, claim.against))
    return f"{claim.said.removesuffix('.')} (published: {ratio} ×)"


plugin = StudyChapter("system-vs-os", "System against OS virtualization", 16, _render, "system_vs_os")
