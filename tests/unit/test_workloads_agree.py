"""The probe's load generator and httperf, one after the other against one server: they find the same.

The server holds each reply back for so long that a machine's other work hardly matters beside it; nothing shorter than
half of that decides.
"""

import json
import shutil
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from nearmetal.model import Measurement
from tests.unit.test_workloads_live import ThisHost, life

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("httperf") is None, reason="httperf is not installed on this host"),
]

PORT = 9115
DELAY = 0.2
CONNECTIONS = 200
BODY = 1234
RATE: Mapping[str, Any] = {"rate": 100, "warmup": "0s", "timeout": "10s"}


@pytest_asyncio.fixture
async def url() -> AsyncIterator[str]:
    host = ThisHost("server0")
    argv = [host.probe, "serve", "--listen", f"{host.address}:{PORT}", "--body", str(BODY), "--delay", f"{DELAY}s"]
    serving = await host.spawn(argv)
    try:
        yield f"http://$server:{PORT}/"
    finally:
        await serving.stop()


def printed(found: Measurement, artifact: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(found.artifacts[artifact])
    return document


async def test_both_see_the_same_connections_replies_and_times(url: str) -> None:
    options: Mapping[str, Any] = {"mode": "open", "new_connections": True, "requests": CONNECTIONS}
    ours = await life(kind="http", url=url, **RATE, **options)
    theirs = await life(kind="httperf", url=url, **RATE, connections=CONNECTIONS)
    load, figures = printed(ours, "load-0.json"), printed(theirs, "httperf-0.json")

    for response in ("transactions", "errors"):
        assert ours.responses[response].value == theirs.responses[response].value
    assert ours.responses["transactions"].value == CONNECTIONS == ours.events == theirs.events
    assert load["connections"]["opened"] == figures["connections.opened"] == CONNECTIONS
    assert load["connections"]["replies_each"] == figures["connections.replies_each"] == 1
    assert load["bytes"]["body"] / CONNECTIONS == figures["reply_bytes.content"] == BODY
    # The one asks for its connection to be closed, and the server's reply says so: "close" for "keep-alive".
    keep = len("keep-alive") - len("close")
    assert load["bytes"]["header"] / CONNECTIONS == figures["reply_bytes.header"] - keep
    for status in ("1xx", "2xx", "3xx", "4xx", "5xx"):
        assert load["status"][status] == figures[f"status.{status}"]

    # Both keep the rate whatever the server does: 20 connections begin while the first is served.
    for most in (load["connections"]["concurrent_max"], figures["connections.concurrent_max"]):
        assert 0.5 * 100 * DELAY <= most <= CONNECTIONS
    for median in (load["connection_ns"]["p50"] / 1e9, figures["connection_ms.median"] / 1e3):
        assert 0.5 * DELAY < median < 10 * DELAY
    for mean in (load["first_byte_ns"]["mean"] / 1e9, figures["first_byte_ms.mean"] / 1e3):
        assert 0.5 * DELAY < mean < 10 * DELAY


async def test_both_count_what_is_refused_the_same() -> None:
    """Nobody listens: the programs themselves, for a workload without a single reply is a failure."""
    host = ThisHost("client0")
    server, port, count = "127.0.0.78", 9116, 20
    pace = ["--mode", "open", "--rate", "100", "--requests", str(count), "--new-connections"]
    ours = await host.exec([host.probe, "load", f"http://{server}:{port}/", "--json", *pace])
    theirs = await host.exec(
        ["httperf", f"--server={server}", f"--port={port}", "--rate=100", f"--num-conns={count}", "--timeout=5"]
    )
    errors = json.loads(ours.stdout)["errors"]
    assert (errors["refused"], errors["client_timeout"]) == (count, 0)
    assert f"client-timo 0 socket-timo 0 connrefused {count} connreset 0" in theirs.text
