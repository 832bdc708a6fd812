"""Runs of manifest version 1 tell what they told when they were made."""

from pathlib import Path

import pytest

from tests.golden.pages import RUNS, tell, written


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_version_1_tells_what_it_told(name: str, tmp_path: Path) -> None:
    told = tell(name, tmp_path)
    assert told == dict(written(name))
