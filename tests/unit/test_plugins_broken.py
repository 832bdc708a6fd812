"""A plugin of somebody else's that cannot be imported, or is none, is told as that, and troubles nobody who does not
use it."""

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from nearmetal import plugins
from nearmetal.errors import HostCannot
from nearmetal.plugins import Group
from tests.command_line import started

STUDY = """
name = "theirs"
[factors]
environment = ["lame"]
[[workloads]]
name = "work"
kind = "ping"
"""


def beside_nearmetal(folder: Path, group: Group, module: str) -> dict[str, str]:
    """A package with this module, which its plugin `lame` is in."""
    described = folder / "theirs-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (described / "entry_points.txt").write_text(f"[nearmetal.{group}]\nlame = lame_one:plugin\n")
    (folder / "lame_one.py").write_text(f"{module}\n")
    return {"PYTHONPATH": f"{folder}:{':'.join(sys.path)}"}


@pytest.fixture(params=["1 / 0", "import nowhere", "x = 1", "raise SystemExit('needs Linux 7')", "plugin = object()"])
def package(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """One whose plugin breaks, lacks what it needs, is not where it should be, ends Python, or is none."""
    return beside_nearmetal(tmp_path, "environments", request.param)


@pytest.fixture
def study(tmp_path: Path) -> str:
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    return str(file)


@pytest.mark.parametrize("command", ["plan", "run", "up"])
def test_who_uses_it_is_told_whose_it_is(package: dict[str, str], study: str, command: str) -> None:
    ended = started(command, "lame" if command == "up" else study, environment=package)
    assert ended.returncode == 3, ended.stderr
    assert "'lame' in environments, of the package theirs, cannot be loaded" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "pip uninstall theirs" in ended.stderr
    assert "nearmetal[lame]" not in ended.stderr


def test_nobody_else_is_troubled(package: dict[str, str]) -> None:
    ended = started("plan", "quickstart", "--json", environment=package)
    assert ended.returncode in (0, 3)
    assert json.loads(ended.stdout)["schema"] == "plan.v1"


def test_an_observer_that_ends_python_is_told_too(tmp_path: Path) -> None:
    theirs = beside_nearmetal(tmp_path, "observers", "raise SystemExit(3)")
    ended = started("plan", "quickstart", "--set", "observe.lame=true", environment=theirs)
    assert ended.returncode == 3
    assert "'lame' in observers, of the package theirs, cannot be loaded: SystemExit: 3" in ended.stderr


@pytest.mark.parametrize("group", ["treatments", "workloads", "observers", "sections"])
def test_doctor_tells_of_it_whatever_it_would_be(tmp_path: Path, group: Group) -> None:
    theirs = beside_nearmetal(tmp_path, group, "1 / 0")
    print_them = "from nearmetal.lab import doctor; print(*doctor._plugins_of_others())"
    ended = subprocess.run(
        [sys.executable, "-c", print_them], env={**os.environ, **theirs}, capture_output=True, text=True
    )
    assert ended.stdout.count("ok=False") == 1, ended.stderr
    assert f"'{group[:-1]} lame'" in ended.stdout and "pip uninstall theirs" in ended.stdout
    assert "fatal=False" in ended.stdout


class Half:
    """Some of what each group asks for."""

    kind = name = "half"
    around = True

    async def prepare(self) -> None: ...


@pytest.mark.parametrize(
    ("group", "half", "lacks"),
    [
        ("environments", Half(), "is no Environment: it has no Options, attach, check, and 5 more"),
        ("environments", Half, "is a class, not an object"),
        ("treatments", Half(), "is no Treatment: it has no changes, problem, shape, and 1 more"),
        ("workloads", Half, "is no Workload: it has no Parameters, finish, run"),
        ("workloads", Half(), "is an object, not a class"),
        ("observers", Half, "is no Observer: it has no start, takes"),
        ("sections", Half(), "is no SectionPlugin: it has no order, render, title"),
    ],
)
def test_what_is_not_what_its_group_asks_for_is_told_by_what_it_lacks(
    group: Group, half: object, lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_entry_points", lambda group: {"half": EntryPoint("half", "theirs:half", group)})
    monkeypatch.setattr(EntryPoint, "load", lambda point: half)
    with pytest.raises(HostCannot, match=f"'half' in {group}, of the package theirs, cannot be loaded: it {lacks}"):
        plugins.load(group, "half")
