"""Captures of both ends of a trial, and what a record then tells of its requests."""

import json
from pathlib import Path

import pytest

from nearmetal.model import TrialRecord

from . import laboratory

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
warmup = "0s"
requests = {REQUESTS}
[design]
blocks = 1
"""


async def trial(folder: Path, capture: str) -> TrialRecord:
    (record,) = await laboratory.study(folder, STUDY.replace("@CAPTURE@", capture))
    assert record.status == "ok", record.reason
    return record


async def test_a_trial_is_captured_at_both_ends_and_told(tmp_path: Path) -> None:
    # Enough of each packet to see where a reply's head ends, by which its first write is told from the head.
    record = await trial(tmp_path / "run", "{ snap = 512 }")
    seen = record.observers["capture"]
    assert "problem" not in str(seen)
    for end in ("client-0", "server-0"):
        assert seen[end]["captured"] > 2 * REQUESTS
        assert seen[end]["dropped_by_kernel"] == 0
        assert "limit_reached" not in seen[end]
    told = seen["trace-0"]
    assert told["requests"] == REQUESTS
    assert told["retransmitted"] == told["reordered"] == 0
    # A cable without delay: a packet stamped at its far end before its near one counts as lost (docs/observers.md).
    assert told["lost"] + told["overtaken"] <= REQUESTS / 10
    # Both ends share a kernel, and so a clock.
    assert abs(told["clock_offset"]) <= told["clock_uncertainty"] + 100e-6
    assert 0 == told["at.request_first"] <= told["at.response_first"] <= told["at.response_last"]
    assert told["at.server.request_first"] <= told["at.server.response_first"]
    files = {Path(artifact.path).name: tmp_path / "run" / artifact.path for artifact in record.artifacts}
    assert {"client-0.pcap", "server-0.pcap", "trace-0.json"} <= files.keys()
    document = json.loads(files["trace-0.json"].read_text())
    assert [capture["file"] for capture in document["captures"]] == ["client-0.pcap", "server-0.pcap"]
    assert document["joined"]["requests"] == REQUESTS
    server = document["server"]
    assert server["payload_bytes"] > REQUESTS * WRITES * SIZE
    assert server["writes"]["size"] == told["write_size"] == SIZE
    # What the packets say was held back and joined to others is what the server wrote less what left apart.
    assert server["writes"]["apart"] + server["writes"]["joined"] == REQUESTS * WRITES


async def test_a_capture_stops_at_its_limit_and_says_so(tmp_path: Path) -> None:
    record = await trial(tmp_path / "run", '{ snap = 1024, limit = "64KiB", inside = true }')
    seen = record.observers["capture"]
    most = 64 * 1024 // (1024 + 16)
    assert seen["client-0"]["captured"] == seen["server-0"]["captured"] == most
    assert seen["client-0"]["limit_reached"] == 1
    assert 0 < seen["trace-0"]["requests"] < REQUESTS
    (pcap,) = (tmp_path / "run" / a.path for a in record.artifacts if a.path.endswith("client-0.pcap"))
    assert pcap.stat().st_size <= 64 * 1024 + 24
