"""Runs of manifest version 1 tell what they told when they were made."""

from pathlib import Path

import pytest

from tests.golden.pages import RUNS, tell, written

_FEW = ("run", "kinds", "calibration")


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in _FEW else pytest.mark.long) for name in RUNS])
def test_a_run_of_version_1_tells_what_it_told(name: str, tmp_path: Path) -> None:
    told = tell(name, tmp_path)
    assert told == dict(written(name))
