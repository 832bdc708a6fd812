"""What a machine's disk lies on, as its host's kernel has it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nearmetal.lab.image import Image
from nearmetal.report.report_input import read_run_input
from nearmetal.store.run_folder import RunFolder

from .laboratory import study

pytestmark = pytest.mark.live

STUDY = """
name = "disks"
reference = {{ environment = "host" }}
[environments.docker]
kind = "docker"
engine = "{engine}"
[factors]
environment = ["host", "{other}"]
[machine]
memory = "256MiB"
accel = "tcg"
[[workloads]]
name = "files"
kind = "sysbench"
test = "fileio"
mode = "seqwr"
total_size = "8MiB"
files = 4
duration = "1s"
[design]
blocks = 1
"""


@pytest.fixture
def in_memory(home: Path) -> Iterator[None]:
    """Machines' files on this host are in its memory."""
    state = home / "state"
    state.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(state)], check=True)
    yield
    subprocess.run(["umount", str(state)], check=True)


def below(folder: Path) -> str:
    told = subprocess.run(["df", "--output=fstype,source", folder], capture_output=True, text=True, check=True).stdout
    kind, source = told.splitlines()[1].split()
    return f"{kind} on {source}"


async def told(folder: Path, engine: str, other: str) -> tuple[dict[str, Any], set[str]]:
    """What each environment's disk lies on, and what the comparison warns of."""
    records = await study(folder, STUDY.format(engine=engine, other=other))
    assert {record.status for record in records} == {"ok"}, [record.reason for record in records]
    run = read_run_input(RunFolder(folder))
    servers = [one for one in run.manifest.fairness if one.role == "server"]
    lies_on = {str(one.treatment["environment"]): one.facts.get("disk", {}).get("lies_on") for one in servers}
    return lies_on, {warning.code for contrast in run.analysis.contrasts for warning in contrast.warnings}


async def test_a_container_and_the_host_on_one_disk(engine: str, lab_image: Image, tmp_path: Path) -> None:
    lies_on, warned = await told(tmp_path / "run", engine, "docker")
    disk = below(Path(engine.removeprefix("unix://")).parent)
    assert lies_on == {"host": below(tmp_path), "docker": disk}
    assert ("disks-unlike" in warned) == (below(tmp_path) != disk)


@pytest.mark.usefixtures("in_memory")
async def test_memory_below_an_overlay_is_no_disk(engine: str, lab_image: Image, tmp_path: Path) -> None:
    lies_on, warned = await told(tmp_path / "run", engine, "docker")
    assert lies_on == {"host": "tmpfs", "docker": below(Path(engine.removeprefix("unix://")).parent)}
    assert "disks-unlike" in warned


@pytest.mark.long
async def test_a_guests_disk_is_a_file_somewhere(lab_image: Image, tmp_path: Path) -> None:
    lies_on, warned = await told(tmp_path / "run", "unix:///none", "qemu")
    assert lies_on == {"host": below(tmp_path), "qemu": below(tmp_path)}
    assert "disks-unlike" not in warned
