"""The manual of treatments names each of them, and each of their levels."""

import re
from pathlib import Path

from nearmetal import plugins
from nearmetal.lab.changes.ethtool import FEATURES
from nearmetal.run import verify
from nearmetal.run.verify import DRIVERS
from nearmetal.treatments import contention, isolation

TEXT = (Path(__file__).parents[2] / "docs" / "treatments.md").read_text()
CHAPTERS = dict(re.findall(r"^## `([a-z-]+)`[^\n]*\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S))
"""By the name of the treatment."""


def levels(name: str) -> set[str]:
    """What stands in the first column of the first table of a chapter."""
    paragraphs = map(str.strip, CHAPTERS[name].split("\n\n"))
    rows = next(one for one in paragraphs if one.startswith("| level")).splitlines()[2:]
    return {row.split("|")[1].strip().strip('`"') for row in rows}


def test_every_treatment_has_its_chapter_and_no_other_has() -> None:
    assert tuple(sorted(CHAPTERS)) == plugins.list_names("treatments")


def test_every_chapter_says_where_and_how_it_is_read_back() -> None:
    for name, text in CHAPTERS.items():
        assert "**Where.**" in text, name
        assert "**How it is read back.**" in text, name


def test_every_level_that_is_named_is_one() -> None:
    for name in CHAPTERS:
        treatment = plugins.load("treatments", name)
        for level in levels(name):
            assert treatment.problem({"true": True, "false": False}.get(level, level)) is None, (name, level)


def test_every_level_is_named() -> None:
    assert levels("contention") >= {"none", *contention.KINDS}
    assert levels("isolation") == set(isolation.LEVELS)
    assert levels("offload") >= {"true", "false"}
    assert all(f"`{name}`" in CHAPTERS["offload"] for name in FEATURES)


def test_every_driver_that_is_read_back_is_named() -> None:
    assert all(f"`{driver}`" in TEXT for driver in DRIVERS.values())


def test_the_bands_of_memory_are_those_that_are_judged_by() -> None:
    for least, most in (verify.MEMORY_SHARE, verify.RAM_SHARE):
        assert f"{100 * least:g} to {100 * most:g} %" in TEXT
