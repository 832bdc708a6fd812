"""Captures as one self-contained page: what they hold, a typical request, and the requests over time."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from nearmetal.report import figures, palette, words
from nearmetal.report.charts.ladder import ladder
from nearmetal.report.charts.requests import Bar, timeline
from nearmetal.report.drawing import draw
from nearmetal.report.page import style
from nearmetal.trace import ladder as text
from nearmetal.trace.chosen import Chosen
from nearmetal.trace.events import Events, Line
from nearmetal.trace.summary import Summary

MOST = 2000
"""Requests that are drawn: more could not be told apart."""

_PHASES = (
    ("connecting", "syn", "ack"),
    ("sending", "request_first", "request_last"),
    ("waiting", "request_last", "response_first"),
    ("receiving", "response_first", "response_last"),
)


def bars(requests: Sequence[Line]) -> list[Bar]:
    """Of each phase that was seen; rows are the connections in the order in which they appear."""
    rows: dict[int, int] = {}
    times = [line[name] for line in requests for name in ("syn", "request_first") if line[name] is not None]
    began = min(times, default=0)
    found = []
    for line in requests:
        row = rows.setdefault(line["connection"], len(rows))
        for phase, first, last in _PHASES:
            if line[first] is None or line[last] is None or (phase == "connecting" and line["number"] > 0):
                continue
            found.append(Bar(row, phase, (line[first] - began) / 1e9, (line[last] - began) / 1e9))
    return found


def html(
    names: Sequence[str],
    summary: Sequence[Summary],
    chosen: tuple[Chosen, Events] | None,
    requests: Sequence[Line],
    count: int,
) -> str:
    """The page; `count` is how many requests there are in all."""
    title = f"Requests in {figures.listing(names)}"
    parts = []
    if chosen is not None:
        request, events = chosen
        drawn = ladder(f"Request {request.number}", "", palette.environments(["this"], None)["this"], events)
        parts += ["<h2>One request</h2>", f"<p>{_safe(text.heading(request.line))}</p>", _figure(drawn)]
    if requests:
        shown = f"the first {len(requests):,} of {count:,} requests" if count > len(requests) else "all requests"
        parts += ["<h2>Over time</h2>", _figure(timeline(shown.capitalize(), "", bars(requests)))]
    parts += ["<h2>In figures</h2>", *_tables(summary)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_safe(title)}</title>\n<style>{style()}</style>\n</head>\n<body>\n"
        f'<header><p class="kicker">nearmetal trace</p><h1>{_safe(title)}</h1></header>\n<main>\n<section>\n'
        + "\n".join(parts)
        + "\n</section>\n</main>\n</body>\n</html>\n"
    )


def _safe(value: str) -> str:
    return escape(words.plain(value))


def _figure(spec: Mapping[str, object]) -> str:
    return f'<figure class="picture">{draw(spec).svg}</figure>'


def _tables(summary: Sequence[Summary]) -> Iterator[str]:
    for one in summary:
        head = "".join(f'<th scope="col">{_safe(name)}</th>' for name in one.columns)
        rows = "".join(f"<tr>{''.join(f'<td>{_safe(value)}</td>' for value in row)}</tr>" for row in one.rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        caption = f"<figcaption>{_safe(one.caption)}</figcaption>"
        yield f'<figure class="table">{caption}<div class="scroll" tabindex="0">{table}</div></figure>'
