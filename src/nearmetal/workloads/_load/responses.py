"""From the load generators' documents to the responses of a trial. Pure."""

import math
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Literal, NamedTuple

from nearmetal.errors import ToolFailed
from nearmetal.histograms import decode_histogram
from nearmetal.model import Response, ResponseKind
from nearmetal.workloads._load.document import DurationSpread, Lives, LoadDocument

EVENNESS: Mapping[str, ResponseKind] = {
    # A steady server has exactly 0, which no ratio has.
    "reply_rate_stddev": ResponseKind(
        unit="1/s", better="lower", scale="difference", title="standard deviation of the reply rate"
    ),
    "connection_stddev": ResponseKind(unit="s", better="lower", title="standard deviation of connection time"),
}
"""Published as proof of an undisturbed server."""

FEWEST = 9
"""Samples, or connections, of which a standard deviation is told: the published ones are of nine samples. By chance
alone one of nine is off by a quarter, and one of two by three quarters."""


class Moments(NamedTuple):
    """Of one client's observations; None without any."""

    mean: float | None
    stddev: float | None
    observations: int


def find_evenness(rates: Sequence[Moments], lives: Sequence[Moments]) -> dict[str, Response]:
    """Responses over all clients, one of each for each: their reply rates in 1/s, their connections' lives in s.

    Of reply rates it is the mean of the clients' own spreads. Of connections it is the spread of all together. What a
    client has fewer than `FEWEST` observations of is left out, and a spread of 0 s, of which there is no ratio.
    """
    found = {}
    if (each := _list_known(rates)) is not None:
        found["reply_rate_stddev"] = _make_spread("reply_rate_stddev", sum(each) / len(each), each)
    if (each := _list_known(lives)) is not None and min(each) > 0:
        found["connection_stddev"] = _make_spread("connection_stddev", _pool_deviations(lives), each)
    return found


def _list_known(clients: Sequence[Moments]) -> list[float] | None:
    """Each client's standard deviation; None if one has none that is worth telling."""
    if not clients or any(client.observations < FEWEST for client in clients):
        return None
    known = [client.stddev for client in clients if client.stddev is not None]
    return known if len(known) == len(clients) else None


def _pool_deviations(clients: Sequence[Moments]) -> float:
    """The standard deviation of all observations together: those within the clients, and that of their means."""
    count = sum(client.observations for client in clients)
    mean = sum((client.mean or 0.0) * client.observations for client in clients) / count
    squares = sum(
        (client.observations - 1) * (client.stddev or 0.0) ** 2
        + client.observations * ((client.mean or 0.0) - mean) ** 2
        for client in clients
    )
    return math.sqrt(squares / (count - 1))


def _make_spread(name: str, value: float, each: list[float]) -> Response:
    return EVENNESS[name].of(value, by_client=tuple(each) if len(each) > 1 else None)


def count_values(histograms: Sequence[str], without: Sequence[str]) -> Mapping[int, int]:
    """How often there is each value in several HdrHistograms (V2, compressed, base64), ascending, less those `without`.

    ToolFailed when one cannot be read, or when together they hold nothing.
    """
    found: Counter[int] = Counter()
    try:
        for parts, sign in ((histograms, 1), (without, -1)):
            for histogram in parts:
                for value, count in decode_histogram(histogram):
                    found[value] += sign * count
    except (ValueError, TypeError, struct.error, zlib.error) as error:
        raise ToolFailed(f"a latency histogram cannot be read: {error!r}") from None
    if histograms and not found:
        raise ToolFailed("the latency histograms are empty")
    return {value: count for value, count in sorted(found.items()) if count > 0}


def at_rank(counts: Mapping[int, int], rank: int) -> float:
    """The value of that rank, from 1, of ascending values; the greatest where they are not as many."""
    below = 0
    for value, count in counts.items():
        below += count
        if below >= rank:
            return float(value)
    return float(max(counts, default=0))


RATE: Mapping[str, ResponseKind] = {
    "throughput": ResponseKind(
        unit="1/s", better="higher", title="throughput", clause="carries {ratio} × the requests of {reference}"
    ),
    "transactions": ResponseKind(
        unit="", better="higher", title="transactions", clause="completes {ratio} × the transactions of {reference}"
    ),
    "latency_p50": ResponseKind(
        unit="s",
        better="lower",
        title="median latency",
        clause="takes {ratio} × as long as {reference} for a typical request",
    ),
    "latency_p99": ResponseKind(unit="s", better="lower", title="99th percentile of latency"),
    "connect_p50": ResponseKind(unit="s", better="lower", title="median time to connect"),
    "first_byte_p50": ResponseKind(unit="s", better="lower", title="median time to the first byte"),
    **EVENNESS,
    "errors": ResponseKind(unit="share", better="lower", scale="difference", title="errors"),
}
"""What a closed or an open loop gives."""

RATE_BY_TLS: Mapping[str, ResponseKind] = {
    **RATE,
    "handshake_p50": ResponseKind(unit="s", better="lower", title="median time of the TLS handshake"),
    "handshake_cpu_p50": ResponseKind(unit="s", better="lower", title="median client's CPU of the TLS handshake"),
}
"""What they give over TLS."""

RAMP: Mapping[str, ResponseKind] = {
    "saturation": ResponseKind(
        unit="1/s", better="higher", title="saturation point", clause="saturates at {ratio} × the rate of {reference}"
    ),
    "errors": RATE["errors"],
}
"""What a ramp gives. Its latencies and counts mix all of its steps, and stay in its document."""

PERCENTS = {"latency_p50": 50, "latency_p99": 99}

Documents = Sequence[LoadDocument]
PerClient = Callable[[LoadDocument], float | None]


def of_rate(documents: Documents, timeout: float) -> dict[str, Response]:
    """Responses of a closed or an open loop, over all clients. ToolFailed when not one request was answered.

    `timeout` is how many seconds a client waited for a page at most.

    A closed loop's `throughput` and `transactions` are of the replies that came within the window, so that requests
    still under way at its end, of which a slow server and many workers have more, do not count. An open loop's are of
    the replies to the requests that were due within it, or a server that is far away would have fewer. `errors` and
    the times are of the requests that were due within it. Counts and rates are sums; latencies are percentiles of all
    clients' requests, of which those that were not served rank above all others: a server must not gain by failing, at
    once or late. For connecting and the first byte, of which there are only each client's percentiles, the slowest
    client's. A time of which there is not one observation is left out.
    """
    _something_served(documents)
    _something_in_time(documents)
    return {
        "throughput": _add_up("throughput", documents, lambda document: document.throughput),
        "transactions": _add_up("transactions", documents, lambda document: float(document.transactions)),
        **_make_latencies(documents, timeout),
        **_take_slowest("connect_p50", "connect_ns", documents),
        **_take_slowest("first_byte_p50", "first_byte_ns", documents),
        **_take_slowest("handshake_p50", "handshake_ns", documents),
        **_take_slowest("handshake_cpu_p50", "handshake_cpu_ns", documents),
        **_make_evenness(documents),
        "errors": _make_errors(documents),
    }


def of_ramp(documents: Documents) -> dict[str, Response]:
    """Responses of a ramp: what all clients together could ask for. ToolFailed when a document tells no saturation.

    A client whose generator gave out at the first rate knows nothing, and then there is no sum; the gates say so.
    Where some found only what they could at least ask for, and others only what they could not, the sum is at least
    that of the first.
    """
    _something_served(documents)
    ends = {document.saturation.censored for document in documents if document.saturation}
    censored: Literal["left", "right"] | None = "right" if "above" in ends else "left" if "below" in ends else None
    total = 0.0
    for document in documents:
        limit = _find_limit(document)
        if limit is None and document.gave_out:
            return {"errors": _make_errors(documents)}
        if limit is None:
            raise ToolFailed("the load generator told no saturation: its ramp was interrupted")
        total += 0.0 if censored == "right" and _is_below(document) else limit
    saturation = _make_response(RAMP["saturation"], total, documents, _find_limit)
    return {"saturation": replace(saturation, censored=censored), "errors": _make_errors(documents)}


def _find_limit(document: LoadDocument) -> float | None:
    """The rate that a client found: where not even its first was kept up, that one, as a bound from above."""
    found = document.saturation
    if found is None or found.censored == "interrupted":
        return None
    return document.steps[0].offered if _is_below(document) else found.rate


def _is_below(document: LoadDocument) -> bool:
    """Whether not even its first rate was kept up."""
    return document.saturation is not None and document.saturation.censored == "below"


def _something_served(documents: Documents) -> None:
    if any(document.served for document in documents):
        return
    counts: Counter[str] = Counter()
    for document in documents:
        counts.update({**document.status, **document.errors.by_class})
    seen = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    raise ToolFailed(f"not one request was served ({seen or 'and none was sent'})")


def _something_in_time(documents: Documents) -> None:
    """A closed loop asks how many replies come in a time. An open one, whose rate is given, has its latencies."""
    is_closed = all(document.rate.offered is None for document in documents)
    if is_closed and not any(document.transactions for document in documents):
        seconds, served = max(d.seconds for d in documents), sum(d.served for d in documents)
        what = f"not one request was served within {seconds:g} s, and {served} after that"
        raise ToolFailed(what, remedy="measure for longer than a reply takes")


def _make_response(kind: ResponseKind, value: float, documents: Documents, each: PerClient) -> Response:
    by_client = tuple(each(document) for document in documents)
    known = tuple(value for value in by_client if value is not None)
    return kind.of(value, by_client=known if len(documents) > 1 and len(known) == len(documents) else None)


def _add_up(name: str, documents: Documents, each: Callable[[LoadDocument], float]) -> Response:
    return _make_response(RATE[name], sum(map(each, documents)), documents, each)


def _read_percentile(spread: str, response: str) -> PerClient:
    """One client's percentile in seconds, by the name of the document's distribution and of the response."""

    def read_seconds(document: LoadDocument) -> float | None:
        found: DurationSpread | None = getattr(document, spread)
        if found is None:
            return None
        nanoseconds = found.p99 if response.endswith("p99") else found.p50
        return None if nanoseconds is None or not found.count else nanoseconds / 1e9

    return read_seconds


def _make_latencies(documents: Documents, timeout: float) -> dict[str, Response]:
    together = _find_percentiles(documents, timeout)
    each = [_find_percentiles([document], timeout) for document in documents] if len(documents) > 1 else []
    found = {}
    for name, (value, is_known) in together.items():
        by_client = tuple(client[name][0] for client in each if name in client)
        found[name] = RATE[name].of(
            value,
            censored=None if is_known else "right",
            by_client=by_client if by_client and len(by_client) == len(documents) else None,
        )
    return found


def _find_percentiles(documents: Documents, timeout: float) -> dict[str, tuple[float, bool]]:
    """Seconds over all requests that were due, and whether they are known. Who was not served has waited for longer
    than anybody who was, and than the timeout: a percentile that falls among such is only known to lie beyond both."""
    attempted, served = sum(d.attempted for d in documents), sum(d.served for d in documents)
    if attempted == 0:
        return {}
    answered = [document for document in documents if document.latency_ns.count]
    if served == attempted and len(answered) == 1:
        own = {name: _read_percentile("latency_ns", name)(answered[0]) for name in PERCENTS}
        return {name: (value, True) for name, value in own.items() if value is not None}
    counts = count_values(
        [document.histogram for document in answered],
        [document.error_histogram for document in documents if document.error_histogram],
    )
    found = {}
    for name, percent in PERCENTS.items():
        rank = max(1, ceil(attempted * percent / 100))
        seconds = at_rank(counts, rank) / 1e9
        found[name] = (seconds, True) if rank <= served else (max(timeout, seconds), False)
    return found


def _take_slowest(response: str, spread: str, documents: Documents) -> dict[str, Response]:
    each = _read_percentile(spread, response)
    known = [value for value in map(each, documents) if value is not None]
    return {response: _make_response(RATE_BY_TLS[response], max(known), documents, each)} if known else {}


def _make_evenness(documents: Documents) -> dict[str, Response]:
    """Of connections that are kept, the lives tell how long the trial was."""
    lives = [document.connection_ns if document.new_connections else Lives() for document in documents]
    return find_evenness(
        [Moments(None, document.reply_rate.stddev, document.reply_rate.samples) for document in documents],
        [Moments(_in_seconds(life.mean), _in_seconds(life.stddev), life.count) for life in lives],
    )


def _in_seconds(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e9


def _make_errors(documents: Documents) -> Response:
    share = sum(d.failed for d in documents) / sum(d.attempted for d in documents)
    return _make_response(RATE["errors"], share, documents, lambda d: d.failed / d.attempted if d.attempted else None)
