"""A plugin of somebody else's that cannot be imported is told as that, and troubles nobody who does not use it."""

import json
import sys
from pathlib import Path

import pytest

from tests.command_line import started

STUDY = """
name = "theirs"
[factors]
environment = ["lame"]
[[workloads]]
name = "work"
kind = "ping"
"""


@pytest.fixture(params=["1 / 0", "import nowhere", "x = 1", "raise SystemExit('needs Linux 7')"])
def package(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """A package beside nearmetal whose plugin breaks, lacks what it needs, is not where it should be, or ends."""
    described = tmp_path / "theirs-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[nearmetal.environments]\nlame = lame_one:plugin\n")
    (tmp_path / "lame_one.py").write_text(f"{request.param}\n")
    return {"PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}"}


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
