"""What a `trace.v1` says, as small tables for people. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from nearmetal.report import figures
from nearmetal.trace.events import measure_total, name_request
from nearmetal.trace.request_choice import ChosenRequest


@dataclass(frozen=True)
class TraceTable:
    """A table whose first column names what its others tell."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def is_of_numbers(self, column: int) -> bool:
        """Whether a column stands at the right."""
        return column > 0 and self.columns[column] not in _WORDS


_WORDS = frozenset({"end", "problem"})
"""Columns that say something."""

_SIDE = (
    ("segments with payload", "segments"),
    ("bytes of payload", "payload_bytes"),
    ("coalesced: longer than a packet of the wire", "coalesced"),
    ("retransmitted", "retransmitted"),
    ("of those needless", "spurious"),
    ("reordered", "reordered"),
    ("captured twice", "duplicates"),
    ("acknowledgements alone", "acks"),
    ("of those repeated", "duplicate_acks"),
    ("bytes that the capture missed", "missed_bytes"),
)
_SELDOM = (
    ("acknowledgements with SACK blocks", "selective_acks"),
    ("SYN or FIN sent again", "repeated_controls"),
    ("resets, by which connections are refused or broken off", "resets"),
    ("to hear whether the other end is there, or takes more", "keep_alives"),
    ("that take no more for now: who sends waits", "zero_windows"),
)
"""Told where there are any."""
_BETWEEN = (
    ("packets that left", "left"),
    ("that arrived", "arrived"),
    ("segments lost", "lost"),
    ("packets without payload lost", "lost_bare"),
    ("segments overtaken", "reordered"),
    ("packets without payload overtaken", "reordered_bare"),
    ("duplicated", "duplicated"),
)
_SELDOM_BETWEEN = (
    ("arrived, but not seen leaving", "unsent"),
    ("too near to the begin or the end to tell", "unsettled"),
)
_PROTOCOLS = (
    ("with HTTP", "http"),
    ("encrypted, so that requests cannot be seen", "tls"),
    ("with another protocol", "other"),
    ("whose protocol was not captured", "unknown"),
    ("without any payload", "nothing"),
)
_OPTIONS = (
    ("whose handshake was captured", "known"),
    ("of those with timestamps", "timestamps"),
    ("of those with selective acknowledgements", "selective_acks"),
    ("of those with window scaling", "window_scale"),
)
_PHASES = (
    ("connecting", "connect_ns"),
    ("sending the request", "send_ns"),
    ("waiting for the reply", "wait_ns"),
    ("receiving it", "transfer_ns"),
    ("all of it", "total_ns"),
)
_SHARES = (
    ("the client sends", "client_ns"),
    ("on the way, there and back", "network_ns"),
    ("the server thinks", "server_ns"),
    ("the server sends", "transfer_ns"),
)
_COUNTS = (
    ("bytes of a request", "request_bytes"),
    ("bytes of a reply", "response_bytes"),
    ("segments of a reply", "response_segments"),
    ("acknowledgements of a reply", "response_acks"),
)


def are_strangers(document: Mapping[str, Any]) -> bool:
    """Whether two captures have no TCP packet in common: what the document tells is then of one end of each."""
    return len(document["captures"]) > 1 and document["joined"] is None


def summarise_trace(document: Mapping[str, Any]) -> list[TraceTable]:
    """Tables in the order in which they are read; what there is nothing of is left out.

    Of captures with nothing in common, only what each of them is.
    """
    if are_strangers(document):
        return [_summarise_captures(document, "Two captures with no TCP packet in common")]
    tables = [_summarise_captures(document, _describe_found(document)), _summarise_sides(document)]
    each, joined = document["each_request"], document["joined"]
    if document["requests"]:
        tables.append(TraceTable("Time of requests", _SPREAD, tuple(_show_spreads(_PHASES, each, _show_seconds))))
        tables.append(TraceTable("Size of requests", _SIZES, tuple(_show_spreads(_COUNTS, each, "{:,.0f}".format))))
    if joined is not None:
        if joined["requests"]:
            rows = tuple(_show_spreads(_SHARES, joined["each_request"], _show_seconds))
            tables.append(TraceTable("Where that time went, by both captures", _SPREAD, rows))
        tables.append(_summarise_between(joined, document["captures"][-1]["end"]))
    if document["connections"]:
        # Of an earlier probe, a document has not all that is told now.
        told = [(name, document["protocols"].get(key, 0)) for name, key in _PROTOCOLS]
        told += [(name, document["options"][key]) for name, key in _OPTIONS]
        rows = tuple((name, f"{count:,}") for name, count in told if count)
        tables.append(TraceTable("Connections", ("", "connections"), rows))
    if document["ignored"]:
        counts = sorted(document["ignored"].items(), key=lambda one: (-one[1], one[0]))
        rows = tuple((name, f"{count:,}") for name, count in counts)
        of_both = ", in both captures together" if len(document["captures"]) > 1 else ""
        tables.append(TraceTable(f"Not followed, by what it is{of_both}", ("", "packets"), rows))
    return tables


_SPREAD = ("", "median", "90 %", "99 %", "longest", "of")
_SIZES = ("", "median", "90 %", "99 %", "largest", "of")


def _summarise_captures(document: Mapping[str, Any], caption: str) -> TraceTable:
    is_any_bad = any(one["problem"] for one in document["captures"])
    rows = tuple(
        (
            PurePath(one["file"]).name,
            str(one["end"] or "–"),
            f"{one['packets']:,}",
            figures.format_quantity(one["bytes"], "B"),
            _show_length(one),
            *([str(one["problem"] or "–")] if is_any_bad else []),
        )
        for one in document["captures"]
    )
    problem = ("problem",) if is_any_bad else ()
    return TraceTable(caption, ("capture", "end", "packets", "bytes", "lasts", *problem), rows)


def _show_length(one: Mapping[str, Any]) -> str:
    first, last = one["first_ns"], one["last_ns"]
    return "–" if first is None or last is None else _show_seconds(last - first)


def _describe_found(document: Mapping[str, Any]) -> str:
    answered = figures.join_listing(f"{count:,} × {status}" for status, count in document["status"].items())
    replies = f", answered {answered}" if document["status"] else ""
    requests = figures.format_count(document["requests"], "request")
    unanswered = f", {document['unanswered']:,} unanswered" if document["unanswered"] else ""
    replies_alone = figures.format_count(document["unasked"], "reply", "replies")
    unasked = (
        f"; {replies_alone} to what was not captured, or is no request that can be read" if document["unasked"] else ""
    )
    connections = figures.format_count(document["connections"], "connection")
    return f"{requests} on {connections}{replies}{unanswered}{unasked}"


def _of_both(
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    always: tuple[tuple[str, str], ...],
    seldom: tuple[tuple[str, str], ...],
) -> list[tuple[str, ...]]:
    # Of an earlier probe, a document has not all that is told now.
    there = [(name, key) for name, key in seldom if one.get(key) or other.get(key)]
    return [(name, f"{one[key]:,}", f"{other[key]:,}") for name, key in (*always, *there)]


def _summarise_sides(document: Mapping[str, Any]) -> TraceTable:
    client, server = document["client"], document["server"]
    rows = _of_both(client, server, _SIDE, _SELDOM)
    writes = [_find_joinable(document[side]) for side in ("client", "server")]
    if any(writes):
        rows.append(("writes held back and joined", *(f"{one['joined']:,}" if one else "–" for one in writes)))
        sizes = (figures.format_quantity(one["size"], "B") if one else "–" for one in writes)
        rows.append(("bytes of a write", *sizes))
    return TraceTable("What was sent", ("", "by clients", "by servers"), tuple(rows))


def _find_joinable(side: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What is told of its writes, unless one is larger than every segment: it is cut then, and joined with none."""
    writes: Mapping[str, Any] | None = side["writes"]
    largest = max((bucket["to"] for bucket in side["sizes"]), default=0)
    return writes if writes is not None and writes["size"] <= largest else None


def _summarise_between(joined: Mapping[str, Any], second_end: str) -> TraceTable:
    there, back = joined["there"], joined["back"]
    rows = _of_both(there, back, _BETWEEN, _SELDOM_BETWEEN)
    delays = [joined[way]["delay_ns"] for way in ("there", "back")]
    if joined["uncertainty_ns"] is not None:
        rows.append(("median delay", *(_show_seconds(one["median"]) if one["count"] else "–" for one in delays)))
    return TraceTable(
        f"Between the captures; {_describe_offset(joined, second_end)}", ("", "to the server", "back"), tuple(rows)
    )


def _describe_offset(joined: Mapping[str, Any], second_end: str) -> str:
    offset, drift = joined["offset_ns"], joined["drift_ppm"]
    if joined["uncertainty_ns"] is None:
        return "nothing tells how their clocks differ: the packets that both hold went the same way"
    gains = f", and {'gains' if drift > 0 else 'loses'} {abs(drift):.3g} µs a second" if drift else ""
    within = f", within {_show_seconds(joined['uncertainty_ns'])}"
    side = "ahead" if offset >= 0 else "behind"
    return f"the {second_end}'s clock is {_show_seconds(abs(offset))} {side}{within}{gains}"


def _show_spreads(
    wanted: tuple[tuple[str, str], ...], spreads: Mapping[str, Any], shown: Callable[[float], str]
) -> Iterator[tuple[str, ...]]:
    for name, key in wanted:
        one = spreads[key]
        if one["count"]:
            yield (name, *(shown(one[at]) for at in ("median", "p90", "p99", "max")), f"{one['count']:,}")


def _show_seconds(nanoseconds: float) -> str:
    return figures.format_quantity(nanoseconds / 1e9, "s") if nanoseconds else "0 s"


def list_slowest(requests: Sequence[ChosenRequest]) -> TraceTable:
    """The slowest requests: each by what it asked for, and by the number that shows its events."""
    rows = tuple(
        (
            name_request(one.line),
            str(one.number),
            str(one.line["status"] or "–"),
            figures.format_quantity(measure_total(one.line) or 0.0, "s"),
        )
        for one in requests
    )
    return TraceTable("The slowest requests", ("", "--request", "status", "time"), rows)
