"""What the manual's tables say of a key, a warning, a cause or a response: the same text as in docs/, one source.

An installed package has the pages in `manual/`; a checkout has them in `docs/`.
"""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGES = (
    "study-file.md",
    "validity.md",
    "workloads.md",
    "treatments.md",
    "environments.md",
    "observers.md",
    "services.md",
)
"""In the order in which they are looked up."""

_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[((?:[^][]|\[+[^][]*\]+)*)\]\(([^)]*)\)")
"""Its text may itself be in brackets: "[[workloads]]"."""
_CELL = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"\|[\s:|-]+\|")


@dataclass(frozen=True)
class ManualEntry:
    """A row of a table that is about some words."""

    words: tuple[str, ...]
    page: str
    heading: str
    about: tuple[tuple[str, str], ...]
    """Column and cell, without markup."""


def read_entries() -> list[ManualEntry]:
    """Of all pages that are there."""
    here = Path(__file__).parents[1]
    folder = here / "manual" if (here / "manual").is_dir() else here.parents[1] / "docs"
    pages = (folder / page for page in PAGES)
    return [entry for page in pages if page.is_file() for entry in parse_page(page.name, page.read_text("utf-8"))]


def parse_page(name: str, text: str) -> Iterator[ManualEntry]:
    """Each row whose first cell names something in code; and each "`cause`: meaning" of a row."""
    heading, columns = "", [""]
    lines = text.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("#"):
            heading = _strip_markup(line.lstrip("# "))
        elif _RULE.fullmatch(below):
            columns = [_strip_markup(cell) for cell in _split_cells(line)]
        elif _RULE.fullmatch(line):
            continue
        elif line.startswith("|") and (cells := _split_cells(line)):
            told = [(column, _strip_markup(cell, name)) for column, cell in zip(columns[1:], cells[1:], strict=False)]
            if words := tuple(_CODE.findall(cells[0])):
                yield ManualEntry(words, name, heading, tuple((column, cell) for column, cell in told if cell))
            for part in (part for cell in cells[1:] for part in cell.split(";")):
                if found := re.match(r"\s*`([a-z-]+)`: (.+)", part):
                    yield ManualEntry((found[1],), name, heading, (("meaning", _strip_markup(found[2])),))


def _split_cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(line.strip())[1:-1]]


def _strip_markup(text: str, page: str = "") -> str:
    """As plain text; links keep their address if `page` names the page that they are on."""

    def write_link(found: re.Match[str]) -> str:
        shown, target = found.groups()
        if not page or "://" in target:
            return shown
        address = f"docs/{page}{target}" if target.startswith("#") else posixpath.normpath(f"docs/{target}")
        return f"{shown} ({address})"

    return _LINK.sub(write_link, text).replace("`", "").replace("**", "").strip()
