"""The image of the Containerfile: built from local files, and measuring the host that it runs on.

Its base is the lab image, because no registry is asked here. Debian's packages come over the host's network.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nearmetal.lab import container_privileges, probe
from nearmetal.lab.containers import imported_images
from nearmetal.lab.image import Image
from nearmetal.model import TrialRecord
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from tests.conftest import SHARED_CACHE
from tests.shared_engine import BOUNDED
from tests.waiting import wait_until

from .leftovers import after_a_moment, groups
from .snapshot import changed, snapshot

pytestmark = [pytest.mark.live, pytest.mark.alone, pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
FLAGS = " ".join(container_privileges.FLAGS)
TAG = "nearmetal/itself:tested"
NAME = "contained"
"""Of the container."""
STUDY = """
name = "contained"
[factors]
environment = ["host", "docker"]
[machine]
memory = "128MiB"
[[workloads]]
name = "page"
kind = "http"
duration = "500ms"
[design]
blocks = 2
"""
_LIMIT = 1200
"""Seconds for one command."""

Contained = Callable[..., "subprocess.CompletedProcess[str]"]


def _run(*command: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, env={**os.environ, **(env or {})})


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel of this source and those that it needs, for the Python of Debian 12."""
    folder = tmp_path_factory.mktemp("wheels")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT))
    ended = _run(*build, env={"NEARMETAL_PROBE": str(probe.path())})
    assert ended.returncode == 0, ended.stderr
    (wheel,) = folder.glob("*.whl")
    only = ("--only-binary=:all:", "--python-version=3.11", "--platform=manylinux_2_28_x86_64")
    older = ("--platform=manylinux2014_x86_64", "--platform=manylinux_2_17_x86_64")
    ended = _run(sys.executable, "-m", "pip", "download", "-q", *only, *older, "-d", str(folder), str(wheel))
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.fixture(scope="module")
def docker(engine: str) -> Contained:
    """The program, of the tests' engine."""

    def call(*words: str) -> "subprocess.CompletedProcess[str]":
        return _run("docker", *words, env={"DOCKER_HOST": engine, "DOCKER_BUILDKIT": "0"})

    return call


@pytest.fixture(scope="module")
def image(docker: Contained, lab_image: Image, wheels: Path) -> Iterator[str]:
    arguments = {"BASE": imported_images.name_copy(lab_image), "PIP_NO_INDEX": "1"}
    given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    where = ("--network", "host", "-f", str(ROOT / "Containerfile"))
    ended = docker("build", "-t", TAG, *where, *given, str(wheels))
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-4000:]
    yield TAG
    docker("rmi", TAG)
    docker("image", "prune", "--force")  # what the wheel was installed in: the engine's data outlive the tests


@pytest.fixture
def contained(docker: Contained, engine: str, image: str, home: Path, tmp_path: Path) -> Contained:
    """nearmetal in a container, with the flags that `doctor` names, or others."""
    socket = engine.removeprefix("unix://")
    mounts = {SHARED_CACHE: "/var/cache/nearmetal", home / "state": "/var/lib/nearmetal", tmp_path / "work": "/work"}
    for folder in mounts:
        folder.mkdir(exist_ok=True)
    mounts[Path(socket)] = "/var/run/docker.sock"
    volumes = [word for source, place in mounts.items() for word in ("-v", f"{source}:{place}")]

    def call(*words: str, flags: str = FLAGS) -> "subprocess.CompletedProcess[str]":
        return docker("run", "--rm", "--runtime", BOUNDED, "--name", NAME, *shlex.split(flags), *volumes, image, *words)

    return call


def _findings(ended: "subprocess.CompletedProcess[str]") -> dict[str, dict[str, object]]:
    assert ended.stdout, ended.stderr
    return {one["what"]: one for one in json.loads(ended.stdout)["findings"]}


def test_doctor_says_that_it_lacks_nothing(contained: Contained) -> None:
    before = snapshot()
    ended = contained("doctor", "host", "docker", "qemu", "--json")
    found = _findings(ended)
    tried = [f"environment {name}: a machine that runs a command" for name in ("host", "docker")]
    bad = [f"{one}: {found.get(one)}" for one in ("container", "accelerator tcg", *tried) if not found[one]["ok"]]
    assert bad == []
    assert ended.returncode == 0
    assert after_a_moment(lambda: changed(before, snapshot())) == []


@pytest.mark.parametrize(
    ("given", "instead", "told"),
    [
        ("--privileged", "", "(--privileged)"),
        ("--pid=host", "", "(--pid=host)"),
        ("--network=host", "", "(--network=host)"),
        ("--cgroupns=host", "--cgroupns=private", "(--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup)"),
        ("-v /sys/fs/cgroup:/sys/fs/cgroup", "", "(--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup)"),
    ],
)
def test_doctor_names_what_it_lacks(given: str, instead: str, told: str, contained: Contained) -> None:
    assert given in FLAGS
    ended = contained("doctor", "host", "--json", flags=FLAGS.replace(given, instead))
    found = _findings(ended)["container"]
    assert not found["ok"]
    assert told in str(found["detail"]) and str(found["detail"]).count("(--") == 1, found
    assert found["remedy"] == f"docker run {FLAGS}"


def test_a_study_measures_the_host_and_an_engine_beside_it(contained: Contained, tmp_path: Path) -> None:
    before = snapshot()
    work = tmp_path / "work"
    (work / "study.toml").write_text(STUDY)
    ended = contained("run", "study.toml", "-o", "run")
    folder = RunFolder(work / "run")
    records: list[TrialRecord] = list(read_records(folder.journal))
    assert [(one.status, one.reason) for one in records] == [("ok", None)] * 4, ended.stderr
    assert ended.returncode == 0, ended.stderr
    assert {one.machines[0].environment for one in records} == {"host", "docker"}
    assert all("cpu_per_event" in one.responses for one in records)
    assert folder.read_manifest().host["container"] == {"lacks": []}
    assert "contained" not in ended.stdout
    assert (work / "run/report.html").is_file()
    assert after_a_moment(lambda: changed(before, snapshot())) == []


def test_a_run_that_lacks_something_says_so(contained: Contained, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "study.toml").write_text(STUDY.replace(', "docker"', ""))
    ended = contained("run", "study.toml", "-o", "run", flags=FLAGS.replace("--network=host", ""))
    (lacked,) = RunFolder(work / "run").read_manifest().host["container"]["lacks"]
    assert f"nearmetal ran in a container without {lacked}" in " ".join(ended.stdout.split()), ended.stderr
    assert ended.returncode == 0


@pytest.mark.parametrize("lacked", [container_privileges.PRIVILEGED, container_privileges.GROUPS])
def test_a_run_that_cannot_measure_is_refused_with_the_flag(lacked: str, contained: Contained, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "study.toml").write_text(STUDY)
    ended = contained("run", "study.toml", "-o", "run", flags=FLAGS.replace(lacked, ""))
    assert ended.returncode == 3
    assert f"{container_privileges.FLAGS[lacked]}: nearmetal runs in a container" in " ".join(ended.stderr.split()), (
        ended.stderr
    )
    assert f"docker run {lacked}" in ended.stderr
    assert not (work / "run").exists()


def test_what_a_killed_container_left_is_cleaned_by_the_next(
    contained: Contained, docker: Contained, tmp_path: Path
) -> None:
    before = snapshot()
    work = tmp_path / "work"
    (work / "study.toml").write_text(STUDY.replace("blocks = 2", "blocks = 50"))
    with ThreadPoolExecutor() as threads:
        running = threads.submit(contained, "run", "study.toml", "-o", "run")
        wait_until(lambda: groups("nearmetal-nm-"))
        assert docker("kill", NAME).returncode == 0
        assert running.result().returncode == 137
    ended = contained("clean")
    assert ended.returncode == 0, ended.stderr
    assert after_a_moment(lambda: changed(before, snapshot())) == []
