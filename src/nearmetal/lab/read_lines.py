"""Lines of many files at once, chosen by a pattern: of this host as they are, elsewhere by one command."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from nearmetal.errors import MachineLost, NearmetalError
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import Commands

Lines = Mapping[str, tuple[str, ...]]
"""Of files, by their paths, the lines that match, without the space around them. A file without such a line is absent.
"""

# Without a separator the shell finds the files of each word, and splits none.
_GREP_ALL = 'pattern=$1; shift; IFS=; exec grep -sHE "$pattern" $@'
_NOT_THERE = 126
"""Statuses from here on are those of a program that did not start. With 1 or 2 `grep` found nothing, or not every file.
"""


def build_grep(pattern: str, paths: Sequence[str]) -> list[str]:
    """The command. A path may hold `*`, for which it takes a shell there.

    `pattern` is one that `grep -E` and Python's `re` understand alike: no classes such as [:space:] and \\d.
    """
    if any("*" in path for path in paths):
        return ["sh", "-c", _GREP_ALL, "grep", pattern, *paths]
    return ["grep", "-sHE", pattern, *paths]


def parse_grep(status: int, text: str, paths: Sequence[str]) -> Lines | None:
    """What the command printed; None if it did not start. Pure."""
    if status >= _NOT_THERE:
        return None
    found: dict[str, list[str]] = {}
    known = {path for path in paths if "*" not in path}
    for line in text.splitlines():
        path, colon, content = line.partition(":")
        # Names of control groups may hold colons.
        while colon and known and path not in known and "*" not in "".join(paths):
            more, colon, content = content.partition(":")
            path = f"{path}:{more}"
        if colon:
            found.setdefault(path, []).append(content.strip())
    return {path: tuple(lines) for path, lines in found.items()}


def choose_lines(pattern: str, texts: Mapping[str, str]) -> Lines:
    """The lines that match `pattern`, of files that were read as a whole, by path. Pure."""
    meant = re.compile(pattern)
    chosen = {path: [line.strip() for line in text.split("\n") if meant.search(line)] for path, text in texts.items()}
    return {path: tuple(lines) for path, lines in chosen.items() if lines}


async def read_lines(where: Commands, pattern: str, paths: Sequence[str]) -> Lines | None:
    """None if nobody can tell. MachineLost."""
    if isinstance(where, LocalSite):
        return _read_here(pattern, paths)
    try:
        ended = await where.exec(build_grep(pattern, paths))
    except MachineLost:
        raise
    except NearmetalError:
        return None
    return parse_grep(ended.status, ended.text, paths)


def _read_here(pattern: str, paths: Sequence[str]) -> Lines:
    """A process of its own would take a hundred times as long."""
    found: dict[str, str] = {}
    for path in paths:
        for file in Path("/").glob(path.lstrip("/")) if "*" in path else [Path(path)]:
            try:
                text = file.read_text("utf-8", "replace")
            except OSError:  # a process that has ended, or a file that this kernel lacks
                continue
            found[str(file)] = text
    return choose_lines(pattern, found)
