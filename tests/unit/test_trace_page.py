"""The page on captures: its slowest requests, its pictures, and nothing of a capture's own making."""

import json
from pathlib import Path
from typing import Any

import pytest

from nearmetal.report.charts.grammar import NARROW, WIDE
from nearmetal.report.charts.requests import PHASES, Bar, draw_timeline
from nearmetal.report.charts.requests import UNANSWERED as UNANSWERED_PHASE
from nearmetal.report.drawing import draw_svg
from nearmetal.report.page import make_policy, read_script
from nearmetal.trace import events, page, request_choice
from nearmetal.trace.events import AT_CLIENT, Clocks
from nearmetal.trace.request_choice import ChosenRequest
from nearmetal.trace.summary import list_slowest, summarise_trace
from tests.unit.trace_golden import DOCUMENT, LINES, UNANSWERED


def test_the_slowest_requests_are_told_by_their_numbers(tmp_path: Path) -> None:
    began = LINES[0]["request_first"]
    replies = [began + ms * 1_000_000 if ms else None for ms in (3, 9, 0, 5, 9, 1)]
    file = tmp_path / "lines"
    file.write_text(
        "".join(
            json.dumps({**LINES[0], "target": f"/{number}", "response_last": last}) + "\n"
            for number, last in enumerate(replies, 1)
        )
    )
    times = request_choice.list_totals(file)
    told = list_slowest(request_choice.list_slowest(file, times, 3))
    assert [row[:2] for row in told.rows] == [("GET /2", "2"), ("GET /5", "5"), ("GET /4", "4")]
    assert told.rows[2][2:] == ("200", "5 ms")
    picked = request_choice.choose_request(file, times, 6)
    assert picked and picked.number == 6 and picked.line["target"] == "/6"
    assert [one.number for one in request_choice.list_slowest(file, times, 9)] == [
        2,
        5,
        4,
        1,
        6,
    ]  # not the one without a reply


def test_a_page_holds_nothing_of_a_captures_own_making() -> None:
    evil = {**LINES[0], "method": "<script>", "target": "/<script>"}
    told = events.find_events(evil, Clocks.from_document(DOCUMENT))
    html = page.render_page(["<b>.pcap"], summarise_trace(DOCUMENT), (ChosenRequest(1, evil), told), LINES, 50)
    assert html.count("<script") == 1 and "<b>" not in html
    assert f"<script>{read_script()}</script>" in html, "ours, and the policy lets no other run"
    assert make_policy() in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert html.count("<svg") == 3, "the ladder, and requests over time for a desktop and for a phone"
    assert "The first 6 of 50 requests" in html


def test_each_bar_says_its_connection_phase_and_times() -> None:
    (layer,) = draw_timeline("t", "", [Bar(2, "waiting", 0.001, 0.003), Bar(0, UNANSWERED_PHASE, 1.0, 1.0)])["layer"]
    assert [one["tip"] for one in layer["data"]["values"]] == [
        "connection 3 · waiting 2 ms · from 1 ms",
        "connection 1 · unanswered · from 1 s",
    ]


def test_a_page_warns_of_what_the_captures_lack() -> None:
    warnings = ["a.pcap: 7 bytes were acknowledged but not captured", "<i>"]
    told = page.render_page(["a.pcap"], summarise_trace(DOCUMENT), None, LINES, 6, warnings)
    assert told.index("7 bytes were acknowledged") < told.index("In figures") and "<i>" not in told


def test_bars_stand_in_their_connections_row() -> None:
    moved = [{**line, "connection": 7} for line in LINES[3:]]
    both = [*LINES[:3], *moved]
    rows = {bar.row for bar in page.list_bars(both, page.rows_of(both))}
    assert rows == {0, 1}
    assert [bar.phase for bar in page.list_bars(LINES, page.rows_of(LINES))].count("connecting") == 1


def test_the_beginning_is_what_had_begun_when_a_row_was_full() -> None:
    def line(connection: int, at: int) -> dict[str, Any]:
        began = dict.fromkeys(("syn", "synack", "ack"), connection)
        return {**LINES[0], "connection": connection, **began, **dict.fromkeys(AT_CLIENT, at)}

    # One connection asks ten times as often as another; a third begins when the first has asked often.
    lines = [line(0, at) for at in range(100)] + [line(1, at) for at in range(0, 100, 10)] + [line(2, 90)]
    first = page.list_beginning(lines, page.rows_of(lines))
    assert [one["request_first"] for one in first if one["connection"] == 0] == list(range(40))
    assert [one["request_first"] for one in first if one["connection"] == 1] == [0, 10, 20, 30]
    assert not any(one["connection"] == 2 for one in first)


def test_connections_one_after_the_other_share_a_row() -> None:
    nothing = dict.fromkeys(("syn", "ack", "request_first", "request_last", "response_first", "response_last"))
    spans = [(0, 10), (5, 30), (11, 20), (12, 40), (31, 50)]
    lines: list[dict[str, Any]] = [
        {
            **nothing,
            "connection": number,
            "number": 0,
            "request_first": begin,
            "response_last": end,
            "fin": None,
            "flags": [],
        }
        for number, (begin, end) in enumerate(spans)
    ]
    assert page.rows_of(lines) == {0: 0, 1: 1, 2: 0, 3: 2, 4: 0}
    timed = [{**line, "request_last": line["request_first"], "response_first": line["response_last"]} for line in lines]
    told = page.render_page(["a.pcap"], summarise_trace(DOCUMENT), None, timed, 5)
    assert "one connection at a time" in told
    assert "one connection at a time" not in page.render_page(["a.pcap"], summarise_trace(DOCUMENT), None, timed[:2], 2)


def test_requests_that_are_too_many_to_be_told_apart_are_also_drawn_from_the_first_on() -> None:
    line = LINES[0]
    times = [name for name in ("request_first", "request_last", "response_first", "response_last") if line[name]]
    many = [{**line, **{name: line[name] + at * 10**9 for name in times}, "number": at} for at in range(151)]
    assert "The first 40 requests" in page.render_page(["a.pcap"], summarise_trace(DOCUMENT), None, many, 151)
    assert "The first 40 requests" not in page.render_page(["a.pcap"], summarise_trace(DOCUMENT), None, many[1:], 150)


def test_a_phase_that_took_no_time_is_not_drawn() -> None:
    bars = [Bar(0, "sending", 1.0, 1.0), Bar(0, "waiting", 1.0, 1.5), Bar(0, "receiving", 1.5, 1.5 + 1e-9)]
    for width in (WIDE, NARROW):
        spec = draw_timeline("", "", bars, width)
        (drawn,) = [layer["data"]["values"] for layer in spec["layer"]]
        assert [bar["phase"] for bar in drawn] == ["waiting", "receiving"]
        # What took next to none is as wide as can be seen.
        assert drawn[1]["to"] - drawn[1]["from"] > drawn[0]["to"] / spec["width"]


def test_a_phone_has_pictures_of_its_own_that_fit() -> None:
    """Of as many rows and phases as are drawn at most."""
    bars = [Bar(row, phase, row, row + 0.5) for row in range(page.MOST) for phase in PHASES]
    sizes = {width: _width(draw_svg(draw_timeline("All requests", "", bars, width))) for width in (WIDE, NARROW)}
    assert WIDE * 0.9 < sizes[WIDE] <= WIDE and NARROW * 0.9 < sizes[NARROW] <= NARROW
    html = page.render_page(["a.pcap"], summarise_trace(DOCUMENT), None, LINES, 6)
    wide, slim = (html.partition(f'<div class="{name}"><svg ')[2] for name in ("wide", "slim"))
    assert _width(wide) > NARROW and _width(slim) <= NARROW


def _width(drawn: str) -> float:
    return float(drawn.partition('width="')[2].partition('"')[0])


def test_a_request_that_was_not_answered_has_a_mark() -> None:
    line = {**UNANSWERED, "fin": None}
    (mark,) = [bar for bar in page.list_bars([line], {line["connection"]: 0}) if bar.phase == "unanswered"]
    assert mark.begin == mark.end == (line["request_last"] - line["syn"]) / 1e9
    assert "unanswered" in page.render_page(["a.pcap"], summarise_trace(DOCUMENT), None, [line], 1)


def test_a_request_that_was_not_answered_goes_on_until_its_connection_closed() -> None:
    later = {
        **UNANSWERED,
        "connection": 7,
        "request_first": UNANSWERED["fin"] - 1,
        "request_last": UNANSWERED["fin"] - 1,
    }
    rows = page.rows_of([UNANSWERED, later])
    assert rows[UNANSWERED["connection"]] != rows[7]
    (bar,) = [bar for bar in page.list_bars([UNANSWERED], rows) if bar.phase == "unanswered"]
    assert bar.end - bar.begin == pytest.approx(1.0)
    # What a server closed before the request came to it was not waited for until then.
    early = {**UNANSWERED, "fin": UNANSWERED["request_first"] - 5}
    (bar,) = [bar for bar in page.list_bars([early], rows) if bar.phase == "unanswered"]
    assert bar.begin == bar.end
    assert "fin" not in events.find_events(early, None)


def test_requests_that_took_no_time_have_no_picture() -> None:
    moment = dict.fromkeys(("request_first", "request_last", "response_first", "response_last"), 5)
    line = {**LINES[1], **moment}
    assert "<svg" not in page.render_page(["a.pcap"], summarise_trace(DOCUMENT), None, [line], 1)


def test_numbers_of_a_page_stand_at_the_right() -> None:
    told = page.render_page(["a.pcap"], summarise_trace(DOCUMENT), None, LINES, 6)
    assert '<th scope="col" class="number">packets</th>' in told
    assert '<th scope="col">end</th>' in told
    assert '<td class="number">50</td>' in told
