"""What the analyser finds in captures of both ends, against what the link between them says it did."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nearmetal.lab import probe

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and captures take root"),
    pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is missing: apt-get install tcpdump"),
]

LIMIT = 120.0
CLIENT, SERVER = "10.97.0.1", "10.97.0.2"
MACS = {CLIENT: "02:00:00:00:97:01", SERVER: "02:00:00:00:97:02"}
Document = dict[str, Any]


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=LIMIT)


class Program:
    """A program that runs until it is told to end."""

    def __init__(self, *argv: str) -> None:
        self._process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )

    def wait_for(self, word: str, where: str) -> None:
        stream = self._process.stdout if where == "stdout" else self._process.stderr
        assert stream
        for line in stream:
            if word in line:
                return
        raise AssertionError(f"{self._process.args!r} never said '{word}'")

    def end(self) -> tuple[str, str]:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.communicate(timeout=LIMIT)


class Wire:
    """Two namespaces with a link between them, that carries nothing but what the test sends."""

    def __init__(self, stack: ExitStack, *impairment: str) -> None:
        self.stack = stack
        self.names = [f"nmtrace{os.getpid()}{side}" for side in "cs"]
        for name in self.names:
            ip("netns", "add", name)
            stack.callback(ip, "netns", "delete", name)
            quiet = "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"
            subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", *quiet], check=True)
            ip("-netns", name, "link", "set", "lo", "up")
        self.link = Program(str(probe.path()), "link", *self.names, "--json", *impairment)
        stack.callback(self.link.end)
        self.link.wait_for("link.ready.v1", "stdout")
        addresses = (CLIENT, SERVER)
        for name, own, other in zip(self.names, addresses, reversed(addresses), strict=True):
            ip("-netns", name, "link", "set", "link0", "address", MACS[own])
            ip("-netns", name, "address", "add", f"{own}/24", "dev", "link0")
            ip("-netns", name, "neighbour", "add", other, "lladdr", MACS[other], "dev", "link0", "nud", "permanent")

    def program(self, side: int, *argv: str) -> Program:
        program = Program("ip", "netns", "exec", self.names[side], *argv)
        self.stack.callback(program.end)
        return program

    def run(self, side: int, *argv: str) -> str:
        ended = subprocess.run(
            ["ip", "netns", "exec", self.names[side], *argv], capture_output=True, text=True, timeout=LIMIT
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def capture(self, side: int, file: Path, *options: str, interface: str = "link0") -> Program:
        # Without immediate mode, what is captured in the last second is lost when tcpdump is told to end.
        how = ("--immediate-mode", "-B", "65536", "-Z", "root")
        tcpdump = ("tcpdump", "-i", interface, *how, "-w", str(file), *options)
        program = self.program(side, *tcpdump)
        program.wait_for("listening on", "stderr")
        return program

    def serve(self, *options: str, address: str = SERVER) -> None:
        server = self.program(1, str(probe.path()), "serve", "--listen", f"{address}:9001", *options)
        server.wait_for("listening", "stderr")

    def load(self, requests: int, side: int = 0, address: str = SERVER) -> None:
        options = ("--workers", "1", "--requests", str(requests), "--timeout", "60s", "--json")
        told = json.loads(self.run(side, str(probe.path()), "load", f"http://{address}:9001/", *options))
        assert told["requests"]["completed"] == requests


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def whole(tcpdump: Program) -> None:
    """The capture ended, and missed nothing."""
    _, said = tcpdump.end()
    assert "0 packets dropped by kernel" in said, said


def trace(*arguments: str | Path) -> Document:
    ended = subprocess.run([probe.path(), "trace", "--json", *arguments], capture_output=True, timeout=LIMIT)
    assert ended.returncode == 0, ended.stderr.decode()
    return dict(json.loads(ended.stdout))


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
@pytest.mark.parametrize("snap", [0, 96])
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
