"""Captures as one self-contained page: what they hold, a typical request, and the requests over time."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from html import escape

from nearmetal.report import figures, palette, words
from nearmetal.report.charts.grammar import NARROW, WIDE
from nearmetal.report.charts.ladder import draw_ladder
from nearmetal.report.charts.requests import UNANSWERED, Bar, draw_timeline
from nearmetal.report.drawing import draw_svg
from nearmetal.report.page import make_policy, read_script, render_style
from nearmetal.trace import ladder as text
from nearmetal.trace.events import SERVER, Events, Line, given_up
from nearmetal.trace.request_choice import ChosenRequest
from nearmetal.trace.summary import TraceTable

MOST = 2000
"""Requests that are drawn."""
_APART = 150
"""Requests in a row, on the average, that can still be told apart. Of more, the first ones are drawn once again."""
_FIRST = 40
"""Requests that are then drawn by themselves, of the row that has so many first."""

_ALONE = (
    "A dashed arrow is a packet as the capture saw it leave or come; how long it was on its way takes both ends. "
    "In a capture of the server's end, it leaves and comes as the server saw it."
)

_SHARED = "A row has one connection at a time: one that begins after another's last reply may follow it there."

_PHASES = (
    ("connecting", "syn", "ack"),
    ("sending", "request_first", "request_last"),
    ("waiting", "request_last", "response_first"),
    ("receiving", "response_first", "response_last"),
)


def rows_of(requests: Sequence[Line]) -> dict[int, int]:
    """A row for each connection: the first one that is free from its first event to its last."""
    spans: dict[int, tuple[int, int]] = {}
    for line in requests:
        times = (*(line[name] for phase in _PHASES for name in phase[1:]), given_up(line))
        seen = [time for time in times if time is not None]
        begin, end = spans.get(line["connection"], (min(seen), max(seen)))
        spans[line["connection"]] = min(begin, *seen), max(end, *seen)
    rows: dict[int, int] = {}
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for connection, (begin, end) in sorted(spans.items(), key=lambda one: one[1]):
        while busy and busy[0][0] < begin:
            heappush(free, heappop(busy)[1])
        rows[connection] = heappop(free) if free else len(busy)
        heappush(busy, (end, rows[connection]))
    return rows


def list_beginning(requests: Sequence[Line], rows: Mapping[int, int]) -> list[Line]:
    """Those that had begun when some row had as many as can be told apart."""
    seen = Counter[int]()
    found = []
    for line in sorted(requests, key=lambda line: line["request_first"] or 0):
        row = rows[line["connection"]]
        if seen[row] == _FIRST:
            break
        seen[row] += 1
        found.append(line)
    return found


def list_bars(requests: Sequence[Line], rows: Mapping[int, int]) -> list[Bar]:
    """Of each phase that was seen, in the row of its connection."""
    times = [line[name] for line in requests for name in ("syn", "request_first") if line[name] is not None]
    began = min(times, default=0)
    found = []
    for line in requests:
        row = rows[line["connection"]]
        for phase, first, last in _PHASES:
            if line[first] is None or line[last] is None or (phase == "connecting" and line["number"] > 0):
                continue
            found.append(Bar(row, phase, (line[first] - began) / 1e9, (line[last] - began) / 1e9))
        asked = line["request_last"] or line["request_first"]
        if "unanswered" in line["flags"] and asked is not None:
            found.append(Bar(row, UNANSWERED, (asked - began) / 1e9, ((given_up(line) or asked) - began) / 1e9))
    return found


def render_page(
    names: Sequence[str],
    summary: Sequence[TraceTable],
    chosen: tuple[ChosenRequest, Events] | None,
    requests: Sequence[Line],
    count: int,
    warnings: Sequence[str] = (),
) -> str:
    """The page; `count` is how many requests there are in all."""
    title = f"Requests in {figures.join_listing(names)}"
    parts = [f'<p class="notice warning"><strong>Warning.</strong> {_escape_text(warning)}</p>' for warning in warnings]
    if chosen is not None:
        request, events = chosen
        drawn = draw_ladder(f"Request {request.number}", "", palette.colour_environments(["this"])["this"], events)
        heading = f"<p>{_escape_text(text.describe_request(request.line))}</p>"
        caption = "" if any(name.startswith(SERVER) for name in events) else _ALONE
        parts += ["<h2>One request</h2>", heading, _in_figure(draw_svg(drawn), caption)]
    rows = rows_of(requests)
    drawn_bars = list_bars(requests, rows)
    if any(bar.is_drawn for bar in drawn_bars):
        shared = _SHARED if len(set(rows.values())) < len(rows) else ""
        shown = f"the first {len(requests):,} of {count:,} requests" if count > len(requests) else "all requests"
        parts += ["<h2>Over time</h2>", _draw_timeline(shown.capitalize(), drawn_bars, shared)]
        used = len(set(rows.values()))
        if len(requests) > _APART * used:
            first = list_beginning(requests, rows)
            parts.append(_draw_timeline(f"The first {len(first):,} requests", list_bars(first, rows)))
    parts += ["<h2>In figures</h2>", *_render_tables(summary)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{make_policy()}">\n'
        f"<title>{_escape_text(title)}</title>\n<style>{render_style()}</style>\n</head>\n<body>\n"
        f'<header><p class="kicker">nearmetal trace</p><h1>{_escape_text(title)}</h1></header>\n<main>\n<section>\n'
        + "\n".join(parts)
        + '\n</section>\n</main>\n<p id="tip" aria-hidden="true" hidden></p>\n'
        + f"<script>{read_script()}</script>\n</body>\n</html>\n"
    )


def _escape_text(value: str) -> str:
    return escape(words.strip_controls(value))


def _draw_timeline(title: str, drawn: Sequence[Bar], caption: str = "") -> str:
    """Twice, as the report has its widest pictures: for a desktop, and for a phone."""
    wide, slim = (draw_svg(draw_timeline(title, "", drawn, width)) for width in (WIDE, NARROW))
    return _in_figure(f'<div class="wide">{wide}</div><div class="slim">{slim}</div>', caption)


def _in_figure(picture: str, caption: str) -> str:
    told = f"<figcaption>{_escape_text(caption)}</figcaption>" if caption else ""
    return f'<figure class="picture">{picture}{told}</figure>'


def _render_tables(summary: Sequence[TraceTable]) -> Iterator[str]:
    for one in summary:
        kinds = [' class="number"' if one.is_of_numbers(at) else "" for at in range(len(one.columns))]
        head = _render_cells("th", [f' scope="col"{kind}' for kind in kinds], one.columns)
        rows = "".join(f"<tr>{_render_cells('td', kinds, row)}</tr>" for row in one.rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        caption = f"<figcaption>{_escape_text(one.caption)}</figcaption>"
        yield f'<figure class="table">{caption}<div class="scroll" tabindex="0">{table}</div></figure>'


def _render_cells(tag: str, kinds: Sequence[str], row: Sequence[str]) -> str:
    return "".join(f"<{tag}{kind}>{_escape_text(value)}</{tag}>" for kind, value in zip(kinds, row, strict=True))
