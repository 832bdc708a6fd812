"""Levels of factors: told apart with their types, written as a study file has them, put in place of placeholders. Pure.

`factors.py` says which combinations of them exist.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from nearmetal.model import Assignment, Level

_PLACEHOLDER = re.compile(r"\{([A-Za-z0-9._-]+)\}")


def identify_level(level: Level) -> tuple[str, Level]:
    """A level with its type: Python takes true for 1, a study does not."""
    return type(level).__name__, level


def is_same_level(one: Level, other: Level) -> bool:
    """Levels are equal only with their type: true is not 1."""
    return identify_level(one) == identify_level(other)


def format_level(level: Level) -> str:
    """A level as it stands in the study file."""
    return str(level).lower() if isinstance(level, bool) else str(level)


def format_assignment(assignment: Assignment) -> str:
    """A combination as one line, "environment=qemu nic=e1000": stable, for names and for people."""
    return " ".join(f"{name}={format_level(level)}" for name, level in assignment.items())


def find_placeholders(value: object) -> Iterator[str]:
    """The names in braces anywhere in a value, in the order they stand there."""
    if isinstance(value, str):
        yield from _PLACEHOLDER.findall(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from find_placeholders(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from find_placeholders(item)


def fill_placeholders(value: Any, levels: Assignment) -> Any:
    """A value with levels in place of its placeholders. A level that replaces a whole text keeps its type."""
    if isinstance(value, str):
        whole = _PLACEHOLDER.fullmatch(value)
        if whole and whole[1] in levels:
            return levels[whole[1]]
        return _PLACEHOLDER.sub(lambda match: format_level(levels.get(match[1], match[0])), value)
    if isinstance(value, Mapping):
        return {key: fill_placeholders(item, levels) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill_placeholders(item, levels) for item in value]
    return value
