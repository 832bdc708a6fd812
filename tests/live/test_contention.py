"""Contention on real processors: what a server is left with, and by whom it is taken."""

from pathlib import Path

import pytest

from nearmetal.lab.image import Image
from nearmetal.model import TrialRecord
from nearmetal.treatments.contention import KINDS

from .laboratory import study

pytestmark = pytest.mark.live

STUDY = """
name = "contention"
[factors]
environment = ["{environment}"]
contention = [{levels}]
[machine]
memory = "256MiB"
accel = "tcg"
[[workloads]]
name = "sums"
kind = "sysbench"
test = "cpu"
duration = "3s"
[design]
blocks = 1
"""
LISTENING = STUDY + "[observe]\nnoise = true\n"


async def ran(folder: Path, environment: str, *levels: str, text: str = STUDY) -> dict[str, TrialRecord]:
    """The record of each level."""
    text = text.format(environment=environment, levels=", ".join(f'"{level}"' for level in levels))
    records = await study(folder, text)
    assert [(record.status, record.reason) for record in records] == [("ok", None)] * len(levels)
    return {str(record.trial.treatment["contention"]): record for record in records}


def share(record: TrialRecord) -> float:
    """Of its one processor's time, what the server had. On a busy host it may be less than it was left."""
    return record.responses["cpu_per_event"].value * record.responses["events"].value


@pytest.fixture
def docker(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine)


async def shares(folder: Path, environment: str) -> None:
    """About half is what a server should have; all that no noise can do is to give it more."""
    records = await ran(folder, environment, "cpu")
    assert share(records["cpu"]) < 0.75
    assert records["cpu"].readback["neighbours"] == {"running": [" ".join(KINDS["cpu"](1))]}
    placed = [one["asked"] for one in records["cpu"].readback["cpus"].values()]
    assert len(placed) == 3
    assert max(map(placed.count, placed)) >= 2, "the neighbour is where the server is"


@pytest.mark.parametrize("environment", ["host", pytest.param("qemu", marks=pytest.mark.long)])
async def test_a_server_shares_its_processor(tmp_path: Path, lab_image: Image, environment: str) -> None:
    await shares(tmp_path / "run", environment)


async def test_a_container_shares_its_processor(tmp_path: Path, lab_image: Image, docker: None) -> None:
    await shares(tmp_path / "run", "docker")


@pytest.mark.long
async def test_a_guest_and_its_host_are_heard_at_once(tmp_path: Path, lab_image: Image) -> None:
    """The guest wants its processor all the time, and a neighbour has half of it: never less on a busy host."""
    records = await ran(tmp_path / "run", "qemu", "cpu", text=LISTENING)
    heard = records["cpu"].observers["noise"]
    for when in ("before", "after"):
        server = heard[when]["server-0"]
        assert server["0"]["gaps"] > 0
        assert server["host"]["turns"] > 0
        assert server["host"]["waited"] > 0.25


@pytest.mark.long
async def test_every_kind_goes_on_until_the_trial_is_over(tmp_path: Path, lab_image: Image) -> None:
    records = await ran(tmp_path / "run", "host", "none", "io", "memory", "cpu,io")
    assert "neighbours" not in records["none"].readback
    for level in ("io", "memory", "cpu,io"):
        running = [" ".join(KINDS[kind](1)) for kind in level.split(",")]
        assert records[level].readback["neighbours"] == {"running": running}


@pytest.mark.usefixtures("one_attempt")
async def test_one_that_cannot_go_on_makes_the_trial_invalid(
    tmp_path: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "io", lambda workers: ("stress-ng", "--hdd", "1", "--temp-path", "/nowhere"))
    text = STUDY.format(environment="host", levels='"io"')
    records = await study(tmp_path / "run", text)
    assert {record.status for record in records} == {"invalid"}
    assert "neighbours: `stress-ng --hdd 1 --temp-path /nowhere` ended with" in str(records[0].reason)
