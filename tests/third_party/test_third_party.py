"""Somebody else's package: installed beside nearmetal it takes part in everything, and no file of ours knows of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nearmetal.model import TrialRecord, TrialStatus
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder

from .installing import HERE, forked_with_package, install, with_package

PACKAGE = HERE / "nearmetal-example"
STUDY = PACKAGE / "hashing.toml"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(PACKAGE, tmp_path_factory.mktemp("site-packages"))


def test_without_the_package_its_names_are_unknown() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "nearmetal", "plan", str(STUDY)], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 2
    assert f"{STUDY}:5: there is no environment 'tempdir'" in ended.stderr


@pytest.mark.live
def test_a_study_of_its_five_plugins_runs(installed: Path, tmp_path: Path) -> None:
    ended = with_package(installed, "nearmetal", "run", str(STUDY), "--blocks=2", "--json", "-o", str(tmp_path / "run"))
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout.splitlines()[-1])
    assert summary["trials"] == {"ok": 4, "invalid": 0, "failed": 0, "lost": 0}
    (contrast,) = (found for found in summary["contrasts"] if found["primary"])
    assert (contrast["workload"], contrast["response"], contrast["unit"]) == ("zeros", "hashed", "B/s")
    assert contrast["treatment"] == {"environment": "tempdir", "niceness": 10}
    assert contrast["reference"] == {"environment": "tempdir", "niceness": 0}
    assert contrast["ratio"] > 0

    folder = RunFolder.open(tmp_path / "run")
    for record in read_records(folder.journal):
        level = record.trial.treatment["niceness"]
        assert record.readback["niceness"] == {"niceness": [str(level)]}
        assert {machine.environment for machine in record.machines} == {"tempdir"}
        averages = record.observers["loadavg"]
        assert averages.keys() == {"before", "after"}
        assert all(average > 0 for average in averages["before"] + averages["after"])
        hashed = record.responses["hashed"]
        assert 2**20 < hashed.value < 2**40
        assert record.responses["cpu_per_event"].value > 0
        dd = next(artifact for artifact in record.artifacts if artifact.path.endswith("dd-0.err"))
        assert b"67108864 bytes" in (folder.path / dd.path).read_bytes()

    assert "Bytes hashed in a second" in folder.page.read_text()
    fastest = (folder.report / "hashing.csv").read_text().splitlines()
    assert len(fastest) == 3


@pytest.mark.live
def test_a_machine_of_its_environment_stays_up_until_it_is_taken_down(installed: Path) -> None:
    up = with_package(installed, "nearmetal", "up", "tempdir", "--name", "theirs")
    try:
        assert up.returncode == 0, up.stderr
        assert "127.0.0.1 is its address\n" in up.stderr + up.stdout
        ended = with_package(installed, "nearmetal", "exec", "theirs", "--", "nice")
        assert (ended.returncode, ended.stdout) == (0, "0\n"), ended.stderr
        (machine,) = json.loads(with_package(installed, "nearmetal", "ls", "--json").stdout)["machines"]
        assert (machine["name"], machine["state"], machine["switch"]) == ("theirs", "up", None)
    finally:
        assert with_package(installed, "nearmetal", "down", "theirs").returncode == 0


@pytest.mark.live
@pytest.mark.parametrize("which", ["not alone", pytest.param("alone", marks=pytest.mark.alone)])
def test_its_environment_passes_the_conformance_tests(installed: Path, which: str) -> None:
    options = ("-k", "tempdir", "-m", which, "-q", "-p", "no:cacheprovider", "-o", "addopts=")
    ended = with_package(installed, "pytest", "tests/conformance", *options)
    assert ended.returncode == 0, ended.stdout[-5000:]
    assert "passed" in ended.stdout


def on(environment: str, workload: str, rest: str = "") -> str:
    """A study there with the same environment for its clients."""
    return f"""
name = "on-{environment}"
[factors]
environment = ["{environment}"]
{rest}
[clients]
environment = "{environment}"
[[workloads]]
name = "work"
{workload}
[design]
blocks = 2
"""


SHA = 'kind = "sha"\nsize = "16MiB"'
PRIMES = 'kind = "sysbench"\ntest = "cpu"\nevents = 100'


def ran(installed: Path, tmp_path: Path, text: str) -> "tuple[subprocess.CompletedProcess[str], list[TrialRecord]]":
    file, run = tmp_path / "study.toml", tmp_path / "run"
    file.write_text(text)
    ended = forked_with_package(installed, "run", str(file), "-o", str(run))
    return ended, list(read_records(RunFolder.open(run).journal)) if run.exists() else []


def test_a_treatment_by_a_sysctl_runs_on_pretended_machines(installed: Path, tmp_path: Path) -> None:
    ended, found = ran(installed, tmp_path, on("mock", PRIMES, "autocorking = [true, false]"))
    assert ended.returncode == 0, ended.stderr
    assert len(found) == 4
    for record in found:
        level = record.trial.treatment["autocorking"]
        assert list(record.readback["autocorking"].values()) == ["1" if level else "0"]


@pytest.mark.live
@pytest.mark.parametrize(
    "text",
    [
        on("host", SHA),
        pytest.param(on("host", PRIMES, "[observe]\nloadavg = true"), marks=pytest.mark.long),
        pytest.param(on("host", PRIMES, "autocorking = [true, false]"), marks=pytest.mark.long),
    ],
    ids=["workload", "observer", "treatment"],
)
def test_what_pretended_machines_do_not_answer_runs_on_the_host(installed: Path, tmp_path: Path, text: str) -> None:
    ended, found = ran(installed, tmp_path, text)
    assert ended.returncode == 0, ended.stderr
    assert len(found) >= 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (on("mock", SHA), "sh: not found"),
        pytest.param(
            on("mock", PRIMES, "[observe]\nloadavg = true"),
            "cat: /proc/loadavg: No such file or directory",
            marks=pytest.mark.long,
        ),
        pytest.param(on("mock", PRIMES, "niceness = [0]"), "nice: not found", marks=pytest.mark.long),
    ],
    ids=["workload", "observer", "treatment"],
)
def test_what_pretended_machines_do_not_answer_is_told(installed: Path, tmp_path: Path, text: str, reason: str) -> None:
    ended, found = ran(installed, tmp_path, text)
    assert ended.returncode == 1, ended.stderr
    assert {record.status for record in found} <= {TrialStatus.FAILED, TrialStatus.INVALID}
    assert all(reason in str(record.reason) for record in found)


def test_its_observer_is_a_factor_by_its_name(installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "watched.toml"
    file.write_text(on("mock", PRIMES, "loadavg = [false, true]"))
    ended = forked_with_package(installed, "plan", str(file), "--json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)["plan"]["treatments"]
    assert [treatment["loadavg"] for treatment in found] == [False, True]


def test_a_level_that_its_treatment_refuses_is_told_with_its_place(installed: Path, tmp_path: Path) -> None:
    for change, place, sentence in CHANGES:
        file = tmp_path / "bad.toml"
        file.write_text(STUDY.read_text().replace(*change))
        ended = forked_with_package(installed, "plan", str(file))
        assert ended.returncode == 2
        assert f"{file}:{place}: " in ended.stderr
        assert sentence in ended.stderr
        assert "docs/study-file.md" not in ended.stderr


CHANGES: list[tuple[tuple[str, str], int, str]] = [
    (("[0, 10]", "[0, 20]"), 6, "it is a whole number from 0 to 19"),
    (("loadavg = true", 'loadavg = "often"'), 15, "write loadavg = true"),
    (("loadavg = true", 'loadavg = "often"'), 15, "the package nearmetal-example says what it takes"),
    (("[machine]", "[environments.tempdir]\nkind = 'tempdir'\nkep = true\n[machine]"), 10, "did you mean `keep`?"),
]


def plugins_of(installed: Path) -> dict[str, Any]:
    """What every group has that is the package's."""
    script = (
        "import json; from nearmetal import plugins; "
        "print(json.dumps({group: plugins.list_names(group) for group in plugins._PACKAGES}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), *sys.path])},
        capture_output=True,
        check=True,
        timeout=60,
    )
    return dict(json.loads(ended.stdout))


def test_its_names_stand_beside_ours(installed: Path) -> None:
    names = plugins_of(installed)
    for group, name in {
        "environments": "tempdir",
        "treatments": "niceness",
        "workloads": "sha",
        "observers": "loadavg",
        "sections": "hashing",
    }.items():
        assert name in names[group]
        assert len(names[group]) > 1
