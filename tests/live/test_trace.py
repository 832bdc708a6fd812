"""What the analyser finds in captures of both ends, against what the link between them says it did."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .wire import Wire, trace, whole

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and captures take root"),
    pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is missing: apt-get install tcpdump"),
]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize(
    "impairment",
    [
        ("--delay", "2ms"),
        ("--delay", "2ms", "--loss", "2%"),
        ("--delay", "2ms", "--reorder", "3%"),
        ("--delay", "5ms", "--jitter", "1ms", "--loss", "1%", "--reorder", "1%", "--rate", "50Mbit/s"),
    ],
    ids=["plain", "loss", "reordering", "everything"],
)
@pytest.mark.parametrize("snap", [pytest.param(0, marks=pytest.mark.long), 96])
def test_both_ends_find_what_the_link_did(
    stack: ExitStack, tmp_path: Path, impairment: tuple[str, ...], snap: int
) -> None:
    wire = Wire(stack, *impairment)
    files = [tmp_path / "client.pcap", tmp_path / "server.pcap"]
    captures = [wire.capture(side, file, "-s", str(snap)) for side, file in enumerate(files)]
    wire.serve("--body", "200000")
    wire.load(requests := 20)
    # What is still on its way, such as the last acknowledgement, arrives.
    wire.run(0, "sleep", "1.5")
    told = json.loads(wire.link.end()[0])
    for capture in captures:
        whole(capture)
    lines = tmp_path / "requests.jsonl"
    document = trace(*files, "--requests", lines)
    assert document["requests"] == document["joined"]["requests"] == requests
    assert [capture["end"] for capture in document["captures"]] == ["client", "server"]
    for way in ("there", "back"):
        found, did = document["joined"][way], told[way]
        assert found["left"] == did["received"]["packets"]
        assert found["arrived"] == did["delivered"]["packets"]
        assert found["lost"] + found["lost_bare"] + found["unsettled"] == did["lost"] + did["overflowed"]
        assert found["reordered"] + found["reordered_bare"] == did["reordered"]
        assert found["unsent"] == found["duplicated"] == 0
        # One machine has one clock: both ways take at least the delay, as far as it is known.
        uncertain = document["joined"]["uncertainty_ns"] + 100_000
        assert abs(document["joined"]["offset_ns"]) <= uncertain
    requests_told = [json.loads(line) for line in lines.read_text().splitlines()]
    assert sum(one["joined"]["response_lost"] for one in requests_told) <= document["joined"]["back"]["lost"]
    for one in requests_told:
        parts = ("client_ns", "network_ns", "server_ns", "transfer_ns")
        assert sum(one["joined"][part] for part in parts) == one["joined"]["total_ns"]


def test_the_receivers_end_alone_tells_loss_from_reordering(stack: ExitStack, tmp_path: Path) -> None:
    wire = Wire(stack, "--delay", "4ms", "--loss", "1%", "--reorder", "2%")
    files = [tmp_path / "client.pcap", tmp_path / "server.pcap"]
    captures = [wire.capture(side, file, "-s", "96") for side, file in enumerate(files)]
    wire.serve("--body", "200000")
    wire.load(20)
    wire.run(0, "sleep", "0.5")
    for capture in captures:
        whole(capture)
    document = trace(*files)
    client, server = (capture["server"] for capture in document["captures"])
    between = document["joined"]["back"]
    # What the receiver calls reordered was overtaken between; what it calls sent again, it got by a repeat. A repeat
    # that was itself overtaken is both between, and at the receiver's end a repeat alone.
    assert 0 <= between["reordered"] - client["reordered"] <= client["retransmitted"]
    assert client["segments"] == server["segments"] - between["lost"]
    assert client["retransmitted"] <= server["retransmitted"]


def test_writes_are_seen_apart(stack: ExitStack, tmp_path: Path) -> None:
    wire = Wire(stack)
    file = tmp_path / "lo.pcap"
    capture = wire.capture(1, file, "tcp", "port", "9001", interface="lo")
    wire.serve("--writes", "10x1000", address="127.0.0.1")
    wire.load(requests := 50, side=1, address="127.0.0.1")
    wire.run(1, "sleep", "0.3")
    whole(capture)
    server = trace(file)["server"]
    assert server["writes"]["size"] == 1000
    assert server["writes"]["apart"] + server["writes"]["joined"] == 10 * requests
    assert server["segments"] - server["retransmitted"] == server["writes"]["apart"]
