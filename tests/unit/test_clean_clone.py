"""What git hides is not in a clone: no test may rest on it, or it passes here and nowhere else."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE = ("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
"""Folders that tools make for themselves."""


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no git checkout")
def test_nothing_hidden_lies_beside_what_is_tested() -> None:
    asked = ["git", "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", "src", "tests", "probe"]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    hidden = [Path(one) for one in told.split("\0") if one]
    assert [one for one in hidden if not set(one.parts) & set(MADE)] == []
