"""Somebody else's environment on the lab's switch, with the lab's root filesystem: by `nearmetal.lab.api` alone."""

import json
from pathlib import Path

import pytest

from nearmetal.model import TrialStatus
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder

from .installing import HERE, install, with_package

pytestmark = pytest.mark.live

STUDY = """
name = "jailed"
[factors]
environment = ["host", "jail"]
[clients]
environment = "jail"
[machine]
memory = "256MiB"
[[workloads]]
name = "replies"
kind = "http"
server = "lighttpd"
requests = 50
warmup = "0s"
[design]
blocks = 1
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(HERE / "nearmetal-jail", tmp_path_factory.mktemp("site-packages"))


def test_its_machines_serve_and_load_beside_ours(installed: Path, tmp_path: Path) -> None:
    file, run = tmp_path / "study.toml", tmp_path / "run"
    file.write_text(STUDY)
    ended = with_package(installed, "nearmetal", "run", str(file), "--json", "-o", str(run))
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["trials"]["ok"] == 2
    by_level = {record.trial.treatment["environment"]: record for record in read_records(RunFolder.open(run).journal)}
    assert by_level.keys() == {"host", "jail"}
    for level, record in by_level.items():
        assert record.status is TrialStatus.OK
        assert [machine.environment for machine in record.machines] == [level, "jail"]
        assert record.responses["transactions"].value == 50


def test_it_passes_the_conformance_tests(installed: Path) -> None:
    options = ("-k", "jail", "-m", "not alone", "-q", "-p", "no:cacheprovider", "-o", "addopts=")
    ended = with_package(installed, "pytest", "tests/conformance", *options)
    assert ended.returncode == 0, ended.stdout[-5000:]
    assert "passed" in ended.stdout
    assert "skipped" not in ended.stdout, ended.stdout[-5000:]
