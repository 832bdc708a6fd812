"""What httperf prints of its connections, of each trial: from httperf's own output, and the same from `load.v1`.

Rows are named as the published figures of `cpu-isolation` are. Values are in SI units; one that there is no
observation of is left out.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nearmetal.model import TrialRecord
from nearmetal.report.reading import ReportInput, parse_document


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
