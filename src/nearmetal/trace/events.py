"""The events of a request on one clock: from a line of the probe's `--requests` to seconds since its first byte. Pure.

An event is named as in `trace.request.v1`; one that was seen at the server's end has "server." before its name.
"""

import statistics
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

Line = Mapping[str, Any]
"""A `trace.request.v1`."""
Events = Mapping[str, float]
"""Seconds since the request's first byte left; negative for the handshake before it."""

HANDSHAKE = ("syn", "synack", "ack")
AT_CLIENT = ("request_first", "request_last", "request_acked", "response_first", "response_last")
AT_SERVER = ("request_first", "request_last", "response_first", "response_last")
CLOSED = "fin"
SERVER = "server."


@dataclass(frozen=True)
class Clocks:
    """How the clocks of two captures lie to each other, as `joined` of a `trace.v1` tells it."""

    offset: int
    """ns by which the second is ahead, at `since`."""
    drift: float
    """By how much it gains, as a share."""
    since: int
    """ns since the epoch, by the first capture's clock."""
    client_is_second: bool = False
    """Whether the second capture is the client's end."""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Clocks | None":
        """None where there is one capture only, or nothing bounds what lies between the clocks: of packets of one way
        alone nothing tells how long they were on it."""
        joined = document.get("joined")
        if joined is None or joined["uncertainty_ns"] is None:
            return None
        # Of an earlier probe, a document has not all that is told now.
        since = joined.get("offset_at_ns") or document["captures"][0].get("first_ns") or 0
        is_second = document["captures"][-1].get("end") == "client"
        return cls(int(joined["offset_ns"]), float(joined["drift_ppm"]) / 1e6, int(since), is_second)

    def at_client(self, time: int) -> int:
        """A time of the server's end by the clock of the client's."""
        return self.second_from_first(time) if self.client_is_second else self.first_from_second(time)

    # Whole numbers: as a floating-point number, a time since the epoch is known to 256 ns and no better.

    def first_from_second(self, time: int) -> int:
        ahead = time - self.offset
        # What was gained counts from when it is by the first.
        return ahead - round(self.drift / (1 + self.drift) * (ahead - self.since))

    def second_from_first(self, time: int) -> int:
        return time + self.offset + round(self.drift * (time - self.since))


def name_request(line: Line) -> str:
    """ "GET /index.html", or as much of it as was captured."""
    # Of an earlier probe, a line has not all that is told now.
    return f"{line['method']} {line.get('target') or ''}".strip() or "–"


def measure_total(line: Line) -> float | None:
    """Seconds from its first byte to the last of its reply; None of one without a whole reply."""
    began, ended = line["request_first"], line["response_last"]
    return None if began is None or ended is None else (ended - began) / 1e9


def given_up(line: Line) -> int | None:
    """When the connection of a request without a reply closed, if that was seen, and seen after the request."""
    asked, closed = line["request_last"] or line["request_first"], line[CLOSED]
    return closed if "unanswered" in line["flags"] and asked and closed and closed > asked else None


def find_events(line: Line, clocks: Clocks | None) -> dict[str, float]:
    """What was seen of a request, by the clock of the client's end. Nothing when its beginning was not seen."""
    began = line["request_first"]
    if began is None:
        return {}
    names = (*(HANDSHAKE if line["number"] == 0 else ()), *AT_CLIENT)
    found = {name: (line[name] - began) / 1e9 for name in names if line[name] is not None}
    closed = given_up(line)
    if closed is not None:
        found[CLOSED] = (closed - began) / 1e9
    joined = line.get("joined")
    if joined is not None and clocks is not None:
        for name in AT_SERVER:
            if joined[name] is not None:
                found[SERVER + name] = (clocks.at_client(joined[name]) - began) / 1e9
    return found


def parse_lines(text: Iterable[bytes]) -> Iterator[Line]:
    """By pydantic's parser, for of a large capture there are many; the standard library's is much slower."""
    return map(from_json, text)


def find_typical(requests: Iterable[Events]) -> dict[str, float]:
    """The median of each event that at least half of the answered requests have, by time."""
    seen: dict[str, array[float]] = {}
    count = 0
    for request in requests:
        if "response_last" not in request:
            continue
        count += 1
        for name, time in request.items():
            seen.setdefault(name, array("d")).append(time)
    medians = {name: statistics.median(times) for name, times in seen.items() if 2 * len(times) >= count}
    return dict(sorted(medians.items(), key=lambda event: event[1]))
