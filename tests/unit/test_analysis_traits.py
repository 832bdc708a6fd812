"""What is compared of packets: figures of all clients, and of both ends."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nearmetal.analysis.traits import TRAITS
from nearmetal.model import Response, TrialRecord
from nearmetal.units import MIB


def traits_of(captured: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return traits({"capture": captured}, {})


def traits(observers: Mapping[str, Any], responses: Mapping[str, Response]) -> dict[str, float]:
    record = SimpleNamespace(observers=observers, responses=responses)
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


# ── What was used ─────────────────────────────────────────────────────────────────────────────────────────────────

USED = {"interrupts": 5_000.0, "context_switches": 2_000.0, "cpu.0.sys": 40.0, "cpu.all.sys": 40.0}


def of_usage(lead: float, servers: int = 1, **responses: Response) -> dict[str, float]:
    """Of servers that wait so long for clients to begin, which then load them for ten seconds."""
    seconds = lead + 10
    place = {"seconds": seconds, **{name: value * 10 / seconds for name, value in USED.items()}}
    host = {"seconds": seconds, "exits": 1_000 * 10 / seconds}
    return traits({"usage": {"host": host, **{f"server-{index}": place for index in range(servers)}}}, responses)


@pytest.mark.parametrize("lead", [0.0, 0.25, 2.0])
def test_what_was_used_is_shared_out_to_the_requests_however_long_clients_waited_for_each_other(lead: float) -> None:
    """Averages are lower the longer servers were watched; what happened, and the requests, are the same."""
    rate, count = Response(value=100, unit="1/s", better="higher"), Response(value=1_000, unit="", better="higher")
    told = of_usage(lead, servers=2, throughput=rate, transactions=count)
    assert told == pytest.approx(
        {"interrupts": 100, "context_switches": 40, "exits": 10, "kernel_time": 0.008, "interrupt_time": 0}
        | {"user_time": 0, "steal": 0, "idle": 0}
    )


def test_what_was_used_is_shared_out_to_events_by_their_rate() -> None:
    """They are not counted in records; a program that makes them waits for nobody."""
    told = of_usage(0.0, events=Response(value=100, unit="1/s", better="higher"))
    assert told["interrupts"] == 50 and told["kernel_time"] == pytest.approx(0.004)
