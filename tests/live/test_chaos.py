"""kill -9 at random moments, by a seed that is printed: nothing is lost, run twice or left behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearmetal.lab.image import Image
from tests import one_picture
from tests.chaos.campaign import surroundings
from tests.chaos.killed import Surroundings
from tests.chaos.places import PLACES, write_study
from tests.conftest import SHARED_CACHE

from .leftovers import after_a_moment
from .snapshot import changed, snapshot

pytestmark = [pytest.mark.live, pytest.mark.timeout(0)]


@pytest.fixture
def around(tmp_path: Path, lab_image: Image, engine: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    with surroundings(tmp_path / "chaos", SHARED_CACHE) as made:
        made.program = one_picture.COMMAND
        made.environment["DOCKER_HOST"] = engine
        monkeypatch.setenv("NEARMETAL_HOME", str(made.folder / "home"))
        yield made


def test_half_a_dozen_kills(lab_image: Image) -> None:
    """Of the run's own processes and of its helpers, in namespaces. `make long-test` kills in every environment."""
    words = ["--kills", "6", "--places", "mock,host,docker"]
    # It has a home of its own; this test's lies too deep for sockets.
    environment = {name: value for name, value in os.environ.items() if name != "NEARMETAL_HOME"}
    command = [sys.executable, "-m", "tests.chaos", *words]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 lost, 0 run twice, 0 left behind" in ended.stdout


@pytest.mark.alone
def test_an_undisturbed_run_leaves_the_host_as_it_was(around: Surroundings, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(write_study(PLACES["docker"]).replace("blocks = 2", "blocks = 1"))
    before = snapshot()
    words = [sys.executable, "-m", "nearmetal", "run", str(study), "-o", str(tmp_path / "run")]
    assert subprocess.run(words, env={**os.environ, **around.environment}, timeout=200).returncode == 0
    assert after_a_moment(lambda: changed(before, snapshot())) == []
