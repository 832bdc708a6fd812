"""What the manual's tables say of a word: a key, a warning, a response, a verdict. It is the text of docs/, one source.

An installed package has the pages in `manual/`; a checkout has them in `docs/`.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PAGES = (
    "glossary.md",
    "study-file.md",
    "validity.md",
    "workloads.md",
    "treatments.md",
    "environments.md",
    "observers.md",
)
"""In the order in which they are looked up."""

_DEFINED = re.compile(
    r"(asked|blame|code|counter|file|key|kind|level|option|parameter|reason|response|status|value|verdict|word)\b"
)
"""What the first column of a table of definitions holds, by the first word of its head. Others have measurements, and
what tests cover."""
_IN_PLAIN = "word"
"""The first column of a table whose words are not in code."""

_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[((?:[^][]|\[+[^][]*\]+)*)\]\(([^)]*)\)")
"""Its text may itself be in brackets: "[[workloads]]"."""
_CELL = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"\|[\s:|-]+\|")
_PAGE = re.compile(r"\bdocs/([\w/-]+\.md)")
_LED = re.compile(r" \(docs/([\w/-]+\.md)(?:#[^)]*)?\)")
"""A link, as an entry has it."""
_BETWEEN = re.compile(r"[\s_-]+")
"""Of the parts of a word."""


@dataclass(frozen=True)
class ManualEntry:
    """A row of a table that is about some words."""

    words: tuple[str, ...]
    page: str
    heading: str
    about: tuple[tuple[str, str], ...]
    """Column and cell, without markup."""


def find_installed() -> Path | None:
    """The folder of the pages of an installed package; None in a checkout, which has them in docs/."""
    folder = Path(__file__).parents[1] / "manual"
    return folder if folder.is_dir() else None


def lead_to_pages(text: str) -> str:
    """A text whose pages can be opened: in an installed package by their paths. Pages that it lacks are left out."""
    folder = find_installed()
    if folder is None:
        return text

    without = _LED.sub(lambda found: found[0] if (folder / found[1]).is_file() else "", text)
    return _PAGE.sub(lambda found: str(folder / found[1]), without)


def read_entries() -> list[ManualEntry]:
    """Of all pages that are there."""
    folder = find_installed() or Path(__file__).parents[3] / "docs"
    pages = (folder / page for page in PAGES)
    return [entry for page in pages if page.is_file() for entry in parse_page(page.name, page.read_text("utf-8"))]


def find_entries(entries: Iterable[ManualEntry], word: str) -> list[ManualEntry]:
    """Those about a word, however it is spelt: "not-worse" as "Not worse". A key may have its table before it."""
    table, _, key = word.rpartition(".")
    asked = {fold_word(word), fold_word(key)}
    found = [one for one in entries if asked & set(map(fold_word, one.words))]
    return [one for one in found if f"[{table}]" in one.heading or word in one.words] or found


def fold_word(word: str) -> str:
    """A word without what people spell in several ways."""
    return _BETWEEN.sub("-", word.strip(" \"'`[]").lower())


def parse_page(name: str, text: str) -> Iterator[ManualEntry]:
    """Each row of a table of definitions whose first cell names something; and each "`cause`: meaning" of a row."""
    heading, columns = "", [""]
    lines = text.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("#"):
            heading = _strip_markup(line.lstrip("# "))
        elif _RULE.fullmatch(below):
            columns = [_strip_markup(cell) for cell in _split_cells(line)]
        elif _RULE.fullmatch(line):
            continue
        elif line.startswith("|") and _DEFINED.match(columns[0]):
            cells = _split_cells(line)
            told = [(column, _strip_markup(cell, name)) for column, cell in zip(columns[1:], cells[1:], strict=False)]
            words = cells[0].split(", ") if columns[0] == _IN_PLAIN else _CODE.findall(cells[0])
            if words:
                yield ManualEntry(tuple(words), name, heading, tuple((column, cell) for column, cell in told if cell))
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
