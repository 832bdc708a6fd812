"""kill -9 of a real run at random moments: no finished trial is lost or run twice, and the host is as before."""

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from nearmetal.config import Paths
from nearmetal.lab.image import Recipe, build
from nearmetal.model import TrialStatus
from nearmetal.store.folder import RunFolder
from nearmetal.store.journal import records
from tests.live.remains import after_a_moment
from tests.live.snapshot import changed, snapshot
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.alone]

STUDY = """
name = "killed"
reference = { environment = "host" }
[factors]
environment = ["host", "docker"]
[machine]
memory = "512MiB"
[observe]
capture = true
usage = true
[[workloads]]
name = "web"
kind = "http"
workers = 2
warmup = "0.1s"
duration = "0.3s"
[[workloads]]
name = "primes"
kind = "sysbench"
test = "cpu"
duration = "1s"
[design]
blocks = 4
"""


async def nearmetal(*arguments: str, engine: str, kill_after: float | None = None, of: Path | None = None) -> int:
    """Run the command; -9 when it was killed in time, else its own status. Time counts once there is a file `of`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "nearmetal", *arguments),
        env={**os.environ, "DOCKER_HOST": engine},
        stdout=asyncio.subprocess.DEVNULL,
    )
    if of is not None:
        await until(lambda: of.exists() or process.returncode is not None)
    try:
        return await asyncio.wait_for(process.wait(), kill_after or 200)
    except TimeoutError:
        process.kill()
        return await process.wait()


@pytest.mark.parametrize(
    ("environment", "kills", "longest", "blocks"),
    [
        ("docker", 4, 4.0, 4),
        pytest.param("docker", 100, 4.0, 20, marks=pytest.mark.long),
        pytest.param("qemu", 10, 25.0, 12, marks=pytest.mark.long),
    ],
)
@pytest.mark.timeout(0)
async def test_killed_at_random_moments(
    tmp_path: Path, engine: str, environment: str, kills: int, longest: float, blocks: int
) -> None:
    """`longest`: seconds that a controller lives at most."""
    await build(Recipe(), Paths.default().cache, print)
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace("blocks = 4", f"blocks = {blocks}").replace('"docker"', f'"{environment}"'))
    folder = tmp_path / "run"
    before = snapshot()
    moments = random.Random(kills)
    killed = 0
    finished: dict[str, str] = {}
    while killed < kills:
        command = (
            ["resume", str(folder)] if (folder / "manifest.json").exists() else ["run", str(study), "-o", str(folder)]
        )
        status = await nearmetal(
            *command, engine=engine, kill_after=moments.uniform(0.5, longest), of=folder / "manifest.json"
        )
        assert status == -9, f"it came to its end with status {status} after {killed} kills"
        killed += 1
        journal = RunFolder(folder).journal
        now = {record.trial.id: record.model_dump_json() for record in records(journal)}
        assert finished.items() <= now.items(), "a finished trial was lost or changed"
        finished = now
    assert await nearmetal("resume", str(folder), engine=engine) == 0
    found = list(records(RunFolder(folder).journal))
    assert len({record.trial.id for record in found}) == len(found), "a trial was run twice"
    assert all(record.status is TrialStatus.OK for record in found)
    assert await nearmetal("clean", engine=engine) == 0
    assert after_a_moment(lambda: changed(before, snapshot())) == []


async def test_an_undisturbed_run_leaves_the_host_as_it_was(tmp_path: Path, engine: str) -> None:
    await build(Recipe(), Paths.default().cache, print)
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace("blocks = 4", "blocks = 1"))
    before = snapshot()
    assert await nearmetal("run", str(study), "-o", str(tmp_path / "run"), engine=engine) == 0
    assert after_a_moment(lambda: changed(before, snapshot())) == []
