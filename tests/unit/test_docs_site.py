"""The documentation as a site: each link leads somewhere, generated pages are current, and pages stay short."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
import pytest
from docs_site.command_line import CODES, PAGE, list_commands, render_man, render_page
from mkdocs.config import load_config

from nearmetal.cli import cli
from nearmetal.errors import ExitCode

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MOST_WORDS = 30_000
"""Of prose outside the reference."""
MOST_WORDS_OF_A_TASK = 500
_NOT_PROSE = re.compile(r"^```.*?^```|^\s*\|.*?$", re.MULTILINE | re.DOTALL)
_COMMANDS = re.compile(r"^ *```(?:sh|console)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)

_COMMAND = re.compile(r"""^ *(?:\$ )?(?:sudo )?(?:\S*/)?nearmetal ((?:"[^"]*"|'[^']*'|#.*|[^"'\n#])*)""", re.MULTILINE)
"""A quoted text may have several lines."""


def read_nav() -> dict[str, list[str]]:
    """Pages by the title of their tab."""
    (tabs,) = [load_config(str(ROOT / "mkdocs.yml"))["nav"]]
    return {title: list(_list_pages(pages)) for tab in tabs for title, pages in tab.items()}


def _list_pages(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for part in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _list_pages(part)


def count_prose(page: Path) -> int:
    """Words that are not in tables or in blocks of code."""
    return len(_NOT_PROSE.sub("", page.read_text("utf-8")).split())


def test_it_is_built_and_each_link_leads_somewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    pages = {page.name: page.read_text("utf-8") for page in tmp_path.rglob("*.html")}
    assert 'id="busy-host"' in pages["validity.html"] and 'id="margin"' in pages["study-file.html"]
    assert [name for name, page in pages.items() if re.search(r'(?:src|href)="https?://[^"]*\.(?:js|css)', page)] == []


def test_the_page_of_commands_is_current() -> None:
    assert PAGE.read_text("utf-8") == render_page(), "renew it: python -m docs_site.command_line"


def test_each_exit_code_is_explained() -> None:
    assert {code for code, _ in CODES} == {code.value for code in ExitCode}


def test_man_pages_are_read_without_a_complaint(tmp_path: Path) -> None:
    if not Path("/usr/bin/groff").exists():
        pytest.skip("groff is not there: the man pages were NOT read")
    pages = [render_man(name, command) for name, command in list_commands(cli, "nearmetal")]
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z"], input="".join(pages), capture_output=True, text=True, timeout=60
    )
    assert len(pages) > 30 and done.stderr == ""


def test_prose_outside_the_reference_is_bounded() -> None:
    nav = read_nav()
    pages = [page for title, pages in nav.items() if title != "Reference" for page in pages]
    told = [DOCS / page for page in pages if not page.startswith("source/")] + list((DOCS / "adr").glob("*.md"))
    assert sum(map(count_prose, told)) <= MOST_WORDS


@pytest.mark.parametrize("page", sorted((DOCS / "how-to").glob("*.md")), ids=lambda page: page.stem)
def test_a_task_is_short(page: Path) -> None:
    assert len(page.read_text("utf-8").split()) <= MOST_WORDS_OF_A_TASK


def read_commands() -> Iterator[tuple[str, str]]:
    """Each line of the docs that calls nearmetal, with its page."""
    for page in [ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))]:
        for block in _COMMANDS.findall(page.read_text("utf-8")):
            for found in _COMMAND.finditer(block.replace("\\\n", " ")):
                yield str(page.relative_to(ROOT)), found[1]


def test_each_command_that_is_shown_can_be_given() -> None:
    shown = list(read_commands())
    assert len(shown) > 100
    refused = {line: why for line in shown if (why := find_refusal(line[1]))}
    assert refused == {}


def find_refusal(line: str) -> str:
    """Why the command line takes no such words; "" if it does. Nothing is carried out."""
    words = list(takewhile(lambda word: not word.startswith((">", "|", ";", "&")), shlex.split(line, comments=True)))
    command: click.Command = cli
    context = click.Context(cli, info_name="nearmetal")
    try:
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            name = words.pop(0)
            found = command.get_command(context, name)
            if found is None:
                return f"there is no {name}"
            command = found
        command.make_context("nearmetal", words, parent=context, resilient_parsing=True)
    except click.exceptions.Exit:
        return ""
    except click.UsageError as error:
        return error.message
    return ""
