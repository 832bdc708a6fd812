"""The four studies after published ones by their quick versions, with real components; and forty pairs at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nearmetal.lab.image import Image
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder

from . import laboratory

pytestmark = [pytest.mark.live, pytest.mark.long]

_LIMIT = 2 * 3600
"""Seconds: each says twenty minutes on two cores that nothing else uses."""

PAIRS = """
name = "pairs"
[factors]
environment = ["host", "docker"]
[machine]
memory = "64MiB"
[clients]
count = 40
connect = "pairs"
[[workloads]]
name = "page"
kind = "http"
requests = 30
warmup = "0s"
timeout = "30s"
[design]
blocks = 1
"""


@pytest.fixture(autouse=True)
def docker(engine: str, lab_image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine)


@pytest.mark.parametrize("name", ["cpu-isolation", "virtual-vs-physical", "shared-network", "system-vs-os"])
def test_a_published_study_runs_by_its_quick_version(name: str, tmp_path: Path) -> None:
    """Whether trials count is this host's affair too: one that is busy makes generators late, and says so."""
    folder = tmp_path / "run"
    asked = (sys.executable, "-m", "nearmetal", "run", name, "--quick", "-o", str(folder), "--json")
    ended = subprocess.run(asked, capture_output=True, text=True, timeout=_LIMIT)
    assert ended.returncode in (0, 1), ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    failed = [(one.trial, one.reason) for one in read_records(RunFolder(folder).journal) if one.blame == "treatment"]
    assert failed == []
    assert {one["workload"] for one in told["contrasts"]} and all(one["verdict"] for one in told["contrasts"])
    assert told["trials"]["ok"] > sum(told["trials"].values()) / 2
    assert (folder / "report.html").exists()


async def test_forty_pairs_at_once(tmp_path: Path) -> None:
    for record in await laboratory.study(tmp_path / "run", PAIRS):
        assert (record.status, record.reason) == ("ok", None)
        assert record.responses["transactions"].by_client == (30,) * 40
        assert [one.role for one in record.machines].count("server") == 40
