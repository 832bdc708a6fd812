"""The probe's load generator and httperf, one after the other against one server: they find the same.

On this host's loopback, and within each kind of machine that a lab makes. The server holds each reply back for so long
that a machine's other work hardly matters beside it; nothing shorter than half of that decides.
"""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nearmetal import plugins
from nearmetal.lab import probe
from nearmetal.lab.changes.ledger import Ledger, ledgers_folder, new_token
from nearmetal.lab.image import Image
from nearmetal.lab.lab import Lab
from nearmetal.lab.site_registry import Sites
from nearmetal.lab.stage import LabStage
from nearmetal.model import EnvironmentSpec, Machine, MachineSpec, Measurement
from nearmetal.study.resolve import resolve_alone
from tests.conftest import OWN_CPU
from tests.unit.test_workloads_live import ThisHost, life_on, stage_of

pytestmark = pytest.mark.live

HERE = "loopback"
SPEC = MachineSpec.model_validate({"vcpus": 1, "memory": "256MiB"})
PORT = 9115
NOBODY = 9116
DELAY = 0.2
RATE = 50
CONNECTIONS = 100
BODY = 1234
TIMEOUT = 10
COMMON: Mapping[str, Any] = {"rate": RATE, "warmup": "0s", "timeout": f"{TIMEOUT}s"}


@pytest.fixture(params=[HERE, "host", "docker", pytest.param("qemu", marks=pytest.mark.long)])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where both programs and their server run. Skips where httperf, or an engine, is missing."""
    chosen: str = request.param
    if chosen == HERE and shutil.which("httperf") is None:
        pytest.skip("httperf is not installed on this host")
    if chosen == "docker":
        if shutil.which("dockerd") is None:
            pytest.skip("there is no Docker engine to start on this host")
        monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("engine"))
    return chosen


@pytest_asyncio.fixture
async def stage(kind: str, home: Path, request: pytest.FixtureRequest) -> AsyncIterator[LabStage]:
    """A server and a client of one kind, on a switch of their own unless they are this host."""
    if kind == HERE:
        yield stage_of(ThisHost("server0"), ThisHost("client0"))
        return
    ledger = Ledger(ledgers_folder() / "agreement.jsonl")
    lab = Lab(new_token(), ledger, Sites({}))
    try:
        yield stage_of(await made(lab, kind, "server"), await made(lab, kind, "client"))
    finally:
        left = await lab.close()
        ledger.close()
    assert left == []


async def made(lab: Lab, kind: str, role: Any) -> Machine:
    site = await lab.site("local")
    provision = plugins.load("environments", kind).provisions[0]
    handle = await lab.create(
        resolve_alone(EnvironmentSpec(kind=kind).model_copy(update={"provision": provision}), SPEC),
        SPEC,
        role,
        str(OWN_CPU),
        site,
    )
    machine = await lab.attach(handle)
    await probe.ensure(machine)
    return machine


def printed(found: Measurement, artifact: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(found.artifacts[artifact])
    return document


async def test_they_agree(lab_image: Image, stage: LabStage) -> None:
    """One test, because a guest takes longer to boot than all of this to run."""
    await both_see_the_same_connections_replies_and_times(stage)
    await both_count_what_is_refused_the_same(stage)


async def both_see_the_same_connections_replies_and_times(stage: LabStage) -> None:
    server = stage.servers[0]
    listen = ["--listen", f"{server.address}:{PORT}", "--body", str(BODY), "--delay", f"{DELAY}s"]
    serving = await server.spawn([server.probe, "serve", *listen])
    url = f"http://$server:{PORT}/"
    try:
        await answers(stage.clients[0], url.replace("$server", server.address))
        options: Mapping[str, Any] = {"mode": "open", "new_connections": True, "requests": CONNECTIONS}
        ours = await life_on(stage, kind="http", url=url, **COMMON, **options)
        theirs = await life_on(stage, kind="httperf", url=url, **COMMON, connections=CONNECTIONS)
    finally:
        await serving.stop()
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
    assert load["errors"]["client_timeout"] == figures["errors.client-timo"] == 0

    # Both keep the rate whatever the server does: 10 connections begin while the first is served, and none before its
    # time, so that the last reply comes a delay after the last connection was due.
    for most in (load["connections"]["concurrent_max"], figures["connections.concurrent_max"]):
        assert 0.5 * RATE * DELAY <= most <= CONNECTIONS
    planned = (CONNECTIONS - 1) / RATE + DELAY
    for lasted in (load["elapsed_ns"] / 1e9, figures["duration_s"]):
        assert 0.95 * planned < lasted < planned + TIMEOUT
    for median in (load["connection_ns"]["p50"] / 1e9, figures["connection_ms.median"] / 1e3):
        assert 0.5 * DELAY < median < 10 * DELAY
    for mean in (load["first_byte_ns"]["mean"] / 1e9, figures["first_byte_ms.mean"] / 1e3):
        assert 0.5 * DELAY < mean < 10 * DELAY


async def answers(client: Machine, url: str) -> None:
    """Wait until it does: a workload waits for no server that it did not start."""
    async with asyncio.timeout(20):
        while (await client.exec([client.probe, "load", url, "--requests", "1", "--workers", "1"])).status:
            pass


async def both_count_what_is_refused_the_same(stage: LabStage) -> None:
    """Nobody listens: the programs themselves, for a workload without a single reply is a failure."""
    client, server, count = stage.clients[0], stage.servers[0].address, 20
    pace = ["--mode", "open", "--rate", "100", "--requests", str(count), "--new-connections"]
    ours = await client.exec([client.probe, "load", f"http://{server}:{NOBODY}/", "--json", *pace])
    theirs = await client.exec(
        ["httperf", f"--server={server}", f"--port={NOBODY}", "--rate=100", f"--num-conns={count}", "--timeout=5"]
    )
    assert (ours.status, theirs.status) == (1, 0)
    errors = json.loads(ours.stdout)["errors"]
    assert (errors["refused"], errors["client_timeout"]) == (count, 0)
    assert f"client-timo 0 socket-timo 0 connrefused {count} connreset 0" in theirs.text
