"""Figures for records: what each request took, and what became of its packets."""

import json

import pytest

from nearmetal.trace.events import Clocks
from nearmetal.trace.record_figures import make_figures
from nearmetal.units import MIB
from tests.unit.trace_golden import DOCUMENT


def test_a_record_keeps_what_each_request_took() -> None:
    told = make_figures(DOCUMENT)
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
    told = make_figures({**DOCUMENT, "server": server})
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
    told = make_figures(document)
    there = document["joined"]["there"]["left"]
    assert (told["crossed"] - there, told["lost"]) == (crossed, lost)


def test_what_was_cut_and_joined_anew_on_its_way_is_counted_by_nothing() -> None:
    """2,469 super-segments left, and 5,170 others arrived: it is not known as how many packets they crossed."""
    document = json.loads(json.dumps(DOCUMENT))
    client, server = document["captures"]
    server["server"]["coalesced"], client["server"]["coalesced"] = 2469, 5170
    document["joined"]["back"] |= {"left": 4352, "arrived": 7286, "lost": 1907}
    assert make_figures(document).keys().isdisjoint({"crossed", "lost", "overtaken"})


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
    seen = make_figures(document)
    there = document["joined"]["there"]["left"]
    assert ((seen["crossed"] - there, seen["lost"]) if "crossed" in seen else None) == told


def test_one_capture_has_nothing_of_two() -> None:
    alone = {**DOCUMENT, "joined": None}
    assert make_figures(alone).keys().isdisjoint({"clock_offset", "lost", "network"})
    assert Clocks.from_document(alone) is None


def test_a_capture_without_requests_has_no_figures_of_each() -> None:
    none = {key: {**one, "count": 0, "median": None} for key, one in DOCUMENT["each_request"].items()}
    told = make_figures({**DOCUMENT, "requests": 0, "each_request": none, "joined": None})
    assert told == {"requests": 0, "retransmitted": 0, "spurious": 0, "reordered": 0, "duplicates": 0}


def test_what_was_seldom_keeps_its_digits() -> None:
    many = {**DOCUMENT, "requests": 30_727, "client": {**DOCUMENT["client"], "acks": 6}}
    assert make_figures(many)["acks"] == pytest.approx(6 / 30_727, rel=1e-8)


def test_a_stream_is_told_by_what_each_mib_took() -> None:
    sides = {"client": 3 * MIB, "server": MIB}
    stream = {side: {**DOCUMENT[side], "payload_bytes": payload} for side, payload in sides.items()}
    told = make_figures({**DOCUMENT, **stream, "requests": 0})
    assert told["payload"] == 4 * MIB
    # 55 packets of the client's and 53 of the server's.
    assert told["packets_per_mib"] == 27
    assert told["acks_per_mib"] == (DOCUMENT["client"]["acks"] + DOCUMENT["server"]["acks"]) / 4
    assert told["segments_per_mib"] + told["acks_per_mib"] <= told["packets_per_mib"]
