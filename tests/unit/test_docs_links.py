"""Links from one page of the docs to another, and to a heading in it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/**/*.md"), *ROOT.glob("probe/*.md")))
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_LONGEST = 100_000
"""Characters: the longest page has a third of these."""


def _text(page: Path) -> str:
    return _FENCED.sub("", page.read_text())


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = (
        re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in _HEADING.findall(_text(page))
    )
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(page: Path) -> None:
    for path, anchor in _LINK.findall(_text(page)):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{path} is not there"
        assert not anchor or anchor in _anchors(target), f"{path} has no heading for #{anchor}"


def test_pages_are_found_and_of_a_length_that_can_be_read() -> None:
    assert len(PAGES) > 20
    assert [page.name for page in PAGES if len(page.read_text()) > _LONGEST and page.name != "CHANGELOG.md"] == []
