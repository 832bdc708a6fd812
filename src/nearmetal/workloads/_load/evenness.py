"""How evenly a server answers: the spread of the reply rate over samples, and of the lives of connections. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nearmetal.model import Response, ResponseKind

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
        found["reply_rate_stddev"] = _make_response("reply_rate_stddev", sum(each) / len(each), each)
    if (each := _list_known(lives)) is not None and min(each) > 0:
        found["connection_stddev"] = _make_response("connection_stddev", _pool_deviations(lives), each)
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


def _make_response(name: str, value: float, each: list[float]) -> Response:
    return EVENNESS[name].of(value, by_client=tuple(each) if len(each) > 1 else None)
