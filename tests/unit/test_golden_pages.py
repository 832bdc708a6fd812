"""Runs of manifest version 1 tell what they told when they were made."""

import shutil
from pathlib import Path

import pytest

from tests.command_line import called
from tests.golden.pages import HERE, RUNS, tell, written

_FEW = ("run", "kinds", "calibration")


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in _FEW else pytest.mark.long) for name in RUNS])
def test_a_run_of_version_1_tells_what_it_told(name: str, tmp_path: Path) -> None:
    told = tell(name, tmp_path)
    assert told == dict(written(name))


def test_a_reports_head_counts_trials_that_are_not_ok(tmp_path: Path) -> None:
    shutil.copytree(HERE / "kinds", tmp_path / "kinds", ignore=shutil.ignore_patterns("expected"))
    assert called("report", str(tmp_path / "kinds")).returncode == 0
    assert ">62 trials ok, 1 invalid, 1 lost</span>" in (tmp_path / "kinds" / "report.html").read_text()
