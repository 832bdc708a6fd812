"""Files that are read after the page cache was dropped come from the disk: on the host's kernel and in a guest."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nearmetal.lab.image import Image
from nearmetal.model import TrialRecord
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder

from .laboratory import study
from .two_hosts import Pair

pytestmark = pytest.mark.live

STUDY = """
name = "cold"
[factors]
environment = ["{environment}"]
cache = [{levels}]
[machine]
memory = "256MiB"
accel = "tcg"
[[workloads]]
name = "files"
kind = "sysbench"
test = "fileio"
mode = "seqrd"
total_size = "32MiB"
files = 4
cache = "{{cache}}"
duration = "1s"
[design]
blocks = 1
"""
SIZE = 32 * 2**20


def of(environment: str, *levels: str) -> str:
    return STUDY.format(environment=environment, levels=", ".join(f'"{level}"' for level in levels))


async def ran(folder: Path, environment: str, *levels: str) -> tuple[TrialRecord, dict[str, Any]]:
    return told(folder, await study(folder, of(environment, *levels)))


def told(folder: Path, records: Sequence[TrialRecord]) -> tuple[TrialRecord, dict[str, Any]]:
    """The record of the trial with a dropped cache, and what is kept of that; another has nothing of it."""
    found = {str(record.trial.treatment["cache"]): record for record in records}
    kept = {
        cache: [Path(folder / one.path) for one in record.artifacts if one.path.endswith("/cache.json")]
        for cache, record in found.items()
    }
    assert [(record.status, record.reason) for record in records] == [("ok", None)] * len(records)
    assert not kept.get("page")
    return found["dropped"], json.loads(kept["dropped"][0].read_text())


def was_dropped(cache: dict[str, Any], kernel: str) -> None:
    assert cache["kernel"] == kernel
    assert cache["problem"] is None
    assert cache["files_before"] > SIZE / 2, "what was prepared is in memory"
    assert cache["files_after"] <= SIZE / 100
    assert cache["cached_before"] - cache["cached_after"] > SIZE / 2


async def test_a_machine_on_the_hosts_kernel_has_the_hosts_cache_dropped(tmp_path: Path, lab_image: Image) -> None:
    record, cache = await ran(tmp_path / "run", "host", "page", "dropped")
    was_dropped(cache, "host")
    assert "host-cache" not in {warning.code for warning in record.warnings}


async def test_a_container_may_not_drop_it_and_its_host_does(
    tmp_path: Path, lab_image: Image, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine)
    _, cache = await ran(tmp_path / "run", "docker", "dropped")
    was_dropped(cache, "host")


@pytest.mark.long
async def test_a_guest_drops_its_own_and_says_what_its_host_may_have(tmp_path: Path, lab_image: Image) -> None:
    record, cache = await ran(tmp_path / "run", "qemu", "dropped")
    was_dropped(cache, "own")
    assert "host-cache" in {warning.code for warning in record.warnings}


@pytest.mark.long
async def test_a_machine_of_ones_own_drops_its_cache_as_root_does(pair: Pair, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    metal = f'[environments.metal]\nkind = "ssh"\naddress = "{pair.far.ssh}"\nimage = "chroot"\nprovision = "reuse"\n'
    file.write_text(of("metal", "dropped").replace("[factors]", f"{metal}[factors]"))
    status, _, stderr = await pair.nearmetal("run", str(file), "-o", str(tmp_path / "run"))
    assert status == 0, stderr
    _, cache = told(tmp_path / "run", list(read_records(RunFolder(tmp_path / "run").journal)))
    was_dropped(cache, "host")
