"""What is made of the probe's documents on captures: figures for records, events on one clock, ladders, pages."""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nearmetal.analysis.traits import TRAITS
from nearmetal.model import TrialRecord
from nearmetal.observers import _capture_counters
from nearmetal.report import palette
from nearmetal.report.charts.ladder import WORDS, shown, spread
from nearmetal.report.charts.ladder import ladder as drawn
from nearmetal.report.charts.requests import Bar, timeline
from nearmetal.report.charts.text import measured
from nearmetal.trace import chosen, events, page, slowest
from nearmetal.trace.chosen import Chosen
from nearmetal.trace.events import AT_CLIENT, Clocks
from nearmetal.trace.figures import figures
from nearmetal.trace.ladder import heading, ladder
from nearmetal.trace.summary import summary
from nearmetal.units import MIB

from .workloads_stage import golden

DOCUMENT: dict[str, Any] = json.loads(golden("trace/trace-0.json"))
LINES = [json.loads(line) for line in golden("trace/requests.jsonl").splitlines()]

WITHOUT_REPLY = {"response_first": None, "response_last": None, "flags": ["unanswered"]}
UNANSWERED = LINES[1] | WITHOUT_REPLY | {"fin": LINES[1]["request_last"] + 10**9}


def test_a_record_keeps_what_each_request_took() -> None:
    told = figures(DOCUMENT)
    assert told["requests"] == 50
    # 55 packets of the client's and 53 of the server's, three of these bare acknowledgements.
    assert (told["packets"], told["segments"], told["acks"]) == (2.16, 1, 0.06)
    assert told["retransmitted"] == told["reordered"] == told["lost"] == told["overtaken"] == 0
    assert told["total"] == pytest.approx(told["wait"])
    assert told["network"] + told["server"] == pytest.approx(told["total"], rel=0.1)
    assert told["clock_offset"] == -105e-9
    assert told["crossed"] == 108
    assert "joined_writes" not in told


def test_writes_are_told_with_their_size() -> None:
    server = {**DOCUMENT["server"], "writes": {"size": 1000, "apart": 300, "joined": 200}}
    told = figures({**DOCUMENT, "server": server})
    assert (told["writes"], told["joined_writes"], told["write_size"]) == (10, 4, 1000)


@pytest.mark.parametrize(
    ("joined_at", "left", "arrived", "crossed", "lost"),
    [
        # Of 299 super-segments a relay made 4,351 packets, of which 88 were lost.
        ((9, 0), 299, 4263, 4351, 88),
        # Nothing cuts them on their way: 2 of 299 were lost, each as long as 44 packets.
        ((9, 9), 299, 297, 299, 2),
        # Receiving joined what had left as packets.
        ((0, 9), 4351, 299, 4351, 88),
        ((0, 0), 4351, 4263, 4351, 88),
    ],
)
def test_what_was_lost_is_counted_as_what_left_whatever_was_joined(
    joined_at: tuple[int, int], left: int, arrived: int, crossed: int, lost: int
) -> None:
    document = json.loads(json.dumps(DOCUMENT))
    client, server = document["captures"]
    server["server"]["coalesced"], client["server"]["coalesced"] = joined_at
    document["joined"]["back"] |= {"left": left, "arrived": arrived, "lost": 88}
    told = figures(document)
    there = document["joined"]["there"]["left"]
    assert (told["crossed"] - there, told["lost"]) == (crossed, lost)


def test_what_was_cut_and_joined_anew_on_its_way_is_counted_by_nothing() -> None:
    """2,469 super-segments left, and 5,170 others arrived: it is not known as how many packets they crossed."""
    document = json.loads(json.dumps(DOCUMENT))
    client, server = document["captures"]
    server["server"]["coalesced"], client["server"]["coalesced"] = 2469, 5170
    document["joined"]["back"] |= {"left": 4352, "arrived": 7286, "lost": 1907}
    assert figures(document).keys().isdisjoint({"crossed", "lost", "overtaken"})


@pytest.mark.parametrize(
    ("left", "arrived", "lost", "unsettled", "told"),
    [
        # Two and two were joined on their way, and nothing was lost.
        (400, 200, 0, 0, None),
        # Two had left before the capture there began: they have arrived, and are unsettled.
        (394, 396, 0, 2, (394, 0)),
    ],
)
def test_what_was_joined_anew_is_no_loss_and_what_is_unsettled_no_gain(
    left: int, arrived: int, lost: int, unsettled: int, told: tuple[int, int] | None
) -> None:
    document = json.loads(json.dumps(DOCUMENT))
    client, server = document["captures"]
    server["server"]["coalesced"], client["server"]["coalesced"] = left, arrived
    document["joined"]["back"] |= {"left": left, "arrived": arrived, "lost": lost, "unsettled": unsettled}
    seen = figures(document)
    there = document["joined"]["there"]["left"]
    assert ((seen["crossed"] - there, seen["lost"]) if "crossed" in seen else None) == told


def test_one_capture_has_nothing_of_two() -> None:
    alone = {**DOCUMENT, "joined": None}
    assert figures(alone).keys().isdisjoint({"clock_offset", "lost", "network"})
    assert Clocks.of(alone) is None


def test_a_capture_without_requests_has_no_figures_of_each() -> None:
    none = {key: {**one, "count": 0, "median": None} for key, one in DOCUMENT["each_request"].items()}
    told = figures({**DOCUMENT, "requests": 0, "each_request": none, "joined": None})
    assert told == {"requests": 0, "retransmitted": 0, "spurious": 0, "reordered": 0, "duplicates": 0}


def test_what_was_seldom_keeps_its_digits() -> None:
    many = {**DOCUMENT, "requests": 30_727, "client": {**DOCUMENT["client"], "acks": 6}}
    assert figures(many)["acks"] == pytest.approx(6 / 30_727, rel=1e-8)


def test_a_stream_is_told_by_what_each_mib_took() -> None:
    sides = {"client": 3 * MIB, "server": MIB}
    stream = {side: {**DOCUMENT[side], "payload_bytes": payload} for side, payload in sides.items()}
    told = figures({**DOCUMENT, **stream, "requests": 0})
    assert told["payload"] == 4 * MIB
    # 55 packets of the client's and 53 of the server's.
    assert told["packets_per_mib"] == 27
    assert told["acks_per_mib"] == (DOCUMENT["client"]["acks"] + DOCUMENT["server"]["acks"]) / 4
    assert told["segments_per_mib"] + told["acks_per_mib"] <= told["packets_per_mib"]


def traits_of(captured: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    record = SimpleNamespace(observers={"capture": captured}, responses={})
    told = {trait.name: trait.of(cast(TrialRecord, record)) for trait in TRAITS}
    return {name: value for name, value in told.items() if value is not None}


def test_streams_of_several_clients_are_one() -> None:
    heavy = {"requests": 0, "payload": 3 * MIB, "packets_per_mib": 20.0, "reordered": 6}
    light = {"requests": 0, "payload": MIB, "packets_per_mib": 40.0, "reordered": 2}
    assert traits_of({"trace-0": heavy, "trace-1": light}) == {"stream_packets": 25, "stream_reordered": 2}


def test_what_was_lost_is_a_share_of_what_crossed_however_packets_are_counted() -> None:
    """2 % on either side: of packets of the wire, and of super-segments that nobody cut."""
    cut = {"payload": 90 * MIB, "crossed": 65_000, "lost": 1_300, "overtaken": 65}
    whole = {"payload": 90 * MIB, "crossed": 2_000, "lost": 40, "overtaken": 2}
    sides = [traits_of({"trace-0": {"requests": 0, **one}}) for one in (cut, whole)]
    assert sides == 2 * [{"lost": 0.02, "overtaken": 0.001}]


def test_what_was_sent_again_is_what_the_kernels_of_both_ends_counted() -> None:
    ends = {"client-0": {"kernel.RetransSegs": 3, "kernel.OutSegs": 9}, "server-0": {"kernel.RetransSegs": 37}}
    requests, stream = {"requests": 100, "retransmitted": 2}, {"requests": 0, "payload": 4 * MIB, "retransmitted": 2}
    assert traits_of({**ends, "trace-0": requests})["retransmitted"] == 0.4
    assert traits_of({**ends, "trace-0": stream})["stream_retransmitted"] == 10
    # One of them did not tell.
    assert "retransmitted" not in traits_of({**ends, "server-0": {"captured": 5}, "trace-0": requests})


def test_the_servers_clock_is_set_to_the_clients() -> None:
    clocks = Clocks(offset=5_000_000_000, drift=1e-5, since=0)
    assert clocks.first_from_second(clocks.second_from_first(2_000_000_000)) == pytest.approx(2_000_000_000, abs=1)
    first = events.of(LINES[0], Clocks.of(DOCUMENT))
    assert first["request_first"] == 0
    assert first["syn"] < first["synack"] < first["ack"] < 0
    assert first["request_first"] < first["server.request_first"] < first["server.response_first"]
    assert first["server.response_first"] < first["response_first"]
    assert "syn" not in events.of(LINES[1], None)
    assert events.of({**LINES[0], "request_first": None}, None) == {}


@pytest.mark.parametrize("drift", [0.0, 1e-6])
def test_times_of_today_are_told_to_the_nanosecond(drift: float) -> None:
    today = 1_790_000_000_000_000_000
    clocks = Clocks(offset=15, drift=drift, since=today)
    line = {**LINES[1], "number": 1, "request_first": today, "request_last": today}
    joined = {name: today + 15 + 1_257 + at for at, name in enumerate(events.AT_SERVER)}
    told = events.of({**line, "joined": joined}, clocks)
    assert [told[events.SERVER + name] for name in events.AT_SERVER] == [1.257e-6, 1.258e-6, 1.259e-6, 1.26e-6]


def test_the_offset_is_meant_where_the_captures_begin_to_have_packets_in_common() -> None:
    began = DOCUMENT["captures"][0]["first_ns"]
    joined = {**DOCUMENT["joined"], "offset_ns": 0, "drift_ppm": 50.0, "offset_at_ns": began + 100 * 10**9}
    clocks = Clocks.of({**DOCUMENT, "joined": joined})
    assert clocks is not None
    assert clocks.second_from_first(began + 101 * 10**9) - (began + 101 * 10**9) == 50_000
    # Which capture is the client's end is told by the document.
    ends = [{**capture, "end": end} for capture, end in zip(DOCUMENT["captures"], ("server", "client"), strict=True)]
    turned = Clocks.of({**DOCUMENT, "captures": ends, "joined": joined})
    assert turned is not None
    assert turned.at_client(began + 101 * 10**9) - (began + 101 * 10**9) == 50_000


def test_the_typical_request_is_made_of_medians() -> None:
    answered = [{"request_first": 0.0, "response_first": wait, "response_last": wait + 1} for wait in (1.0, 3.0, 8.0)]
    told = events.typical([*answered, {"request_first": 0.0}, {**answered[0], "ack": -1.0}])
    assert told == {"request_first": 0, "response_first": 2, "response_last": 3}
    assert events.typical([]) == {}


def test_a_ladder_of_text_has_a_line_for_each_event_by_time() -> None:
    told = list(ladder(events.of(LINES[0], Clocks.of(DOCUMENT))))
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
    assert heading(LINES[0]).startswith("GET, status 200, 10.111.0.1:")
    assert heading({**LINES[0], "target": "/a"}).startswith("GET /a, status 200, 10.111.0.1:")


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
    times = chosen.totals(file)
    told = slowest.table(chosen.slowest(file, times, 3))
    assert [row[:2] for row in told.rows] == [("GET /2", "2"), ("GET /5", "5"), ("GET /4", "4")]
    assert told.rows[2][2:] == ("200", "5 ms")
    picked = chosen.choose(file, times, 6)
    assert picked and picked.number == 6 and picked.line["target"] == "/6"
    assert [one.number for one in chosen.slowest(file, times, 9)] == [2, 5, 4, 1, 6]  # not the one without a reply


def test_labels_of_a_drawn_ladder_do_not_overlap() -> None:
    assert spread([10, 11, 12, 90], 15, 100) == [10, 25, 40, 90]
    assert spread([95, 96, 97], 15, 100) == [70, 85, 100]
    spec = drawn("host", "", "#000000", events.of(LINES[0], Clocks.of(DOCUMENT)))
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
                wide = measured(row["text"], layer["mark"]["fontSize"])
                left = min(left, row["x"] - wide if row["side"] == "client" else 0.0)
                right = max(right, row["x"] + wide if row["side"] == "server" else 0.0)
                texts += 1
    assert texts == len(WORDS)
    assert left >= 0
    assert right <= spec["width"] + 5  # what surrounds every picture


def test_a_server_at_work_is_not_drawn_as_the_reference_is() -> None:
    spec = drawn("host", "", palette.REFERENCE, events.of(LINES[0], Clocks.of(DOCUMENT)))
    (work,) = [
        layer["mark"] for layer in spec["layer"] if layer["mark"].get("strokeWidth") == 3 and layer["data"]["values"]
    ]
    assert work["color"] == palette.INK
    assert palette.MUTED not in json.dumps([one for one in spec["layer"] if one["mark"]["type"] == "rule"])


def test_the_summary_tells_what_there_is() -> None:
    tables = {table.caption: table for table in summary(DOCUMENT)}
    assert "50 requests on 1 connection, answered 50 × 2xx" in tables
    sent = {name: tuple(rest) for name, *rest in tables["What was sent"].rows}
    assert sent["segments with payload"] == ("50", "50")
    assert any(caption.startswith("Between the captures; the server's clock is 105 ns behind") for caption in tables)
    assert all(len(row) == len(table.columns) for table in tables.values() for row in table.rows)
    assert ("with HTTP", "1") in tables["Connections"].rows
    assert not any(caption.startswith("Not followed") for caption in tables)


def test_the_summary_names_what_is_not_followed_and_what_is_missing() -> None:
    document = json.loads(json.dumps(DOCUMENT))
    document |= {"ignored": {"ARP": 3, "UDP": 1_200}, "unanswered": 2, "unasked": 1}
    document["protocols"]["tls"] = 4
    document["client"]["selective_acks"] = 5
    document["client"]["zero_windows"], document["server"]["zero_windows"] = 3, 0
    document["joined"]["back"] |= {"lost_bare": 6, "unsettled": 7}
    tables = {table.caption: table for table in summary(document)}
    assert next(iter(tables)).endswith(
        "50 × 2xx, 2 unanswered; 1 reply to what was not captured, or is no request that can be read"
    )
    assert ("that take no more for now: who sends waits", "3", "0") in tables["What was sent"].rows
    assert tables["Not followed, by what it is, in both captures together"].rows == (("UDP", "1,200"), ("ARP", "3"))
    alone = summary(document | {"joined": None, "captures": document["captures"][:1]})
    assert alone[-1].caption == "Not followed, by what it is"
    assert ("encrypted, so that requests cannot be seen", "4") in tables["Connections"].rows
    assert ("acknowledgements with SACK blocks", "5", "0") in tables["What was sent"].rows
    between = next(table for caption, table in tables.items() if caption.startswith("Between"))
    assert ("packets without payload lost", "0", "6") in between.rows
    assert ("too near to the begin or the end to tell", "0", "7") in between.rows


@pytest.mark.parametrize(("size", "told"), [(512, ("2", "512 B")), (64 * 1024, None)])
def test_writes_are_joined_where_a_segment_holds_more_than_one(size: int, told: tuple[str, str] | None) -> None:
    """A larger one is cut into segments: it waits for no other."""
    document = json.loads(json.dumps(DOCUMENT))
    document["server"] |= {
        "writes": {"size": size, "apart": 9, "joined": 2},
        "sizes": [{"from": 32, "to": 63, "count": 9}, {"from": 1024, "to": 2047, "count": 9}],
    }
    sent = next(table for table in summary(document) if table.caption == "What was sent")
    by_servers = {row[0]: row[2] for row in sent.rows}
    names = ("writes held back and joined", "bytes of a write")
    assert tuple(map(by_servers.get, names)) == (told or (None, None))
    assert not any("small" in name for name in by_servers)


def test_nothing_is_told_of_two_captures_without_a_packet_in_common() -> None:
    strangers = DOCUMENT | {"joined": None, "captures": [one | {"end": None} for one in DOCUMENT["captures"]]}
    (table,) = summary(strangers)
    assert table.caption == "Two captures with no TCP packet in common"
    assert [row[1] for row in table.rows] == ["–", "–"]


def test_where_times_are_too_coarse_a_packet_leaves_before_it_arrives() -> None:
    told = {"response_first": 2e-6, "request_first": 0.0, "server.response_first": 2e-6, "server.request_first": 0.0}
    assert list(shown(told)) == ["request_first", "server.request_first", "server.response_first", "response_first"]
    arrows = [line for line in ladder(told) if "reply" in line]
    assert [line.split()[-1] for line in arrows] == ["leaves", "arrives"]


def test_a_page_holds_nothing_of_a_captures_own_making() -> None:
    evil = {**LINES[0], "method": "<script>", "target": "/<script>"}
    told = events.of(evil, Clocks.of(DOCUMENT))
    html = page.html(["<b>.pcap"], summary(DOCUMENT), (Chosen(1, evil), told), LINES, 50)
    assert "<script" not in html and "<b>" not in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert html.count("<svg") == 2
    assert "The first 6 of 50 requests" in html


def test_a_page_warns_of_what_the_captures_lack() -> None:
    warnings = ["a.pcap: 7 bytes were acknowledged but not captured", "<i>"]
    told = page.html(["a.pcap"], summary(DOCUMENT), None, LINES, 6, warnings)
    assert told.index("7 bytes were acknowledged") < told.index("In figures") and "<i>" not in told


def test_bars_stand_in_their_connections_row() -> None:
    moved = [{**line, "connection": 7} for line in LINES[3:]]
    both = [*LINES[:3], *moved]
    rows = {bar.row for bar in page.bars(both, page.rows_of(both))}
    assert rows == {0, 1}
    assert [bar.phase for bar in page.bars(LINES, page.rows_of(LINES))].count("connecting") == 1


def test_the_beginning_is_what_had_begun_when_a_row_was_full() -> None:
    def line(connection: int, at: int) -> dict[str, Any]:
        began = dict.fromkeys(("syn", "synack", "ack"), connection)
        return {**LINES[0], "connection": connection, **began, **dict.fromkeys(AT_CLIENT, at)}

    # One connection asks ten times as often as another; a third begins when the first has asked often.
    lines = [line(0, at) for at in range(100)] + [line(1, at) for at in range(0, 100, 10)] + [line(2, 90)]
    first = page.beginning(lines, page.rows_of(lines))
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
    told = page.html(["a.pcap"], summary(DOCUMENT), None, timed, 5)
    assert "one connection at a time" in told
    assert "one connection at a time" not in page.html(["a.pcap"], summary(DOCUMENT), None, timed[:2], 2)


def test_requests_that_are_too_many_to_be_told_apart_are_also_drawn_from_the_first_on() -> None:
    line = LINES[0]
    times = [name for name in ("request_first", "request_last", "response_first", "response_last") if line[name]]
    many = [{**line, **{name: line[name] + at * 10**9 for name in times}, "number": at} for at in range(151)]
    assert "The first 40 requests" in page.html(["a.pcap"], summary(DOCUMENT), None, many, 151)
    assert "The first 40 requests" not in page.html(["a.pcap"], summary(DOCUMENT), None, many[1:], 150)


def test_a_ladder_is_drawn_into_the_room_there_is() -> None:
    told = events.of(LINES[0], Clocks.of(DOCUMENT))
    whole, narrow = list(ladder(told)), list(ladder(told, 40))
    assert max(map(len, narrow)) <= 40 < max(map(len, whole)) <= 80
    assert [line.split()[0] for line in narrow] == [line.split()[0] for line in whole]


def test_a_phase_that_took_no_time_is_not_drawn() -> None:
    bars = [Bar(0, "sending", 1.0, 1.0), Bar(0, "waiting", 1.0, 1.5), Bar(0, "receiving", 1.5, 1.5 + 1e-9)]
    spec = timeline("", "", bars)
    (drawn,) = [layer["data"]["values"] for layer in spec["layer"]]
    assert [bar["phase"] for bar in drawn] == ["waiting", "receiving"]
    # What took next to none is as wide as can be seen.
    assert drawn[1]["to"] - drawn[1]["from"] > 1e-3 * drawn[0]["to"]


def test_a_request_that_was_not_answered_has_a_mark() -> None:
    line = {**UNANSWERED, "fin": None}
    (mark,) = [bar for bar in page.bars([line], {line["connection"]: 0}) if bar.phase == "unanswered"]
    assert mark.begin == mark.end == (line["request_last"] - line["syn"]) / 1e9
    assert "unanswered" in page.html(["a.pcap"], summary(DOCUMENT), None, [line], 1)


def test_a_request_that_was_not_answered_goes_on_until_its_connection_closed() -> None:
    later = {
        **UNANSWERED,
        "connection": 7,
        "request_first": UNANSWERED["fin"] - 1,
        "request_last": UNANSWERED["fin"] - 1,
    }
    rows = page.rows_of([UNANSWERED, later])
    assert rows[UNANSWERED["connection"]] != rows[7]
    (bar,) = [bar for bar in page.bars([UNANSWERED], rows) if bar.phase == "unanswered"]
    assert bar.end - bar.begin == pytest.approx(1.0)
    # What a server closed before the request came to it was not waited for until then.
    early = {**UNANSWERED, "fin": UNANSWERED["request_first"] - 5}
    (bar,) = [bar for bar in page.bars([early], rows) if bar.phase == "unanswered"]
    assert bar.begin == bar.end
    assert "fin" not in events.of(early, None)


def test_a_ladder_tells_when_a_request_without_a_reply_was_given_up() -> None:
    told = events.of(UNANSWERED, Clocks.of(DOCUMENT))
    assert told["fin"] == pytest.approx((UNANSWERED["fin"] - UNANSWERED["request_first"]) / 1e9)
    # Which side closed it is not told: no arrow.
    (line,) = [line for line in ladder(told) if line.endswith("closed")]
    assert not set("▶◀●") & set(line)
    only = {name: told[name] for name in ("request_first", "server.request_first", "fin")}
    assert not [layer for layer in drawn("host", "", "#000000", only)["layer"] if "shape" in layer["mark"]]
    assert "fin" not in events.of({**LINES[1], "fin": LINES[1]["response_last"] + 1}, None)


def test_requests_that_took_no_time_have_no_picture() -> None:
    moment = dict.fromkeys(("request_first", "request_last", "response_first", "response_last"), 5)
    line = {**LINES[1], **moment}
    assert "<svg" not in page.html(["a.pcap"], summary(DOCUMENT), None, [line], 1)


def test_packets_of_one_end_are_arrows_too() -> None:
    alone = events.of(LINES[0], None)
    shapes = {
        layer["mark"]["shape"]: len(layer["data"]["values"])
        for layer in drawn("host", "", "#000000", alone)["layer"]
        if "shape" in layer["mark"]
    }
    # SYN, ACK and the request leave; SYN-ACK, the reply and an acknowledgement come.
    assert shapes == {"triangle-right": 3, "triangle-left": 3}
    joined = {name: time for name, time in events.of(LINES[1], Clocks.of(DOCUMENT)).items() if name != "request_acked"}
    assert not [layer for layer in drawn("host", "", "#000000", joined)["layer"] if "shape" in layer["mark"]]


def test_numbers_of_a_page_stand_at_the_right() -> None:
    told = page.html(["a.pcap"], summary(DOCUMENT), None, LINES, 6)
    assert '<th scope="col" class="number">packets</th>' in told
    assert '<th scope="col">end</th>' in told
    assert '<td class="number">50</td>' in told


def test_a_kernels_counters_are_read_by_name() -> None:
    text = "TcpExt: A TCPAutoCorking TCPOFOQueue\nTcpExt: 1 20 3\nTcp: RetransSegs MaxConn\nTcp: 4 -1\n"
    before = _capture_counters.parsed(text)
    assert before == {"TCPAutoCorking": 20, "TCPOFOQueue": 3, "RetransSegs": 4}
    after = _capture_counters.parsed(text.replace(" 20 ", " 29 "))
    assert _capture_counters.between(before, after) == {"kernel.TCPAutoCorking": 9}
    assert _capture_counters.parsed("rubbish\n\nTcp:") == {}
