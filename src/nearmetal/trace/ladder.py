"""A request as lines of text: time downwards, the client at the left, the server at the right. Pure."""

from collections.abc import Iterator, Mapping

from nearmetal.report import figures
from nearmetal.report.charts.ladder import TO_SERVER, WORDS, list_shown
from nearmetal.trace.events import CLOSED, SERVER, Line, name_request

_GAP = 24
"""Characters between the two lifelines, where there is room for them."""
_LEAST_GAP = 6
_FLAGS = {"head_cut": "HTTP heads seen in part"}
"""Flags whose names say too little to who meets them for the first time."""
_TO_CLIENT = ("synack", "response_first", "response_last", "request_acked")


def draw_ladder(events: Mapping[str, float], room: int = 80) -> Iterator[str]:
    """A line for each event, by time. Arrows are packets as they leave, or as they come where no departure is known.

    Its lines fit into a terminal with `room` for so many characters, as far as they can.
    """
    told = list_shown(events)
    wide = max((len(_show_time(time)) for time in told.values()), default=0)
    words = max((len(WORDS[name]) for name in told), default=0)
    gap = max(_LEAST_GAP, min(_GAP, room - (wide + 2 + 2 + 2 + words)))
    yield f"{'time':>{wide}}  client{' ' * (gap - 4)}server"
    for name, time in told.items():
        yield f"{_show_time(time):>{wide}}  {_draw_arrow(name, told, gap)}  {WORDS[name]}"


def _show_time(time: float) -> str:
    return figures.format_quantity(time, "s") if time else "0 s"


def _draw_arrow(name: str, told: Mapping[str, float], gap: int) -> str:
    line = "─" * (gap - 2)
    if name == CLOSED:
        return f"├{line}─┤"
    if name.startswith(SERVER):
        return f"◀{line}─●" if "response" in name else f"│{' ' * (gap - 1)}●"
    if name in TO_SERVER:
        return f"●{line}─▶"
    if name in _TO_CLIENT and SERVER + name in told:
        return f"●{' ' * (gap - 1)}│"
    return f"◀{line}─┤"


def _describe_message(message: Line) -> str:
    return f"{figures.format_quantity(message['bytes'], 'B')} in {figures.format_count(message['segments'], 'segment')}"


def describe_request(line: Line) -> str:
    """ "GET /, status 200, 10.0.0.1:40000 → 10.0.0.2:80: 70 B in 1 segment, answered by 511 B in 1 segment and …"."""
    status = "no reply" if line["status"] is None else f"status {line['status']}"
    if line["status"] is None and line["response"]["bytes"]:
        status = "a reply whose status was not captured"
    sent, answered = line["request"], line["response"]
    size = _describe_message(sent)
    if answered["bytes"]:
        size += (
            f", answered by {_describe_message(answered)} and "
            f"{figures.format_count(answered['acks'], 'acknowledgement')}"
        )
    flags = ", ".join(_FLAGS.get(flag, flag.replace("_", " ")) for flag in line["flags"])
    return f"{name_request(line)}, {status}, {line['client']} → {line['server']}: {size}{'; ' if flags else ''}{flags}"
