"""Every code that a warning can have is explained: in the table of warnings, or where what gives it is described."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GIVEN = {
    code
    for file in (ROOT / "src" / "nearmetal").rglob("*.py")
    for code in re.findall(r"(?:\bcode=|_treatments\()\"([a-z-]+)\"", file.read_text())
}
CHAPTER = (ROOT / "docs" / "validity.md").read_text().split("\n## Warnings\n", 1)[1].split("\n## ", 1)[0]
ROWS = {code for row in re.findall(r"^\| (`.*?) \|", CHAPTER, re.MULTILINE) for code in re.findall(r"`([a-z-]+)`", row)}
REASONS = {"censored", "not-finite", "not-positive", "units-differ"}
"""Why a comparison has no verdict."""


def test_each_is_explained() -> None:
    pages = [(ROOT / "docs" / name).read_text() for name in ("workloads.md", "treatments.md")]
    elsewhere = {code for code in GIVEN if any(f"`{code}`" in page for page in pages)}
    assert sorted(GIVEN - ROWS - elsewhere - REASONS) == []


def test_what_a_run_as_a_whole_is_warned_of_stands_in_the_table() -> None:
    assert {"emulated", "pretended", "interrupted", "unfinished", "left-behind", "odd-client", "withdrawn"} <= ROWS
    assert "left-out" in ROWS and "change-refused" in ROWS
