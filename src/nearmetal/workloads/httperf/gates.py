"""Whether httperf itself can be believed. Pure; judges the instrument and never sees a response."""

from collections.abc import Iterator, Mapping, Sequence

from nearmetal.model import Warned
from nearmetal.units import show_duration, show_share
from nearmetal.workloads._load.gates import LATE, LATE_AT_ALL, SHORT
from nearmetal.workloads.httperf.output import ERROR_CLASSES, Figures, count_classes, require_figure
from nearmetal.workloads.httperf.parameters import HttperfParameters
from nearmetal.workloads.httperf.responses import measure_latency

ROUNDING = 5e-5
"""Seconds. Times are printed in tenths of a millisecond."""

_SHORTAGES = ("errors.fd-unavail", "errors.ftab-full", "errors.addrunavail")


def find_invalid(clients: Sequence[Figures], given: HttperfParameters) -> str | None:
    """Why the trial must not count; None when every httperf did what it was told."""
    for index, client in enumerate(clients):
        for reason in _list_reasons(client, given):
            return f"client {index}: {reason}" if len(clients) > 1 else reason
    return None


def _list_reasons(client: Figures, given: HttperfParameters) -> Iterator[str]:
    ordered = given.measured_connections
    shortages = sum(require_figure(client, name) for name in _SHORTAGES)
    if shortages > SHORT * ordered:
        yield (
            f"{shortages:.0f} of {ordered} connections never left the client, which had no descriptor or port left; "
            "httperf can use 1,021 descriptors"
        )
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
    found = []
    for index, client in enumerate(clients):
        burst = require_figure(client, "connections.burst_max")
        late = (burst - 1) / given.connection_rate
        if late > LATE_AT_ALL:
            found.append(
                Warned(
                    code="generator-late",
                    text=f"client {index} opened {burst:.0f} connections in one go, the first of them at least "
                    f"{show_duration(late)} after its time, which httperf does not count as latency",
                )
            )
        if client["replies.count"] and SHORT * measure_latency(client) < ROUNDING:
            found.append(
                Warned(
                    code="coarse-clock",
                    text=f"client {index}: httperf prints tenths of a millisecond, so that latencies of "
                    f"{show_duration(measure_latency(client))} are rounded by up to "
                    f"{_show_share_of(ROUNDING, measure_latency(client))}",
                )
            )
        found += _without_a_page(index, client, given)
    return found


def _without_a_page(index: int, client: Figures, given: HttperfParameters) -> Iterator[Warned]:
    seen = count_classes(client)
    pages: Mapping[str, int] = {name: seen[name] for name in ("4xx", "5xx") if name in seen}
    failed = {name: seen[name] for name in ERROR_CLASSES if name in seen}
    if failed:
        yield Warned(
            code="requests-failed",
            text=f"{sum(failed.values())} of client {index}'s {given.measured_connections} connections failed "
            f"({_list_counts(failed)}): the times are those of the others",
        )
    if pages:
        yield Warned(
            code="error-pages",
            text=f"{sum(pages.values())} of the "
            f"{require_figure(client, 'replies.count'):.0f} replies to client {index} were "
            f"errors ({_list_counts(pages)}): the times are of error pages too",
        )


def _list_counts(seen: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in seen.items())


def _show_share_of(part: float, whole: float) -> str:
    return show_share(part / whole, 1) if whole > 0 else "all"
