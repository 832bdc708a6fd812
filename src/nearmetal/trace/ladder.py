"""A request as lines of text: time downwards, the client at the left, the server at the right. Pure."""

from collections.abc import Iterator, Mapping

from nearmetal.report import figures
from nearmetal.report.charts.ladder import TO_SERVER, WORDS, shown
from nearmetal.trace.events import SERVER, Line

_GAP = 24
"""Characters between the two lifelines."""
_TO_CLIENT = ("synack", "response_first", "response_last", "request_acked")


def ladder(events: Mapping[str, float]) -> Iterator[str]:
    """A line for each event, by time. Arrows are packets as they leave, or as they come where no departure is known."""
    told = shown(events)
    wide = max((len(_time(time)) for time in told.values()), default=0)
    yield f"{'time':>{wide}}  client{' ' * (_GAP - 4)}server"
    for name, time in told.items():
        yield f"{_time(time):>{wide}}  {_drawn(name, told)}  {WORDS[name]}"


def _time(time: float) -> str:
    return figures.quantity(time, "s") if time else "0 s"


def _drawn(name: str, told: Mapping[str, float]) -> str:
    line = "─" * (_GAP - 2)
    if name.startswith(SERVER):
        return f"◀{line}─●" if "response" in name else f"│{' ' * (_GAP - 1)}●"
    if name in TO_SERVER:
        return f"●{line}─▶"
    if name in _TO_CLIENT and SERVER + name in told:
        return f"●{' ' * (_GAP - 1)}│"
    return f"◀{line}─┤"


def heading(line: Line) -> str:
    """ "GET, status 200, 10.0.0.1:40000 → 10.0.0.2:80, the 3rd on its connection"."""
    status = "no reply" if line["status"] is None else f"status {line['status']}"
    sent, answered = line["request"], line["response"]
    size = (
        f"{figures.quantity(sent['bytes'], 'B')} in {figures.count(sent['segments'], 'segment')}, answered by "
        f"{figures.quantity(answered['bytes'], 'B')} in {figures.count(answered['segments'], 'segment')} "
        f"and {figures.count(answered['acks'], 'acknowledgement')}"
    )
    flags = f"; {', '.join(flag.replace('_', ' ') for flag in line['flags'])}" if line["flags"] else ""
    return f"{line['method']}, {status}, {line['client']} → {line['server']}: {size}{flags}"
