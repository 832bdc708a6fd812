"""What MkDocs calls for each page: links that leave docs/ lead to copies, and rows of tables have addresses.

A page links to a file of the repository as GitHub wants it, `../schemas/run/plan.v1.json`. The site has that file in
`source/`. A folder is no page: its link becomes text. A row of a table whose first cell names something in code has the
anchor of that name, so `validity.html#busy-host` is what a warning means.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "source"
"""The folder of the site that has files from outside docs/."""

WORKER = "assets/javascripts/iframe-worker.js"
"""By which a page that is opened from a folder searches: a browser starts no worker there."""
_FETCHED = "https://unpkg.com/iframe-worker/shim"

_WEIGHTS = {"Start": 2, "How to": 4}
"""Who searches has a task more often than a question about a decision."""

_LINK = re.compile(r"\[((?:[^][]|\[[^]]*\])*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
_FENCED = re.compile(r"(^[ ]*```.*?^[ ]*```$)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (`[^|]*?)(?= \| )", re.MULTILINE)
_WORD = re.compile(r"`([A-Za-z][A-Za-z0-9_.-]*)`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to outside docs/, and what those link to; and the search's helper."""
    files.append(File.generated(config, WORKER, abs_src_path=str(Path(__file__).with_name("iframe-worker.js"))))
    waiting = [ROOT / "CHANGELOG.md", *(Path(config.docs_dir) / file.src_uri for file in files.documentation_pages())]
    while waiting:
        page = waiting.pop()
        uri = find_uri(page)
        if uri.startswith(f"{SOURCE}/") and not files.get_file_from_path(uri):
            files.append(File.generated(config, uri, abs_src_path=str(page)))
        if page.suffix == ".md":
            waiting += [one for one in find_linked(page) if is_new(one, files)]
    return files


def is_new(path: Path, files: Files) -> bool:
    """Whether it is a file outside docs/ that the site does not have yet."""
    return path.is_file() and path.is_relative_to(ROOT) and not files.get_file_from_path(find_uri(path))


def find_linked(page: Path) -> Iterator[Path]:
    """The files that a page links to."""
    for _, path, _ in _LINK.findall(_FENCED.sub("", page.read_text("utf-8"))):
        yield Path(os.path.normpath(page.parent / path))


def find_uri(path: Path) -> str:
    """Where the site has a file of the repository."""
    below = path.relative_to(ROOT)
    return (below.relative_to("docs") if below.parts[0] == "docs" else Path(SOURCE, below)).as_posix()


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with links as the site needs them, and with anchors of rows."""
    uri = page.file.src_uri
    tab = [str(one.title) for one in page.ancestors][-1:]  # the outermost comes last
    page.meta["search"] = {"boost": _WEIGHTS.get("".join(tab), 0.3 if uri.startswith(("adr/", SOURCE)) else 1)}
    place = ROOT / uri.removeprefix(f"{SOURCE}/") if uri.startswith(f"{SOURCE}/") else ROOT / "docs" / uri
    parts = _FENCED.split(markdown)
    taken = {re.sub(r"[^\w\- ]", "", one).strip().lower() for one in re.findall(r"^#+ (.*)$", markdown, re.MULTILINE)}
    for number in range(0, len(parts), 2):  # between them are blocks of code
        parts[number] = anchor_rows(lead_links(parts[number], place, uri), taken)
    return "".join(parts)


def lead_links(text: str, place: Path, uri: str) -> str:
    def lead(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(place.parent / found[2]))
        if target.is_dir():
            return found[1]
        to = os.path.relpath(find_uri(target), PurePosixPath(uri).parent)
        return f"[{found[1]}]({to}{found[3] or ''})"

    return _LINK.sub(lead, text)


def anchor_rows(text: str, taken: set[str]) -> str:
    """Anchors for the words of each row's first cell. A word that has one already, on this page, gets no second."""

    def anchor(found: re.Match[str]) -> str:
        words = [word for word in dict.fromkeys(_WORD.findall(found[1])) if word not in taken]
        taken.update(words)
        return "| " + "".join(f'<a id="{word}"></a>' for word in words) + found[1]

    return _ROW.sub(anchor, text)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The page without what the theme would fetch from elsewhere."""
    return output.replace(_FETCHED, get_relative_url(WORKER, page.url))
