"""Where in a TOML file a key stands, for messages: the standard parser does not tell."""

import re
import tomllib

KeyPath = tuple[str | int, ...]

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_DOTTED = rf"({_PART}(?:[ \t]*\.[ \t]*{_PART})*)"
_NAME = re.compile(_PART)
_BLANK = re.compile(r"(?:\s+|#[^\n]*)+")
_HEADER = re.compile(rf"(\[\[?)[ \t]*{_DOTTED}[ \t]*\]\]?")
_KEY = re.compile(rf"{_DOTTED}[ \t]*=")
_DEEPER = (
    # Nothing is given back of what was taken, so that a text is gone through once.
    r"""(?P<deep>{part}(?:[ \t]*\.[ \t]*{part}){{{most}}})"""
    r"""|\"{{3}}(?:[^\\]|\\.)*?(?:\"{{3}}|\Z)|'{{3}}.*?(?:'{{3}}|\Z)|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?|\#[^\n]*+"""
    r"""|[A-Za-z0-9_-]++|."""
)
_WHOLE_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_TOKEN = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*|[^"'\#\[\]{}\n]+|.''',
    re.DOTALL,
)


def locate_keys(text: str) -> dict[KeyPath, int]:
    """Key paths to line numbers (from 1), of a text that is valid TOML: each table, and each `key =` in one.

    Keys within inline tables and arrays have no entry of their own: `line_of` finds the nearest one around them.
    """
    found: dict[KeyPath, int] = {(): 1}
    entries: dict[KeyPath, int] = {}
    table: KeyPath = ()
    line, position = 1, 0
    while position < len(text):
        if blank := _BLANK.match(text, position):
            end = blank.end()
        elif header := _HEADER.match(text, position):
            table = _find_table(_split_path(header[2]), header[1] == "[[", entries)
            _note_line(found, table, line)
            end = header.end()
        elif key := _KEY.match(text, position):
            _note_line(found, (*table, *_split_path(key[1])), line)
            end = _after_value(text, key.end())
        else:
            end = position + 1
        line += text.count("\n", position, end)
        position = end
    return found


def line_of_deeper(text: str, most: int) -> int | None:
    """The line of the first key of more than `most` parts; None if there is none. The text need not be valid TOML.

    The standard parser's time and memory grow with the square of a key's parts.
    """
    for token in re.finditer(_DEEPER.format(part=_WHOLE_PART, most=most), text, re.DOTALL):
        if token["deep"]:
            return text.count("\n", 0, token.start()) + 1
    return None


def _split_path(dotted: str) -> KeyPath:
    return tuple(
        tomllib.loads(f"part = {part}")["part"] if part[0] in "\"'" else part for part in _NAME.findall(dotted)
    )


def _find_table(name: KeyPath, is_entry: bool, entries: dict[KeyPath, int]) -> KeyPath:
    """The table that a header opens. Where a part of its name is an array of tables, the last entry is meant."""
    path: KeyPath = ()
    for position, part in enumerate(name):
        path = (*path, part)
        if is_entry and position == len(name) - 1:
            entries[path] = entries.get(path, -1) + 1
        if path in entries:
            path = (*path, entries[path])
    return path


def _note_line(found: dict[KeyPath, int], path: KeyPath, line: int) -> None:
    """The first mention counts, also of the tables around it."""
    for length in range(1, len(path) + 1):
        found.setdefault(path[:length], line)


def _after_value(text: str, position: int) -> int:
    """Where a value ends that begins here: at the end of the line in which its last bracket closes."""
    depth = 0
    while token := _TOKEN.match(text, position):
        if token[0] == "\n" and depth <= 0:
            break
        depth += (token[0] in ("[", "{")) - (token[0] in ("]", "}"))
        position = token.end()
    return position


def line_of(found: dict[KeyPath, int], path: KeyPath) -> int:
    """The line of a key, or of the nearest table around it."""
    while path not in found:
        path = path[:-1]
    return found[path]
