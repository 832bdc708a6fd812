"""Events of a request on one clock, and those of a typical one."""

import pytest

from nearmetal.trace import events
from nearmetal.trace.events import Clocks
from tests.unit.trace_golden import DOCUMENT, LINES


def test_the_servers_clock_is_set_to_the_clients() -> None:
    clocks = Clocks(offset=5_000_000_000, drift=1e-5, since=0)
    assert clocks.first_from_second(clocks.second_from_first(2_000_000_000)) == pytest.approx(2_000_000_000, abs=1)
    first = events.find_events(LINES[0], Clocks.from_document(DOCUMENT))
    assert first["request_first"] == 0
    assert first["syn"] < first["synack"] < first["ack"] < 0
    assert first["request_first"] < first["server.request_first"] < first["server.response_first"]
    assert first["server.response_first"] < first["response_first"]
    assert "syn" not in events.find_events(LINES[1], None)
    assert events.find_events({**LINES[0], "request_first": None}, None) == {}


@pytest.mark.parametrize(("drift", "seconds"), [(4e-4, 60), (-4e-4, 60), (1e-4, 3600)])
def test_long_after_its_offset_a_clock_that_drifts_is_told_as_exactly(drift: float, seconds: int) -> None:
    today = 1_790_000_000_000_000_000
    clocks = Clocks(offset=7_000_000, drift=drift, since=today)
    time = today + seconds * 10**9
    assert abs(clocks.first_from_second(clocks.second_from_first(time)) - time) <= 1


@pytest.mark.parametrize("drift", [0.0, 1e-6])
def test_times_of_today_are_told_to_the_nanosecond(drift: float) -> None:
    today = 1_790_000_000_000_000_000
    clocks = Clocks(offset=15, drift=drift, since=today)
    line = {**LINES[1], "number": 1, "request_first": today, "request_last": today}
    joined = {name: today + 15 + 1_257 + at for at, name in enumerate(events.AT_SERVER)}
    told = events.find_events({**line, "joined": joined}, clocks)
    assert [told[events.SERVER + name] for name in events.AT_SERVER] == [1.257e-6, 1.258e-6, 1.259e-6, 1.26e-6]


def test_the_offset_is_meant_where_the_captures_begin_to_have_packets_in_common() -> None:
    began = DOCUMENT["captures"][0]["first_ns"]
    joined = {**DOCUMENT["joined"], "offset_ns": 0, "drift_ppm": 50.0, "offset_at_ns": began + 100 * 10**9}
    clocks = Clocks.from_document({**DOCUMENT, "joined": joined})
    assert clocks is not None
    assert clocks.second_from_first(began + 101 * 10**9) - (began + 101 * 10**9) == 50_000
    # Which capture is the client's end is told by the document.
    ends = [{**capture, "end": end} for capture, end in zip(DOCUMENT["captures"], ("server", "client"), strict=True)]
    turned = Clocks.from_document({**DOCUMENT, "captures": ends, "joined": joined})
    assert turned is not None
    assert turned.at_client(began + 101 * 10**9) - (began + 101 * 10**9) == 50_000


def test_the_typical_request_is_made_of_medians() -> None:
    answered = [{"request_first": 0.0, "response_first": wait, "response_last": wait + 1} for wait in (1.0, 3.0, 8.0)]
    told = events.find_typical([*answered, {"request_first": 0.0}, {**answered[0], "ack": -1.0}])
    assert told == {"request_first": 0, "response_first": 2, "response_last": 3}
    assert events.find_typical([]) == {}
