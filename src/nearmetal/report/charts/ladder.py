"""A request as a ladder: two lifelines, the client's and the server's, time downwards, a line for each message.

What happens at both ends is drawn as it was seen at each, so that a slanted line is a message on its way. A packet that
the client's end alone saw is a dashed arrow that goes half the way.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nearmetal.report import figures, palette
from nearmetal.report.charts.grammar import HALF, Spec, make_chart, make_field, make_layer, own_colour
from nearmetal.report.charts.tooltips import join_tip

_WIDTH, _HEIGHT = HALF - 12, 250
_CLIENT, _SERVER = 162.0, 237.0
"""Where the lifelines stand, in px: beside them the longest texts find room, with any font."""
_TEXT = 12.0
_BESIDE = 16.0
"""Pixels between a lifeline and its texts."""
_TOP = 24.0
_APART = 15.0
"""Pixels between the lines of two labels."""
_CLOSED = "fin"
"""No packet of which it is known who sent it."""
WORDS = {
    "syn": "SYN leaves",
    "synack": "SYN-ACK",
    "ack": "handshake",
    "request_first": "request leaves",
    "server.request_first": "request arrives",
    "request_last": "last byte",
    "server.request_last": "last byte",
    "request_acked": "acknowledged",
    "server.response_first": "reply leaves",
    "response_first": "reply arrives",
    "server.response_last": "last byte",
    "response_last": "last byte",
    _CLOSED: "closed",
}
"""What is said of each event; in the order in which they follow each other, where nothing is in the way."""
_ORDER = {name: place for place, name in enumerate(WORDS)}
_MESSAGES = (
    ("request_first", "server.request_first"),
    ("request_last", "server.request_last"),
    ("server.response_first", "response_first"),
    ("server.response_last", "response_last"),
)
TO_SERVER = frozenset({"syn", "ack", "request_first", "request_last"})
"""Of the events at the client's end, those of packets that leave; the others are of packets that arrive."""
_SAME = 0.004
"""Share of the whole: events that are closer than this are one packet's, and told once."""


_Layer = Callable[..., Spec]
"""A `layer` whose places are those of the ladder."""


def list_shown(events: Mapping[str, float]) -> dict[str, float]:
    """The events to tell, by time: one for each packet. Of the same time, a packet leaves before it arrives."""
    whole = max(events.values()) - min(events.values()) if events else 0.0
    kept = {
        name: time
        for name, time in events.items()
        if not (before := _find_companion(name)) or abs(time - events.get(before, -1e9)) > _SAME * whole
    }
    return dict(sorted(kept.items(), key=lambda event: (event[1], _ORDER[event[0]])))


def _find_companion(name: str) -> str:
    """What an event may come together with; "" for one that is always told."""
    return "response_first" if name == "request_acked" else name.replace("_last", "_first") * name.endswith("_last")


def draw_ladder(title: str, subtitle: str, colour: str, events: Mapping[str, float]) -> Spec:
    """One picture. `events` are seconds by name, as nearmetal.trace.events has them; at least two."""
    events = list_shown(events)
    begin, end = min(events.values()), max(events.values())
    scale = (_HEIGHT - 2 * _TOP) / ((end - begin) or 1.0)
    y = {name: _TOP + (time - begin) * scale for name, time in events.items()}
    on = partial(
        make_layer,
        x=make_field("x", scale={"domain": [0, _WIDTH], "range": [0, _WIDTH], "nice": False, "zero": False}, axis=None),
        y=make_field("y", scale={"domain": [_HEIGHT, 0], "nice": False, "zero": False}, axis=None),
    )
    tips = _Tips(title, events)
    layers = [
        *_draw_downwards(y, colour, on, tips),
        *_draw_across(y, colour, on, tips),
        *_draw_events(y, events, colour, on, tips),
    ]
    return make_chart(title, subtitle, _WIDTH, _HEIGHT, layers)


@dataclass(frozen=True)
class _Tips:
    """What the marks of a ladder say, in seconds from its first event."""

    title: str
    events: Mapping[str, float]

    def tell_event(self, name: str) -> str:
        side = "server" if name.startswith("server.") else "client"
        return join_tip(self.title, f"{side}: {WORDS[name]}", self._format(self.events[name]))

    def tell_span(self, what: str, first: str, last: str) -> str:
        return join_tip(self.title, what, self._format(self.events[last] - self.events[first]))

    def _format(self, seconds: float) -> str:
        return figures.format_quantity(seconds, "s")


def _draw_downwards(y: Mapping[str, float], colour: str, on: _Layer, tips: _Tips) -> Iterator[Spec]:
    """The lifelines, and on them how long a message is sent or comes in, and how long the server works."""
    lifelines = [{"x": x, "y": 0.0, "end": float(_HEIGHT)} for x in (_CLIENT, _SERVER)]
    messages = [
        {"x": _find_x(first), "y": y[first], "end": y[last], "colour": colour, "tip": tips.tell_span(what, first, last)}
        for what, first, last in (
            ("client: the request is sent", "request_first", "request_last"),
            ("client: the reply comes in", "response_first", "response_last"),
            ("server: the reply is sent", "server.response_first", "server.response_last"),
        )
        if first in y and last in y
    ]
    began = "server.request_last" if "server.request_last" in y else "server.request_first"
    answered = "server.response_first"
    is_seen = began in y and answered in y
    tip = tips.tell_span("the server works", began, answered) if is_seen else ""
    work = [{"x": _SERVER, "y": y[began], "end": y[answered], "tip": tip}] if is_seen else []
    end = {"field": "end"}
    yield on(lifelines, {"type": "rule", "color": palette.LINE}, y2=end)
    yield on(messages, {"type": "rule", "strokeWidth": 8, "strokeOpacity": 0.4}, y2=end, color=own_colour())
    # Not a lighter shade of anything: the reference's own colour is a grey.
    yield on(work, {"type": "rule", "strokeWidth": 3, "color": palette.INK}, y2=end)


def _draw_across(y: Mapping[str, float], colour: str, on: _Layer, tips: _Tips) -> Iterator[Spec]:
    """A line for each packet that both ends saw; half of a dashed one, with its head, for one that a single end saw."""
    crossings = [
        {
            "x": _find_x(a),
            "y": y[a],
            "x2": _find_x(b),
            "y2": y[b],
            "colour": colour,
            "tip": tips.tell_span("on its way", a, b),
        }
        for a, b in _MESSAGES
        if a in y and b in y
    ]
    alone = [name for name in y if _find_x(name) == _CLIENT and f"server.{name}" not in y and name != _CLOSED]
    halfway = (_CLIENT + _SERVER) / 2
    ways = [{"x": _CLIENT, "y": y[name], "x2": halfway, "colour": colour} for name in alone]
    to = {"field": "x2"}
    yield on(crossings, {"type": "rule", "strokeWidth": 1.6}, x2=to, y2={"field": "y2"}, color=own_colour())
    yield on(ways, {"type": "rule", "strokeWidth": 1.4, "strokeDash": [4, 3]}, x2=to, color=own_colour())
    for is_leaving, shape, x in ((True, "triangle-right", halfway), (False, "triangle-left", _CLIENT + 8)):
        heads = [{"x": x, "y": y[name], "colour": colour} for name in alone if (name in TO_SERVER) == is_leaving]
        yield on(heads, {"type": "point", "filled": True, "shape": shape, "size": 50}, color=own_colour())


def _draw_events(
    y: Mapping[str, float], events: Mapping[str, float], colour: str, on: _Layer, tips: _Tips
) -> Iterator[Spec]:
    """A dot for each event, its text beside it, and what the lifelines are called."""
    dots = [{"x": _find_x(name), "y": at, "colour": colour, "tip": tips.tell_event(name)} for name, at in y.items()]
    texts, leaders = _place_labels(y, events)
    names = [{"x": x, "y": 0.0, "text": text} for x, text in ((_CLIENT, "client"), (_SERVER, "server"))]
    text = make_field("text", "nominal")
    yield on(leaders, {"type": "rule", "color": palette.LINE}, x2={"field": "x2"}, y2={"field": "y2"})
    yield on(dots, {"type": "point", "filled": True, "size": 30}, color=own_colour())
    for side, align in (("client", "right"), ("server", "left")):
        beside = [one for one in texts if one["side"] == side]
        look = {"type": "text", "align": align, "baseline": "middle", "fontSize": _TEXT, "color": palette.INK}
        yield on(beside, look, text=text)
    yield on(
        names, {"type": "text", "baseline": "bottom", "dy": -3, "fontSize": 12.5, "color": palette.MUTED}, text=text
    )


def _find_x(name: str) -> float:
    return _SERVER if name.startswith("server.") else _CLIENT


def _place_labels(
    y: Mapping[str, float], events: Mapping[str, float]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What stands beside each lifeline, pushed apart where it would overlap, and lines to what it is about."""
    texts, leaders = [], []
    for side, x, out in (("client", _CLIENT, -1.0), ("server", _SERVER, 1.0)):
        names = [name for name in y if (_find_x(name) == _SERVER) == (side == "server")]
        for name, place in zip(names, spread_places([y[name] for name in names], _APART, _HEIGHT), strict=True):
            text = f"{WORDS[name]} {figures.format_quantity(events[name], 's')}" if events[name] else WORDS[name]
            texts.append({"x": x + _BESIDE * out, "y": place, "text": text, "side": side})
            leaders.append({"x": x + 4 * out, "y": y[name], "x2": x + 13 * out, "y2": place})
    return texts, leaders


def spread_places(places: Sequence[float], apart: float, most: float) -> list[float]:
    """Ascending places moved as little as it takes for each to be `apart` from the next, none beyond `most`."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + apart) if moved else place)
    limit = most
    for index in range(len(moved) - 1, -1, -1):
        moved[index] = min(moved[index], limit)
        limit = moved[index] - apart
    return moved
