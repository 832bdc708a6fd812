"""Whether httperf itself can be believed. Pure; judges the instrument and never sees a response."""

from collections.abc import Iterator, Mapping, Sequence

from nearmetal.model import Warned
from nearmetal.units import show_duration, show_share
from nearmetal.workloads._load.gates import LATE, LATE_AT_ALL, SHORT, list_counts, name_first
from nearmetal.workloads.httperf.output import ERROR_CLASSES, Figures, count_classes, require_figure
from nearmetal.workloads.httperf.parameters import HttperfParameters
from nearmetal.workloads.httperf.responses import measure_latency

ROUNDING = 5e-5
"""Seconds. Times are printed in tenths of a millisecond."""

_SHORTAGES = ("errors.fd-unavail", "errors.ftab-full", "errors.addrunavail")


def find_invalid(clients: Sequence[Figures], given: HttperfParameters) -> str | None:
    """Why the trial must not count; None when every httperf did what it was told."""
    return name_first([_list_reasons(client, given) for client in clients])


def _list_reasons(client: Figures, given: HttperfParameters) -> Iterator[str]:
    ordered = given.measured_connections
    shortages = sum(require_figure(client, name) for name in _SHORTAGES)
    if shortages > SHORT * ordered:
        left = f"{shortages:.0f} of {ordered} connections never left the client"
        yield f"{left}, which had no descriptor or port left; httperf can use 1,021 descriptors"
    opened = require_figure(client, "connections.opened")
    if ordered - opened - shortages > SHORT * ordered:
        yield f"httperf opened {opened:.0f} of {ordered} connections"
    planned = (ordered - 1) / given.connection_rate
    behind = require_figure(client, "duration_s") - planned - _longest_life(client, given)
    if behind > SHORT * planned + LATE:
        yield f"the rate was not reached: httperf ended {show_duration(behind)} later than its last connection explains"


def _longest_life(client: Figures, given: HttperfParameters) -> float:
    """Seconds that the last connection may have taken. httperf tells the longest only of those that had a reply."""
    if require_figure(client, "errors.total") or client["connection_ms.max"] is None:
        return given.longest_life
    return client["connection_ms.max"] / 1e3


def list_warnings(clients: Sequence[Figures], given: HttperfParameters) -> list[Warned]:
    """What a reader should know though the trial counts."""
    return [warning for index, client in enumerate(clients) for warning in _warn_of_client(index, client, given)]


def _warn_of_client(index: int, client: Figures, given: HttperfParameters) -> Iterator[Warned]:
    burst = require_figure(client, "connections.burst_max")
    late = (burst - 1) / given.connection_rate
    if late > LATE_AT_ALL:
        text = (
            f"client {index} opened {burst:.0f} connections in one go, the first of them at least "
            f"{show_duration(late)} after its time, which httperf does not count as latency"
        )
        yield Warned(code="generator-late", text=text)
    if client["replies.count"] and SHORT * (latency := measure_latency(client)) < ROUNDING:
        share = show_share(ROUNDING / latency, 1) if latency > 0 else "all"
        why = f"client {index}: httperf prints tenths of a millisecond"
        text = f"{why}, so that latencies of {show_duration(latency)} are rounded by up to {share}"
        yield Warned(code="coarse-clock", text=text)
    seen = count_classes(client)
    pages: Mapping[str, int] = {name: seen[name] for name in ("4xx", "5xx") if name in seen}
    failed = {name: seen[name] for name in ERROR_CLASSES if name in seen}
    if failed:
        many = f"{sum(failed.values())} of client {index}'s {given.measured_connections} connections failed"
        yield Warned(code="requests-failed", text=f"{many} ({list_counts(failed)}): the times are those of the others")
    if pages:
        replies = f"{require_figure(client, 'replies.count'):.0f} replies to client {index}"
        many = f"{sum(pages.values())} of the {replies} were errors"
        yield Warned(code="error-pages", text=f"{many} ({list_counts(pages)}): the times are of error pages too")
