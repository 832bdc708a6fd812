"""What is compared of packets: figures of all clients, and of both ends."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nearmetal.analysis.covariates import COVARIATES
from nearmetal.model import Response, TrialRecord
from nearmetal.units import MIB


def covariates_of(captured: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return covariates({"capture": captured}, {})


def covariates(
    observers: Mapping[str, Any], responses: Mapping[str, Response], events: float | None = None
) -> dict[str, float]:
    record = SimpleNamespace(observers=observers, responses=responses, events=events)
    told = {covariate.name: covariate.of(cast(TrialRecord, record)) for covariate in COVARIATES}
    return {name: value for name, value in told.items() if value is not None}


def test_streams_of_several_clients_are_one() -> None:
    heavy = {"requests": 0, "payload": 3 * MIB, "packets_per_mib": 20.0, "reordered": 6}
    light = {"requests": 0, "payload": MIB, "packets_per_mib": 40.0, "reordered": 2}
    assert covariates_of({"trace-0": heavy, "trace-1": light}) == {"stream_packets": 25, "stream_reordered": 2}


def test_what_was_lost_is_a_share_of_what_crossed_however_packets_are_counted() -> None:
    """2 % on either side: of packets of the wire, and of super-segments that nobody cut."""
    cut = {"payload": 90 * MIB, "crossed": 65_000, "lost": 1_300, "overtaken": 65}
    whole = {"payload": 90 * MIB, "crossed": 2_000, "lost": 40, "overtaken": 2}
    sides = [covariates_of({"trace-0": {"requests": 0, **one}}) for one in (cut, whole)]
    assert sides == 2 * [{"lost": 0.02, "overtaken": 0.001}]


def test_what_was_sent_again_is_what_the_kernels_of_both_ends_counted() -> None:
    ends = {"client-0": {"kernel.RetransSegs": 3, "kernel.OutSegs": 9}, "server-0": {"kernel.RetransSegs": 37}}
    requests, stream = {"requests": 100, "retransmitted": 2}, {"requests": 0, "payload": 4 * MIB, "retransmitted": 2}
    assert covariates_of({**ends, "trace-0": requests})["retransmitted"] == 0.4
    assert covariates_of({**ends, "trace-0": stream})["stream_retransmitted"] == 10
    # One of them did not tell.
    assert "retransmitted" not in covariates_of({**ends, "server-0": {"captured": 5}, "trace-0": requests})


# ── What was used ─────────────────────────────────────────────────────────────────────────────────────────────────

USED = {"interrupts": 5_000.0, "context_switches": 2_000.0, "cpu.0.sys": 40.0, "cpu.all.sys": 40.0}


def count(value: float) -> Response:
    return Response(value=value, unit="", better="higher")


def rate(value: float) -> Response:
    return Response(value=value, unit="1/s", better="higher")


def of_usage(lead: float, servers: int = 1, events: float | None = None, **responses: Response) -> dict[str, float]:
    """Of servers that wait so long for clients to begin, which then load them for ten seconds."""
    seconds = lead + 10
    place = {"seconds": seconds, **{name: value * 10 / seconds for name, value in USED.items()}}
    host = {"seconds": seconds, "exits": 1_000 * 10 / seconds}
    observed = {"usage": {"host": host, **{f"server-{index}": place for index in range(servers)}}}
    return covariates(observed, responses, events)


@pytest.mark.parametrize("lead", [0.0, 0.25, 2.0])
def test_what_was_used_is_shared_out_to_the_requests_however_long_clients_waited_for_each_other(lead: float) -> None:
    """Averages are lower the longer servers were watched; what happened, and the requests, are the same."""
    told = of_usage(lead, servers=2, events=1_000, throughput=rate(100), transactions=count(1_000))
    assert told == pytest.approx(
        {"interrupts": 100, "context_switches": 40, "exits": 10, "kernel_time": 0.008, "interrupt_time": 0}
        | {"user_time": 0, "steal": 0, "idle": 0}
    )


@pytest.mark.parametrize("latency", [0.005, 1.0])
def test_requests_under_way_at_the_end_of_a_closed_loop_are_among_those_that_used_something(latency: float) -> None:
    """Two interrupts each. One for each connection is answered after the window: of slow replies a fifth of all."""
    in_window, late = 16 * 5 / latency, 16
    seconds = 0.25 + 5 + latency
    place = {"seconds": seconds, "interrupts": 2 * (in_window + late) / seconds}
    responses = {"throughput": rate(in_window / 5), "transactions": count(in_window)}
    assert covariates({"usage": {"server-0": place}}, responses, in_window + late)["interrupts"] == pytest.approx(2)


def test_error_pages_are_among_the_requests_that_used_something() -> None:
    told = of_usage(0.25, events=1_000, throughput=rate(60), transactions=count(600))
    assert told["interrupts"] == pytest.approx(50)


def test_of_records_without_their_number_averages_are_shared_out_to_those_that_count() -> None:
    """And of a program that counts its own, of which there is one run."""
    for events in (None, 1):
        told = of_usage(0.0, events=events, throughput=rate(80), transactions=count(800))
        assert told["interrupts"] == pytest.approx(62.5)
        assert "interrupts" not in of_usage(0.0, events=events, transactions=count(800))


def test_bytes_are_no_requests() -> None:
    transfer = Response(value=3 * MIB, unit="B", better="higher")
    assert "interrupts" not in of_usage(0.0, events=3 * MIB, transfer=transfer)


def test_what_was_used_is_shared_out_to_events_by_their_rate() -> None:
    """A program that makes them waits for nobody."""
    place = {"seconds": 10.0, **USED}
    told = covariates({"usage": {"server-0": place}}, {"events": rate(100)}, 1_003)
    assert told["interrupts"] == 50 and told["kernel_time"] == pytest.approx(0.004)
