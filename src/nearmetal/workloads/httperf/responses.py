"""From what httperf found to the responses of a trial, and whether httperf itself can be believed. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from nearmetal.errors import ToolFailed
from nearmetal.model import Response, ResponseKind, Warned
from nearmetal.units import show_duration, show_share
from nearmetal.workloads._load.gates import LATE, LATE_AT_ALL, SHORT, list_counts, name_first
from nearmetal.workloads._load.responses import EVENNESS, RATE, Moments, find_evenness
from nearmetal.workloads.httperf.output import ERROR_CLASSES, Figures, count_classes, require_figure
from nearmetal.workloads.httperf.parameters import HttperfParameters

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


KINDS: Mapping[str, ResponseKind] = {
    "throughput": RATE["throughput"],
    "transactions": RATE["transactions"],
    "latency_mean": ResponseKind(
        unit="s", better="lower", title="mean latency", clause="takes {ratio} × as long as {reference} on average"
    ),
    "connect_mean": ResponseKind(unit="s", better="lower"),
    "first_byte_mean": ResponseKind(unit="s", better="lower"),
    **EVENNESS,
    "errors": RATE["errors"],
}

PerClient = Callable[[Figures], float]


def make_responses(clients: Sequence[Figures], attempted: int) -> dict[str, Response]:
    """Responses over all clients, each of which was told to make `attempted` requests. ToolFailed when none was served.

    Counts and rates are sums; times are means over all clients' replies. A time that httperf printed as 0.0 is left
    out, because a ratio of it means nothing.
    """
    if not any(map(count_served, clients)):
        seen = ", ".join(f"{count} {name}" for client in clients for name, count in count_classes(client).items())
        raise ToolFailed(f"not one request was served ({seen or 'and none was sent'})")
    times = {
        "latency_mean": measure_latency,
        "connect_mean": _read_seconds("connect_ms"),
        "first_byte_mean": _first_byte,
    }
    answered = [client for client in clients if client["replies.count"]]
    means = {name: _average_answered(answered, each) for name, each in times.items()}
    if means["latency_mean"] == 0:
        raise ToolFailed(
            "httperf printed 0.0 ms for the life of a connection, which is too short for it",
            remedy='use kind = "http", which resolves nanoseconds',
        )
    return {
        "throughput": _make_response(
            "throughput", sum(map(_measure_throughput, clients)), clients, _measure_throughput
        ),
        "transactions": _make_response("transactions", sum(map(count_served, clients)), clients, count_served),
        **{name: _make_response(name, means[name], answered, each) for name, each in times.items() if means[name] > 0},
        **_make_evenness(clients),
        "errors": _make_response(
            "errors",
            1 - sum(map(count_served, clients)) / (attempted * len(clients)),
            clients,
            lambda client: 1 - count_served(client) / attempted,
        ),
    }


def count_served(client: Figures) -> float:
    """Replies that are an answer: neither the request (4xx) nor the server (5xx) was at fault."""
    return require_figure(client, "status.2xx") + require_figure(client, "status.3xx")


def measure_latency(client: Figures) -> float:
    """Seconds that a request takes, its share of connecting included: the calls of a connection follow each other."""
    return require_figure(client, "connection_ms.mean") / 1e3 / _replies_each(client)


def _make_evenness(clients: Sequence[Figures]) -> dict[str, Response]:
    """The reply rate is sampled at each 5 s, for which httperf has no option."""

    def read_rates(client: Figures) -> Moments:
        return Moments(None, client["reply_rate.stddev"], int(require_figure(client, "reply_rate.samples")))

    def read_lives(client: Figures) -> Moments:
        mean, stddev = (client[f"connection_ms.{name}"] for name in ("mean", "stddev"))
        if mean is None or stddev is None:
            return Moments(None, None, 0)
        # Its connections are those that carried a reply.
        return Moments(mean / 1e3, stddev / 1e3, round(require_figure(client, "replies.count") / _replies_each(client)))

    return find_evenness([*map(read_rates, clients)], [*map(read_lives, clients)])


def _replies_each(client: Figures) -> float:
    each = require_figure(client, "connections.replies_each")
    if each <= 0:
        raise ToolFailed("httperf printed replies, and connections without one")
    return each


def _measure_throughput(client: Figures) -> float:
    duration = require_figure(client, "duration_s")
    if duration <= 0:
        raise ToolFailed("httperf printed a test of no duration", remedy="give a longer `duration`")
    return count_served(client) / duration


def _read_seconds(spread: str) -> PerClient:
    return lambda client: require_figure(client, f"{spread}.mean") / 1e3


_first_byte = _read_seconds("first_byte_ms")


def _average_answered(answered: Sequence[Figures], each: PerClient) -> float:
    replies = [require_figure(client, "replies.count") for client in answered]
    return sum(each(client) * count for client, count in zip(answered, replies, strict=True)) / sum(replies)


def _make_response(name: str, value: float, clients: Sequence[Figures], each: PerClient) -> Response:
    by_client = tuple(map(each, clients)) if len(clients) > 1 else None
    return KINDS[name].of(value, by_client=by_client)
