"""What captures hold, as tables."""

import json

import pytest

from nearmetal.trace.summary import summarise_trace
from tests.unit.trace_golden import DOCUMENT


def test_the_summary_tells_what_there_is() -> None:
    tables = {table.caption: table for table in summarise_trace(DOCUMENT)}
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
    tables = {table.caption: table for table in summarise_trace(document)}
    assert next(iter(tables)).endswith(
        "50 × 2xx, 2 unanswered; 1 reply to what was not captured, or is no request that can be read"
    )
    assert ("that take no more for now: who sends waits", "3", "0") in tables["What was sent"].rows
    assert tables["Not followed, by what it is, in both captures together"].rows == (("UDP", "1,200"), ("ARP", "3"))
    alone = summarise_trace(document | {"joined": None, "captures": document["captures"][:1]})
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
    sent = next(table for table in summarise_trace(document) if table.caption == "What was sent")
    by_servers = {row[0]: row[2] for row in sent.rows}
    names = ("writes held back and joined", "bytes of a write")
    assert tuple(map(by_servers.get, names)) == (told or (None, None))
    assert not any("small" in name for name in by_servers)


def test_nothing_is_told_of_two_captures_without_a_packet_in_common() -> None:
    strangers = DOCUMENT | {"joined": None, "captures": [one | {"end": None} for one in DOCUMENT["captures"]]}
    (table,) = summarise_trace(strangers)
    assert table.caption == "Two captures with no TCP packet in common"
    assert [row[1] for row in table.rows] == ["–", "–"]
