"""What is wrong with a document of ours that cannot be read, in words for who finds it damaged. Pure."""

import json

from pydantic import ValidationError

from nearmetal.study_text import dotted, path_of, shown


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
    name = dotted(path_of(first, document))
    match first["type"]:
        case "missing":
            return f"`{name}` is missing"
        case "extra_forbidden":
            return f"`{name}` is nothing that this version of nearmetal knows"
        case _:
            return f"`{name}` cannot be {'null' if first['input'] is None else shown(first['input'])}"
