"""One image of a user's own on the host, in a container and in a guest; its own entry point is what is measured."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nearmetal.config import Paths
from nearmetal.errors import HostCannot
from nearmetal.lab.containers import image as container_image
from nearmetal.lab.containers import imported_images
from nearmetal.lab.containers.api import DOCKER, ContainerEngine
from nearmetal.lab.image import REMEDY, Image, ImageSource, build_own, rm
from nearmetal.lab.image.archive import read_bundle
from nearmetal.model import TrialRecord, TrialStatus
from nearmetal.run import study_execution
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.study_file import read
from tests.own_image import busybox, docker_archive, layer

pytestmark = pytest.mark.live

WORK = 0.005
"""Seconds of CPU time that each reply costs the service."""
MANUAL = (Path(__file__).parents[2] / "docs" / "services.md").read_text()
_, STUDY = re.findall(r"```toml\n(name .*?)```", MANUAL, re.DOTALL)
QUICK = (
    "design.blocks=1",
    "workloads.replies.warmup=0s",
    "workloads.replies.duration=1s",
    "workloads.replies.workers=2",
    "design.seed=1",
)
# Whoever it runs as, and where, with which environment, is in its command line: it starts with nothing else.
START = '#!/bin/sh\n[ "$(id -un) $PWD $MODE" = "server /var/api quick" ] || exit 9\nexec api 0.0.0.0 "$1"\n'


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As of `docker save`: busybox, and above it the service."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: an image of one's own was NOT run; apt-get install gcc")
    folder = tmp_path_factory.mktemp("image")
    source = Path(__file__).with_name("own_service.c")
    subprocess.run([compiler, "-O2", "-static", "-o", str(folder / "api"), str(source)], check=True)
    service = [("srv/api", (folder / "api").read_bytes(), 0o755), ("srv/start", START.encode(), 0o755)]
    config = {
        "Entrypoint": ["start"],
        "Cmd": ["8080"],
        "Env": ["PATH=/srv:/bin", "MODE=quick"],
        "User": "1000",
        "WorkingDir": "/var/api",
    }
    return docker_archive(folder / "image.tar", [layer(busybox()), layer(service)], config)


async def ran(text: str, folder: Path, overrides: tuple[str, ...] = QUICK) -> dict[str, TrialRecord]:
    study = read(text, "own-image.toml", overrides)
    await study_execution.start_run(
        study_execution.RunRequest(study, text, overrides, False, folder, available=False), print, ()
    )
    return {str(one.trial.treatment["environment"]): one for one in read_records(RunFolder(folder).journal)}


@pytest.mark.usefixtures("one_attempt")
async def test_what_an_image_starts_is_measured_in_each_environment(
    archive: Path, home: Path, lab_image: Image, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if shutil.which("dockerd") is None:
        pytest.skip("there is no Docker engine to start on this host: an image of one's own was NOT run")
    monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("engine"))
    name = f"own-{os.getpid()}"
    assert len(STUDY.splitlines()) <= 20
    image = await build_own(ImageSource(name, archive, lab_image), Paths.default().cache, print)
    try:
        found = await ran(STUDY.replace('image = "mine"', f'image = "{name}"'), home / "run")
    finally:
        await imported_images.remove_copy(image, DOCKER)
        rm(Paths.default().cache, name)
    assert {name: (one.status, one.reason) for name, one in found.items()} == dict.fromkeys(
        ("host", "docker", "qemu"), (TrialStatus.OK, None)
    )
    for environment, one in found.items():
        assert one.responses["errors"].value == 0
        assert one.responses["latency_p50"].value >= WORK
        # A guest whose host is busy takes its clock for the time that it had.
        assert one.responses["cpu_per_event"].value > (0.0 if environment == "qemu" else WORK)


async def test_a_reference_is_taken_from_an_engine_that_has_it(
    archive: Path, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine)
    connected = await ContainerEngine.connect(engine)
    name = f"own-{os.getpid()}:1"
    identity = await connected.call(container_image.provide_image, connected.client, str(archive), "docker")
    try:
        await connected.call(connected.client.tag, identity, *name.split(":"))
        await container_image.save_image(name, tmp_path / "saved.tar", DOCKER)
        bundle = read_bundle(tmp_path / "saved.tar", REMEDY)
        assert bundle.layers and bundle.config["Entrypoint"] == ["start"] and bundle.config["User"] == "1000"
        with pytest.raises(HostCannot, match=r"(?i)no such image"):
            await container_image.save_image("none-of-that-name:1", tmp_path / "none.tar", DOCKER)
    finally:
        await connected.call(connected.client.remove_image, identity, force=True)
