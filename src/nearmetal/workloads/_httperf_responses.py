"""From what httperf found to the responses of a trial. Pure."""

from collections.abc import Callable, Mapping, Sequence

from nearmetal.errors import ToolFailed
from nearmetal.model import Response, ResponseKind
from nearmetal.workloads._evenness import EVENNESS, Moments, find_evenness
from nearmetal.workloads._httperf_output import Figures, counts, figure
from nearmetal.workloads._load_responses import RATE

KINDS: Mapping[str, ResponseKind] = {
    "throughput": RATE["throughput"],
    "transactions": RATE["transactions"],
    "latency_mean": ResponseKind(
        unit="s",
        better="lower",
        title="mean latency",
        clause="takes {ratio} × as long as {reference} on average",
    ),
    "connect_mean": ResponseKind(unit="s", better="lower"),
    "first_byte_mean": ResponseKind(unit="s", better="lower"),
    **EVENNESS,
    "errors": RATE["errors"],
}

PerClient = Callable[[Figures], float]


def responses(clients: Sequence[Figures], attempted: int) -> dict[str, Response]:
    """Responses over all clients, each of which was told to make `attempted` requests. ToolFailed when none was served.

    Counts and rates are sums; times are means over all clients' replies. A time that httperf printed as 0.0 is left
    out, because a ratio of it means nothing.
    """
    if not any(map(served, clients)):
        seen = ", ".join(f"{count} {name}" for client in clients for name, count in counts(client).items())
        raise ToolFailed(f"not one request was served ({seen or 'and none was sent'})")
    times = {"latency_mean": latency, "connect_mean": _seconds("connect_ms"), "first_byte_mean": _first_byte}
    answered = [client for client in clients if client["replies.count"]]
    means = {name: _mean(answered, each) for name, each in times.items()}
    if means["latency_mean"] == 0:
        raise ToolFailed(
            "httperf printed 0.0 ms for the life of a connection, which is too short for it",
            remedy='use kind = "http", which resolves nanoseconds',
        )
    return {
        "throughput": _response("throughput", sum(map(_throughput, clients)), clients, _throughput),
        "transactions": _response("transactions", sum(map(served, clients)), clients, served),
        **{name: _response(name, means[name], answered, each) for name, each in times.items() if means[name] > 0},
        **_evenness(clients),
        "errors": _response(
            "errors",
            1 - sum(map(served, clients)) / (attempted * len(clients)),
            clients,
            lambda client: 1 - served(client) / attempted,
        ),
    }


def served(client: Figures) -> float:
    """Replies that are an answer: neither the request (4xx) nor the server (5xx) was at fault."""
    return figure(client, "status.2xx") + figure(client, "status.3xx")


def latency(client: Figures) -> float:
    """Seconds that a request takes, its share of connecting included: the calls of a connection follow each other."""
    return figure(client, "connection_ms.mean") / 1e3 / _replies_each(client)


def _evenness(clients: Sequence[Figures]) -> dict[str, Response]:
    """The reply rate is sampled at each 5 s, for which httperf has no option."""

    def rates(client: Figures) -> Moments:
        return Moments(None, client["reply_rate.stddev"], int(figure(client, "reply_rate.samples")))

    def lives(client: Figures) -> Moments:
        mean, stddev = (client[f"connection_ms.{name}"] for name in ("mean", "stddev"))
        if mean is None or stddev is None:
            return Moments(None, None, 0)
        # Its connections are those that carried a reply.
        return Moments(mean / 1e3, stddev / 1e3, round(figure(client, "replies.count") / _replies_each(client)))

    return find_evenness([*map(rates, clients)], [*map(lives, clients)])


def _replies_each(client: Figures) -> float:
    each = figure(client, "connections.replies_each")
    if each <= 0:
        raise ToolFailed("httperf printed replies, and connections without one")
    return each


def _throughput(client: Figures) -> float:
    duration = figure(client, "duration_s")
    if duration <= 0:
        raise ToolFailed("httperf printed a test of no duration", remedy="give a longer `duration`")
    return served(client) / duration


def _seconds(spread: str) -> PerClient:
    return lambda client: figure(client, f"{spread}.mean") / 1e3


_first_byte = _seconds("first_byte_ms")


def _mean(answered: Sequence[Figures], each: PerClient) -> float:
    replies = [figure(client, "replies.count") for client in answered]
    return sum(each(client) * count for client, count in zip(answered, replies, strict=True)) / sum(replies)


def _response(name: str, value: float, clients: Sequence[Figures], each: PerClient) -> Response:
    by_client = tuple(map(each, clients)) if len(clients) > 1 else None
    return KINDS[name].of(value, by_client=by_client)
