"""Ladders of events, of text and drawn."""

import json
from itertools import pairwise

import pytest

from nearmetal.report import palette
from nearmetal.report.charts.ladder import WORDS, list_shown, spread_places
from nearmetal.report.charts.ladder import draw_ladder as drawn
from nearmetal.report.charts.text_width import measure_text
from nearmetal.trace import events
from nearmetal.trace.events import Clocks
from nearmetal.trace.ladder import describe_request, draw_ladder
from tests.unit.trace_golden import DOCUMENT, LINES, UNANSWERED


def test_a_ladder_of_text_has_a_line_for_each_event_by_time() -> None:
    told = list(draw_ladder(events.find_events(LINES[0], Clocks.from_document(DOCUMENT))))
    assert [line.split("  ")[-1] for line in told[1:]] == [
        "SYN leaves",
        "SYN-ACK",
        "handshake",
        "request leaves",
        "request arrives",
        "acknowledged",
        "reply leaves",
        "reply arrives",
    ]
    assert len({len(line.rsplit("  ", 1)[0]) for line in told[1:]}) == 1
    assert describe_request(LINES[0]).startswith("GET, status 200, 10.111.0.1:")
    assert describe_request({**LINES[0], "target": "/a"}).startswith("GET /a, status 200, 10.111.0.1:")


def test_flags_are_told_in_words() -> None:
    assert describe_request({**LINES[0], "flags": []}).endswith(" and 1 acknowledgement")
    told = describe_request({**LINES[0], "flags": ["head_cut", "handshake_unseen"]})
    assert told.endswith(" and 1 acknowledgement; HTTP heads seen in part, handshake unseen")


def test_labels_of_a_drawn_ladder_do_not_overlap() -> None:
    assert spread_places([10, 11, 12, 90], 15, 100) == [10, 25, 40, 90]
    assert spread_places([95, 96, 97], 15, 100) == [70, 85, 100]
    spec = drawn("host", "", "#000000", events.find_events(LINES[0], Clocks.from_document(DOCUMENT)))
    for layer in spec["layer"]:
        if layer["mark"]["type"] == "text":
            heights = sorted(row["y"] for row in layer["data"]["values"] if "side" in row)
            assert all(low + 15 <= high + 1e-9 for low, high in pairwise(heights))


@pytest.mark.parametrize("time", [33.3e-6, 0.0888, 0.444])
def test_labels_of_a_drawn_ladder_are_not_cut(time: float) -> None:
    told = {name: 0.0 if name == "request_first" else time for name in WORDS}
    spread_out = {name: at * (1 + place / 100) for place, (name, at) in enumerate(told.items())}
    spec = drawn("host", "", "#000000", spread_out)
    (right, left), texts = (0.0, 0.0), 0
    for layer in spec["layer"]:
        for row in layer["data"]["values"] if layer["mark"]["type"] == "text" else ():
            if "side" in row:
                wide = measure_text(row["text"], layer["mark"]["fontSize"])
                left = min(left, row["x"] - wide if row["side"] == "client" else 0.0)
                right = max(right, row["x"] + wide if row["side"] == "server" else 0.0)
                texts += 1
    assert texts == len(WORDS)
    assert left >= 0
    assert right <= spec["width"] + 5  # what surrounds every picture


def test_a_server_at_work_is_not_drawn_as_the_reference_is() -> None:
    spec = drawn("host", "", palette.REFERENCE, events.find_events(LINES[0], Clocks.from_document(DOCUMENT)))
    (work,) = [
        layer["mark"] for layer in spec["layer"] if layer["mark"].get("strokeWidth") == 3 and layer["data"]["values"]
    ]
    assert work["color"] == palette.INK
    assert palette.MUTED not in json.dumps([one for one in spec["layer"] if one["mark"]["type"] == "rule"])


def test_where_times_are_too_coarse_a_packet_leaves_before_it_arrives() -> None:
    told = {"response_first": 2e-6, "request_first": 0.0, "server.response_first": 2e-6, "server.request_first": 0.0}
    assert list(list_shown(told)) == [
        "request_first",
        "server.request_first",
        "server.response_first",
        "response_first",
    ]
    arrows = [line for line in draw_ladder(told) if "reply" in line]
    assert [line.split()[-1] for line in arrows] == ["leaves", "arrives"]


def test_a_ladder_is_drawn_into_the_room_there_is() -> None:
    told = events.find_events(LINES[0], Clocks.from_document(DOCUMENT))
    whole, narrow = list(draw_ladder(told)), list(draw_ladder(told, 40))
    assert max(map(len, narrow)) <= 40 < max(map(len, whole)) <= 80
    assert [line.split()[0] for line in narrow] == [line.split()[0] for line in whole]


def test_a_ladder_tells_when_a_request_without_a_reply_was_given_up() -> None:
    told = events.find_events(UNANSWERED, Clocks.from_document(DOCUMENT))
    assert told["fin"] == pytest.approx((UNANSWERED["fin"] - UNANSWERED["request_first"]) / 1e9)
    # Which side closed it is not told: no arrow.
    (line,) = [line for line in draw_ladder(told) if line.endswith("closed")]
    assert not set("▶◀●") & set(line)
    only = {name: told[name] for name in ("request_first", "server.request_first", "fin")}
    assert not [layer for layer in drawn("host", "", "#000000", only)["layer"] if "shape" in layer["mark"]]
    assert "fin" not in events.find_events({**LINES[1], "fin": LINES[1]["response_last"] + 1}, None)


def test_packets_of_one_end_are_arrows_too() -> None:
    alone = events.find_events(LINES[0], None)
    shapes = {
        layer["mark"]["shape"]: len(layer["data"]["values"])
        for layer in drawn("host", "", "#000000", alone)["layer"]
        if "shape" in layer["mark"]
    }
    # SYN, ACK and the request leave; SYN-ACK, the reply and an acknowledgement come.
    assert shapes == {"triangle-right": 3, "triangle-left": 3}
    joined = {
        name: time
        for name, time in events.find_events(LINES[1], Clocks.from_document(DOCUMENT)).items()
        if name != "request_acked"
    }
    assert not [layer for layer in drawn("host", "", "#000000", joined)["layer"] if "shape" in layer["mark"]]
