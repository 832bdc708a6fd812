"""A mapping as the text of a study file: one key a line, and below it everything inline."""

import json
import math
from collections.abc import Mapping, Sequence

from nearmetal.errors import BadInput


def render_toml(document: Mapping[str, object]) -> str:
    """TOML of strings, booleans, numbers, sequences and mappings. BadInput, with the key's name, of anything else."""
    return "".join(f"{_quote(name)} = {_render_value(value, name)}\n" for name, value in document.items())


def _render_value(value: object, name: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quote(value)
        case float() if not math.isfinite(value):
            return f"{value:f}"  # "inf" and "nan", as TOML has them
        case int() | float():
            return repr(value)
        case Mapping():
            inside = (f"{_quote(key)} = {_render_value(one, f'{name}.{key}')}" for key, one in value.items())
            return f"{{ {', '.join(inside)} }}"
        case Sequence() if not isinstance(value, bytes | bytearray):
            return f"[{', '.join(_render_value(one, name) for one in value)}]"
    raise BadInput(
        f"{name}: a study has no value such as {value!r:.60}", "", "give text, a number, a list or a mapping"
    )


def _quote(text: object) -> str:
    if not isinstance(text, str):
        raise BadInput(f"{text!r:.60} is not the name of a key", "", "a study's keys are text")
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
