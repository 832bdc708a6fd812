"""The expensive page of the published study, by lighttpd and PHP, in each kind of machine that a lab makes."""

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal.lab.changes.ledger import Ledger, ledgers_folder, new_token
from nearmetal.lab.image import Image
from nearmetal.lab.lab import Lab
from nearmetal.lab.site_registry import Sites
from nearmetal.lab.stage import LabStage
from tests.unit.test_workloads_live import life_on, stage_of

from .test_workloads_agree import made

pytestmark = pytest.mark.live

PUBLISHED = 508_362
"""Bytes of the published study's reply, which varies with the numbers that the shuffle brings to the front."""


@pytest.fixture(params=["host", "docker", pytest.param("qemu", marks=pytest.mark.long)])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    chosen: str = request.param
    if chosen == "docker":
        if shutil.which("dockerd") is None:
            pytest.skip("there is no Docker engine to start on this host")
        monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("engine"))
    return chosen


@pytest_asyncio.fixture
async def stage(kind: str, home: Path, lab_image: Image) -> AsyncIterator[LabStage]:
    """A server of the kind, and a client on this host."""
    ledger = Ledger(ledgers_folder() / "heavy.jsonl")
    lab = Lab(new_token(), ledger, Sites({}))
    try:
        yield stage_of(await made(lab, kind, "server"), await made(lab, "host", "client"))
    finally:
        left = await lab.close()
        ledger.close()
    assert left == []


async def test_every_reply_is_whole_and_of_the_published_size(stage: LabStage) -> None:
    found = await life_on(
        stage, kind="http", path="/heavy.php", requests=6, workers=2, warmup="0s", timeout="30s", new_connections=True
    )
    document = json.loads(found.artifacts["load-0.json"])
    assert found.responses["errors"].value == 0
    assert document["status"]["2xx"] == found.events == 6
    assert document["bytes"]["body"] / 6 == pytest.approx(PUBLISHED, rel=1e-3)
