"""Where in a TOML file a key stands, for messages: the standard parser does not tell."""

import re

KeyPath = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)([^\]]+)\]\]?")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def locate(text: str) -> dict[KeyPath, int]:
    """Key paths to line numbers (from 1): of each header and each `key =` at the start of a line.

    Keys within inline tables and arrays have no entry of their own: look up their parent (`line_of` does). Text
    within multi-line strings can look like a key; that only ever misplaces a message.
    """
    found: dict[KeyPath, int] = {(): 1}
    tables: dict[tuple[str, ...], int] = {}
    prefix: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            name = _parts(header[2])
            if header[1] == "[[":
                tables[name] = tables.get(name, -1) + 1
                prefix = (*name, tables[name])
            else:
                prefix = name
            found.setdefault(prefix, number)
        elif key := _KEY.match(line):
            found.setdefault((*prefix, *_parts(key[1])), number)
    return found


def line_of(found: dict[KeyPath, int], path: KeyPath) -> int:
    """The line of a key, or of the nearest table around it."""
    while path not in found:
        path = path[:-1]
    return found[path]
