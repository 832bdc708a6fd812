"""What is wrong with a document of ours that cannot be read, in words for who finds it damaged. Pure."""

import json
from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from nearmetal.study.key_paths import join_path, path_of, show_value

UNLIKE: Final = "unlike"
"""Type of the error that two parts of a document do not go together; its message says how, after the name of one."""


def not_json(error: ValueError | RecursionError) -> str:
    """Of what `json.loads` could not read."""
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON (line {error.lineno}, column {error.colno})"
    return "it is not JSON"


def not_as_declared(error: ValidationError, document: object) -> str:
    """Of a document that is not as its schema says: the first such place."""
    first = error.errors(include_url=False)[0]
    if not isinstance(document, dict):
        return "it is no JSON object"
    name = join_path(path_of(first, document))
    match first["type"]:
        case "missing":
            return f"`{name}` is missing"
        case "extra_forbidden" | "unexpected_keyword_argument":
            return f"`{name}` is nothing that this version of nearmetal knows"
        case kind if kind == UNLIKE:
            return f"`{name}` {first['msg']}"
        case _:
            return f"`{name}` cannot be {_show_value(first['input'])}"


def not_the_known(document: Mapping[str, object], name: str) -> str:
    """Of a document whose `name` says nothing that is known here."""
    return f"`{name}` cannot be {_show_value(document[name])}" if name in document else f"`{name}` is missing"


def _show_value(value: object) -> str:
    return "null" if value is None else show_value(value)
