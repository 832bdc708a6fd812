"""Levels of isolation side by side: every figure that httperf prints, percentiles of latency, and noise."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearmetal.analysis.responses import key_of
from nearmetal.model import Assignment, TrialRecord
from nearmetal.report import figures, words
from nearmetal.report.blocks import Block, Column, Notice, Quantity, Table, Value
from nearmetal.report.report_input import Contents, ReportInput, parse_document
from nearmetal.report.table_parts import list_centre, make_columns, make_quantity
from nearmetal.studies.published.figures import PublishedStudy
from nearmetal.studies.published.study_chapter import StudyChapter

_FACTOR = "isolation"
_TABLE = "httperf"
_COUNTS = ("connections", "requests")
"""What a workload calls its number of connections."""
_NOISE = ("ticks", "interrupts", "lost", "gaps", "longest")

_LEAD = (
    "The same load at each level of isolation, in the rows that httperf prints. How evenly a server answered is not "
    "proof that its CPU was isolated: the noise on that CPU is."
)


@dataclass(frozen=True)
class ConnectionFigure:
    """One figure: its published name, its unit, and where it stands in the two documents, with the factor to it."""

    name: str
    unit: str
    httperf: str
    load: str
    httperf_size: float = 1.0
    load_size: float = 1.0
    per: str = ""
    """What the load document's figure is divided by; httperf's is divided already."""


def _make_row(name: str, httperf: str, load: str) -> ConnectionFigure:
    return ConnectionFigure(name, "s", httperf, load, 1e-3, 1e-9)


_SPREAD = {"min": "min", "avg": "mean", "max": "max", "median": "median", "stddev": "stddev"}
_ERRORS = {
    "client-timo": "client_timeout",
    "socket-timo": "socket_timeout",
    "connrefused": "refused",
    "connreset": "reset",
    "fd-unavail": "fd_unavailable",
    "addrunavail": "address_unavailable",
    "ftab-full": "fd_table_full",
    "other": "other",
}

ROWS = (
    ConnectionFigure("connections", "", "connections.opened", "connections.opened"),
    ConnectionFigure("requests", "", "requests.sent", "requests.sent"),
    ConnectionFigure("replies", "", "replies.count", "requests.completed"),
    ConnectionFigure("test duration", "s", "duration_s", "elapsed_ns", load_size=1e-9),
    ConnectionFigure("connect burst length", "", "connections.burst_max", "connections.burst_max"),
    ConnectionFigure(
        "connection rate", "1/s", "connections.rate", "connections.opened", load_size=1e9, per="elapsed_ns"
    ),
    ConnectionFigure(
        "time per connection", "s", "connections.period_ms", "elapsed_ns", 1e-3, 1e-9, per="connections.opened"
    ),
    ConnectionFigure("concurrent connections, at most", "", "connections.concurrent_max", "connections.concurrent_max"),
    *(
        _make_row(f"connection time {name}", f"connection_ms.{key}", f"connection_ns.{key}")
        for name, key in _SPREAD.items()
    ),
    _make_row("connection time connect", "connect_ms.mean", "connect_ns.mean"),
    ConnectionFigure("replies per connection", "", "connections.replies_each", "connections.replies_each"),
    ConnectionFigure("request rate", "1/s", "requests.rate", "requests.sent", load_size=1e9, per="elapsed_ns"),
    ConnectionFigure("time per request", "s", "requests.period_ms", "elapsed_ns", 1e-3, 1e-9, per="requests.sent"),
    ConnectionFigure("request size", "B", "requests.bytes_each", "bytes.sent", per="requests.sent"),
    *(
        ConnectionFigure(f"reply rate {name}", "1/s", f"reply_rate.{key}", f"reply_rate.{key}")
        for name, key in _SPREAD.items()
        if name != "median"
    ),
    ConnectionFigure("reply rate samples", "", "reply_rate.samples", "reply_rate.samples"),
    _make_row("reply time response", "first_byte_ms.mean", "first_byte_ns.mean"),
    _make_row("reply time transfer", "transfer_ms.mean", "transfer_ns.mean"),
    ConnectionFigure("reply size header", "B", "reply_bytes.header", "bytes.header", per="requests.completed"),
    ConnectionFigure("reply size content", "B", "reply_bytes.content", "bytes.body", per="requests.completed"),
    ConnectionFigure("reply size footer", "B", "reply_bytes.footer", ""),
    ConnectionFigure("reply size total", "B", "reply_bytes.total", "bytes.replies", per="requests.completed"),
    *(
        ConnectionFigure(f"reply status {name}", "", f"status.{name}", f"status.{name}")
        for name in ("1xx", "2xx", "3xx", "4xx", "5xx")
    ),
    ConnectionFigure("CPU time user", "s", "cpu_s.user", "cpu_ns.user", load_size=1e-9),
    ConnectionFigure("CPU time system", "s", "cpu_s.system", "cpu_ns.system", load_size=1e-9),
    ConnectionFigure("CPU user", "share", "cpu_percent.user", "cpu_ns.user", 0.01, per="elapsed_ns"),
    ConnectionFigure("CPU system", "share", "cpu_percent.system", "cpu_ns.system", 0.01, per="elapsed_ns"),
    ConnectionFigure("CPU total", "share", "cpu_percent.total", "cpu_ns.total", 0.01, per="elapsed_ns"),
    ConnectionFigure("net I/O", "B/s", "net.kibibytes_per_s", "bytes.all", 1024, 1e9, per="elapsed_ns"),
    ConnectionFigure("net I/O in bits", "bit/s", "net.megabits_per_s", "bytes.all", 1e6, 8e9, per="elapsed_ns"),
    ConnectionFigure("errors total", "", "errors.total", "errors.total"),
    *(ConnectionFigure(f"errors {name}", "", f"errors.{name}", f"errors.{key}") for name, key in _ERRORS.items()),
)

PERCENTILES = ("p50", "p90", "p95", "p99", "p999", "max")
"""Of latency, from when a request should have been sent: httperf cannot tell it."""


def of_httperf(found: Mapping[str, Any]) -> dict[str, float]:
    """The rows of an httperf document, `httperf-N.json`."""
    told = {name: float(value) for name, value in found.items() if _is_number(value)}
    return {row.name: told[row.httperf] * row.httperf_size for row in ROWS if row.httperf in told}


def of_load(document: Mapping[str, Any]) -> dict[str, float]:
    """The rows of a `load.v1` document, and the percentiles of its latency in s."""
    told = _flatten_document(document)
    rows: dict[str, float] = {}
    for row in ROWS:
        by = told.get(row.per, 0.0) if row.per else 1.0
        if row.load in told and by:
            rows[row.name] = told[row.load] * row.load_size / by
    latency = {name: f"latency_ns.{name}" for name in PERCENTILES}
    return rows | {name: told[place] * 1e-9 for name, place in latency.items() if place in told}


def _flatten_document(document: Mapping[str, Any]) -> dict[str, float]:
    """Every number by "PART.NAME", with the sums that httperf prints."""
    places = dict(document)
    for part, inside in document.items():
        if isinstance(inside, Mapping):
            places |= {f"{part}.{name}": value for name, value in inside.items()}
    told = {name: float(value) for name, value in places.items() if _is_number(value)}
    told["bytes.replies"] = told.get("bytes.header", 0.0) + told.get("bytes.body", 0.0)
    told["bytes.all"] = told["bytes.replies"] + told.get("bytes.sent", 0.0)
    told["cpu_ns.total"] = told.get("cpu_ns.user", 0.0) + told.get("cpu_ns.system", 0.0)
    told["errors.total"] = sum(told.get(f"errors.{key}", 0.0) for key in _ERRORS.values())
    return told


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_READERS = {"load-*.json": of_load, "httperf-*.json": of_httperf}


def average_rows(records: Iterable[TrialRecord], report: ReportInput) -> dict[str, float]:
    """Each row's mean over clients and trials; a document that cannot be read any more is passed over."""
    told: dict[str, list[float]] = defaultdict(list)
    for record in records:
        for pattern, rows_of in _READERS.items():
            for document in map(parse_document, report.artifacts(record, pattern)):
                for name, value in rows_of(document).items() if document else ():
                    told[name].append(value)
    return {name: statistics.fmean(some) for name, some in told.items()}


def _render(report: ReportInput, found: PublishedStudy) -> Contents | None:
    treatments = report.manifest.plan.treatments
    if len({treatment.get(_FACTOR) for treatment in treatments}) < 2:
        return None
    blocks: list[Block] = []
    for workload in report.manifest.study.workloads:
        if workload.kind in ("http", "httperf"):
            blocks += _make_figures(workload.name, treatments, found, report)
    noise = _make_noise(report)
    if noise is not None:
        blocks.append(noise)
    return (_LEAD, blocks) if blocks else None


def _make_figures(
    workload: str, treatments: Sequence[Assignment], found: PublishedStudy, report: ReportInput
) -> list[Block]:
    trials = [report.trials(workload, treatment) for treatment in treatments]
    told = [average_rows(records, report) for records in trials]
    if not any(told):
        text = f"What the generator told of {words.name_workload(workload)} cannot be read from the run's folder."
        return [Notice(text, "warning")] if any(trials) else []
    printed = [_list_printed(workload, treatment, found, report) for treatment in treatments]
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
    caption += _about_published(workload, treatments, bool(shown), found, report)
    blocks: list[Block] = [Table(f"isolation-{workload}", caption, columns, tuple(rows))]
    if any(name in one for one in told for name in PERCENTILES):
        blocks.append(_make_latency(workload, treatments, told, report))
    return blocks


def _about_published(
    workload: str, treatments: Sequence[Assignment], shown: bool, found: PublishedStudy, report: ReportInput
) -> str:
    """What the published figures beside ours are; where there are none, of what they would be."""
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


def _list_printed(workload: str, treatment: Assignment, found: PublishedStudy, report: ReportInput) -> dict[str, float]:
    """The published figures of this level and of as many connections, in SI units."""
    table = found.find_table(_TABLE)
    at = {_FACTOR: treatment[_FACTOR], "heading": _find_connections(workload, treatment, report), "run": 1}
    return {
        str(figure.at["what"]): found.convert_to_si(table, figure)[0]
        for figure in table.figures
        if all(figure.at.get(name) == value for name, value in at.items())
    }


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


plugin = StudyChapter("cpu-isolation", "Levels of isolation", 17, _render, "cpu_isolation")
