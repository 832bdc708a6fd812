"""Values within a document by their key paths, in words for messages. Pure."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from nearmetal.study.line_numbers import KeyPath

QUOTES = "'\"`"
_SHOWN = 100
"""Characters of a wrong value that are shown."""


def join_path(path: KeyPath) -> str:
    """A key path as one name: "workloads.0.path"."""
    return ".".join(map(str, path))


def show_value(value: object) -> str:
    """A value for a message: as Python writes it, cut where it is long."""
    if isinstance(value, Mapping | BaseModel):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return "a number of thousands of digits"
    return cut_text(text, _SHOWN)


def cut_text(text: str, most: int) -> str:
    """The begin of a long text; a quotation that is cut ends with its mark."""
    if len(text) <= most:
        return text
    return f"{text[:most]}…{text[0] if text[0] in QUOTES else ''}"


def path_of(error: ErrorDetails, raw: Mapping[str, Any]) -> KeyPath:
    """Where in a document an error is: its location without the names of types that pydantic tried."""
    path: KeyPath = ()
    node: Any = raw
    for position, part in enumerate(error["loc"]):
        inner = children_of(node)
        if part in inner:
            node, path = inner[part], (*path, part)
        elif error["type"] == "missing" and position == len(error["loc"]) - 1:
            path = (*path, part)
    return path


def children_of(value: object) -> Mapping[Any, Any]:
    """What a table or a list holds, by key or index; nothing for what holds nothing."""
    if isinstance(value, dict):
        return value
    return dict(enumerate(value)) if isinstance(value, list) else {}
