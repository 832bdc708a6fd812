"""Captures of both ends of a trial, and what a record then tells of its requests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nearmetal.model import TrialRecord

from . import both_ends, laboratory

pytestmark = pytest.mark.live

REQUESTS, WRITES, SIZE = 30, 10, 1000
STUDY = f"""
name = "captured"
[factors]
environment = ["host"]
[observe]
capture = @CAPTURE@
[[workloads]]
name = "web"
kind = "http"
server = "probe"
writes = "{WRITES}x{SIZE}"
workers = 1
warmup = "@WARMUP@"
requests = @REQUESTS@
[clients]
count = @CLIENTS@
[design]
blocks = 1
"""


async def trial(
    folder: Path, capture: str, warmup: str = "0s", clients: int = 1, requests: int = REQUESTS
) -> TrialRecord:
    text = STUDY.replace("@CAPTURE@", capture).replace("@WARMUP@", warmup).replace("@CLIENTS@", str(clients))
    text = text.replace("@REQUESTS@", str(requests))
    (record,) = await laboratory.study(folder, text)
    assert record.status == "ok", record.reason
    return record


def check_crossing(told: Mapping[str, Any], client: Path, server: Path) -> None:
    """On a cable without delay, where a packet may bear an earlier time at its far end than at its near one."""
    both_ends.check(told, client.read_bytes(), server.read_bytes())
    # Both ends share a kernel, and so a clock.
    assert abs(told["clock_offset"]) <= told["clock_uncertainty"] + 100e-6


def sent_again(seen: Mapping[str, Any]) -> tuple[int, int]:
    """By the packets, and by the kernels: needlessly too, when a machine waits for its CPU."""
    by_packets = sum(place["retransmitted"] for name, place in seen.items() if name.startswith("trace-"))
    return by_packets, sum(place.get("kernel.RetransSegs", 0) for place in seen.values())


async def test_a_trial_is_captured_at_both_ends_and_told(tmp_path: Path) -> None:
    # Enough of each packet to see where a reply's head ends, by which its first write is told from the head.
    record = await trial(tmp_path / "run", "{ snap = 512 }", warmup="0.3s")
    seen = record.observers["capture"]
    assert "problem" not in str(seen)
    for end in ("client-0", "server-0"):
        assert seen[end]["captured"] > 2 * REQUESTS
        assert seen[end]["dropped_by_kernel"] == 0
        assert "limit_reached" not in seen[end]
    told = seen["trace-0"]
    # Those of the warm-up are not among them.
    assert told["requests"] == REQUESTS
    by_packets, by_kernels = sent_again(seen)
    assert by_packets == by_kernels
    assert 0 == told["at.request_first"] <= told["at.response_first"] <= told["at.response_last"]
    assert told["at.server.request_first"] <= told["at.server.response_first"]
    files = {Path(artifact.path).name: tmp_path / "run" / artifact.path for artifact in record.artifacts}
    assert {"client-0.pcap", "server-0.pcap", "trace-0.json"} <= files.keys()
    check_crossing(told, files["client-0.pcap"], files["server-0.pcap"])
    document = json.loads(files["trace-0.json"].read_text())
    assert [capture["file"] for capture in document["captures"]] == ["client-0.pcap", "server-0.pcap"]
    assert document["joined"]["requests"] == REQUESTS
    server = document["server"]
    assert server["payload_bytes"] > REQUESTS * WRITES * SIZE
    assert server["writes"]["size"] == told["write_size"] == SIZE
    # What the packets say was held back and joined to others is what the server wrote less what left apart.
    assert server["writes"]["apart"] + server["writes"]["joined"] == REQUESTS * WRITES


@pytest.mark.long
async def test_a_server_of_several_clients_is_joined_with_each_of_them(tmp_path: Path) -> None:
    # So much of each packet that a reply's head is cut.
    record = await trial(tmp_path / "run", "{ snap = 128 }", clients=3)
    seen = record.observers["capture"]
    assert "problem" not in str(seen)
    captured = {name: place["captured"] for name, place in seen.items() if "captured" in place}
    assert captured.keys() == {"client-0", "client-1", "client-2", "server-0"}
    files = {Path(artifact.path).name: tmp_path / "run" / artifact.path for artifact in record.artifacts}
    for index in range(3):
        told = seen[f"trace-{index}"]
        assert told["requests"] == REQUESTS
        check_crossing(told, files[f"client-{index}.pcap"], files["server-0.pcap"])
        assert 0 < told["network"] < told["total"]
        document = json.loads(files[f"trace-{index}.json"].read_text())
        assert document["joined"]["requests"] == REQUESTS
        assert document["joined"]["only_at_server"] == document["joined"]["only_at_client"] == 0
        others = document["ignored"]["of hosts that the other capture does not have"]
        assert (
            others
            == captured["server-0"]
            - document["captures"][1]["client"]["packets"]
            - (document["captures"][1]["server"]["packets"])
        )
    by_packets, by_kernels = sent_again(seen)
    assert by_packets == by_kernels
    everywhere = sum(seen[f"trace-{index}"]["crossed"] for index in range(3))
    assert everywhere == captured["server-0"]


@pytest.mark.long
async def test_a_capture_stops_at_its_limit_and_says_so(tmp_path: Path) -> None:
    record = await trial(tmp_path / "run", '{ snap = 1024, limit = "64KiB", inside = true }')
    seen = record.observers["capture"]
    most = 64 * 1024 // (1024 + 16)
    assert seen["client-0"]["captured"] == seen["server-0"]["captured"] == most
    assert seen["client-0"]["limit_reached"] == 1
    assert 0 < seen["trace-0"]["requests"] < REQUESTS
    (pcap,) = (tmp_path / "run" / a.path for a in record.artifacts if a.path.endswith("client-0.pcap"))
    assert pcap.stat().st_size <= 64 * 1024 + 24


async def test_a_ring_takes_packets_to_the_end_and_keeps_the_last(tmp_path: Path) -> None:
    record = await trial(tmp_path / "run", '{ snap = 262144, ring = true, limit = "3MiB" }')
    seen = record.observers["capture"]
    assert "limit_reached" not in seen["server-0"]  # the requests of this study take less
    assert seen["trace-0"]["requests"] == REQUESTS
    many = trial(tmp_path / "many", '{ snap = 1024, ring = true, limit = "3MiB" }', requests=600)
    seen = (await many).observers["capture"]
    for end in ("client-0", "server-0"):
        assert seen[end]["limit_reached"] == 1
        assert 0 < seen[end]["held"] < seen[end]["captured"]
        assert 0 < seen[end]["cpu"] < 5
    assert 0 < seen["trace-0"]["requests"] < 600
    for pcap in (tmp_path / "many").glob("artifacts/*/*.pcap"):
        assert 1_000_000 < pcap.stat().st_size <= 3 * 2**20


STREAM = """
name = "stream"
[factors]
environment = ["host"]
[observe]
capture = { snap = 96 }
[[workloads]]
name = "stream"
kind = "iperf3"
duration = "1s"
warmup = "0s"
[design]
blocks = 1
"""


@pytest.mark.long
async def test_a_stream_is_told_by_the_mib(tmp_path: Path) -> None:
    (record,) = await laboratory.study(tmp_path / "run", STREAM)
    assert record.status == "ok", record.reason
    told = record.observers["capture"]["trace-0"]
    assert told["requests"] == 0
    # What iperf3 says that it moved, and what it says of that to its other end.
    assert told["payload"] == pytest.approx(record.responses["transfer"].value, rel=0.1)
    # Segments of 64 KiB at most leave; each is a packet of its own in both captures.
    assert 16 <= told["segments_per_mib"] < 1000
    assert told["segments_per_mib"] + told["acks_per_mib"] == pytest.approx(told["packets_per_mib"], rel=0.05)
