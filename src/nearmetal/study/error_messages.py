"""The text of a study file: where in it something is wrong, and what, in words for who wrote it. Pure."""

import heapq
import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from nearmetal import plugins
from nearmetal.errors import BadInput
from nearmetal.model import SYSCTL_NAME, Study
from nearmetal.model.base import LOGIN, NAME
from nearmetal.model.study import SSH_TARGET
from nearmetal.spelling import did_you_mean
from nearmetal.study.key_paths import children_of
from nearmetal.study.key_paths import join_path as join_path
from nearmetal.study.key_paths import path_of as path_of
from nearmetal.study.key_paths import show_value as show_value
from nearmetal.study.key_suggestions import find_list_hint, find_top_hint, write_list
from nearmetal.study.line_numbers import KeyPath, line_of, line_of_deeper, locate_keys
from nearmetal.units import show_alike

DEEPEST = 32
"""Tables within tables. No study needs a tenth of it, and the parsers below this one do not survive thousands."""
_LONGEST = 1000
"""Characters of a message: of a longer one, the begin and the end."""
_LONGEST_PLACE = 160
"""Characters of what the command line set: of a longer text, the begin and the end."""


MANY_MISTAKES = 21
"""One more than are told of a file at once. Who lists mistakes need not look for more."""
_MORE = "and more mistakes"


Item = TypeVar("Item")


class StudyText:
    """A study file as text. `overrides` are the key paths that the command line set, with how it did; `quick_workloads`
    says of the place of a workload in the quick version which of [[quick.workloads]] it comes from."""

    def __init__(self, text: str, file: str) -> None:
        """BadInput when it is not TOML."""
        self.file = file
        self.overrides: dict[KeyPath, str] = {}
        self.is_quick = False
        self.quick_workloads: dict[int, int] = {}
        self.raw = self._parse_text(text)
        self._lines = locate_keys(text)

    def _parse_text(self, text: str) -> dict[str, Any]:
        try:
            return parse(text)
        except ValueError as error:
            line = next(iter(_numbers_after("line ", str(error))), 1)
            raise BadInput(
                _to_printable(f"this is not TOML: {error}"), f"{self.file}:{line}", "see https://toml.io for the syntax"
            ) from None

    def make_error(self, path: KeyPath, what: str, remedy: str) -> BadInput:
        """The error that points at a key, or at the nearest table around it."""
        return BadInput(_to_printable(what), self.place_of(path), _to_printable(remedy))

    def place_of(self, path: KeyPath) -> str:
        """Where a key stands, or the nearest table around it: the file and line, or what the command line said."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.overrides:
                return f"{self.file}, {_to_printable(self.overrides[path[:length]], _LONGEST_PLACE)}"
        for length in range(len(path), 0, -1):
            if path[:length] in self._lines:
                break
            for override, written in self.overrides.items():
                if override[:length] == path[:length]:
                    return f"{self.file}, {_to_printable(written, _LONGEST_PLACE)}"
        if self.is_quick:
            path = self._in_quick(path)
        return f"{self.file}:{line_of(self._lines, path)}"

    def has_key(self, path: KeyPath) -> bool:
        """Whether the file has a key by this path, and not as part of a value."""
        return path in self._lines

    def _in_quick(self, path: KeyPath) -> KeyPath:
        """Where [quick] has a key, if it does; all of a workload that only [quick] has is there."""
        is_new = False
        there: KeyPath = ("quick", *path)
        match path:
            case ("workloads", int(index), *keys) if index in self.quick_workloads:
                there = ("quick", "workloads", self.quick_workloads[index], *keys)
                is_new = index >= len(self.raw["workloads"])
        return there if is_new or there in self._lines else path


def parse(text: str) -> dict[str, Any]:
    """TOML. ValueError when it is none, or when it is of a size that no study is."""
    if line := line_of_deeper(text, DEEPEST):
        raise ValueError(f"arrays or tables are nested more than {DEEPEST} deep (at line {line}, column 1)")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"arrays or tables are nested more than {DEEPEST} deep") from None


def _numbers_after(marker: str, text: str) -> Iterable[int]:
    for piece in text.split(marker)[1:]:
        digits = piece.split(",")[0].split(")")[0]
        if digits.isdigit():
            yield int(digits)


def _to_printable(text: str, longest: int = _LONGEST) -> str:
    """On one line, not without end, and nothing in it that steers a terminal."""
    if len(text) > longest:
        text = f"{text[: longest // 2]} … {text[-longest // 2 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_NAME_RULE = "letters, digits and . _ - only, at most 100"


def as_name(text: str, otherwise: str = "") -> str:
    """What a name may be, and the one that comes nearest to a text that is none; `otherwise` where nothing is left."""
    plain = unicodedata.normalize("NFKD", text[:_LONGEST]).encode("ascii", "ignore").decode()
    near = re.sub(r"[^A-Za-z0-9._]+", "-", plain).strip("-")[:100] or otherwise
    return f'{_NAME_RULE}, such as "{near}"' if near else _NAME_RULE


MOST_TRIALS = 1_000_000
"""Of a study."""

_LEAST = -(2**63)
_RANGES: Mapping[KeyPath, str] = {
    ("design", "blocks"): f"write a whole number from 1 on; a study has at most {MOST_TRIALS:,} trials in all"
}
"""Of keys of which more can be said than what TOML has."""


def refuse_what_nothing_takes(where: StudyText, raw: Mapping[str, Any]) -> None:
    """Control characters, numbers that are none, and nesting without end. BadInput."""
    for path, value in _list_leaves(raw):
        if len(path) > DEEPEST:
            raise where.make_error(
                path, f"tables are nested more than {DEEPEST} deep", "a study has two levels of tables"
            )
        for text in (value, path[-1]):
            if isinstance(text, str) and any(_is_control(character) for character in text):
                raise where.make_error(path, f"{show_value(text)} has a control character", "remove it")
        if isinstance(value, float) and value - value != 0:
            raise where.make_error(path, f"`{join_path(path)}` cannot be {value}", "write a finite number")
        if isinstance(value, int) and not _LEAST <= value < -_LEAST:
            if path in _RANGES:
                raise where.make_error(path, f"`{join_path(path)}` is out of range", _RANGES[path])
            what = f"`{join_path(path)}` is no number of 64 bits, which TOML has"
            raise where.make_error(path, what, f"write one from {_LEAST} to {-_LEAST - 1}")


def _is_control(character: str) -> bool:
    return not character.isprintable() and character not in "\t\n\r" and not character.isspace()


def _list_leaves(raw: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    """Every key and entry with its path, those that hold others included; no deeper than one beyond the limit."""
    stack: list[tuple[KeyPath, Any]] = [((key,), value) for key, value in raw.items()]
    while stack:
        path, value = stack.pop()
        yield path, value
        if len(path) <= DEEPEST:
            stack += [((*path, key), item) for key, item in children_of(value).items()]


def explain_error(error: ValidationError, raw: Mapping[str, Any], where: StudyText) -> BadInput:
    """All that is wrong, in our words, in the order of the file."""
    mistakes = _list_mistakes(error.errors(include_url=False), raw)
    # A hundred thousand take seconds to explain, and nobody reads them.
    first = heapq.nsmallest(MANY_MISTAKES, mistakes, key=lambda path: _find_line(where.place_of(path)))
    return join_mistakes(_explain_mistake(path, mistakes[path], raw, where) for path in first)


def check_each(check: Callable[[Item], object], items: Iterable[Item]) -> None:
    """BadInput, with the mistakes of all of them, or of the first if there are many."""
    mistakes: list[BadInput] = []
    for item in items:
        try:
            check(item)
        except BadInput as error:
            mistakes.append(error)
            if len(mistakes) == MANY_MISTAKES:
                break
    if mistakes:
        raise join_mistakes(mistakes)


def join_mistakes(mistakes: Iterable[BadInput]) -> BadInput:
    """One or several mistakes of a file as one error, in the order of its lines. Of many it has the first ones."""
    listed = [part for one in mistakes for part in (one, *one.others)]
    for one in listed:
        one.others = ()
    first, *others = sorted((one for one in listed if one.what != _MORE), key=lambda one: _find_line(one.where))
    if len(others) >= MANY_MISTAKES - 1:
        others[MANY_MISTAKES - 2 :] = [BadInput(_MORE)]
    first.others = tuple(others)
    return first


def _find_line(place: str) -> int:
    """0 of what the command line set."""
    return int(next(iter(re.findall(r":(\d+)$", place)), 0))


def _list_mistakes(errors: Iterable[ErrorDetails], raw: Mapping[str, Any]) -> Mapping[KeyPath, ErrorDetails]:
    """One error for each mistake. pydantic tries every type of a union and reports each: what goes deepest into the
    file is what was meant. A key that is missing stands there misspelt if its table has an unknown one."""
    found: dict[KeyPath, ErrorDetails] = {}
    for one in errors:
        path = path_of(one, raw)
        if path not in found or (one["type"] == _UNKNOWN and found[path]["type"] != _UNKNOWN):
            found[path] = one
    around = {path[:length] for path in found for length in range(len(path))}
    misspelt = {path[:-1] for path, one in found.items() if one["type"] == _UNKNOWN}
    return {
        path: one
        for path, one in found.items()
        if path not in around and not (one["type"] == "missing" and path[:-1] in misspelt)
    }


_UNKNOWN = "extra_forbidden"


def _explain_mistake(path: KeyPath, first: ErrorDetails, raw: Mapping[str, Any], where: StudyText) -> BadInput:
    name = join_path(path)
    is_no_factor = path[0] == "factors" and len(path) > 1 and not _has_levels(raw["factors"][path[1]])
    if is_no_factor and (hint := find_top_place(path[:2], where)):
        return where.make_error(path[:2], f"`{path[1]}` has no levels, and cannot be a factor", hint)
    if first["type"] == _UNKNOWN:
        keys = keys_of(_model_of(path))
        if len(path) == 1:
            keys.append("quick")
            is_set = path in where.overrides
            hint = find_top_hint(name, first["input"], raw, is_set) or _find_table_hint(name, where)
        else:
            hint = find_top_place(path, where)
        return where.make_error(path, f"unknown key `{name}`", hint or did_you_mean(str(path[-1]), keys, "known keys"))
    if first["type"] == "missing":
        return refuse_missing(path, where)
    return _of_key(path, first, where) or where.make_error(path, *describe_error(_name_key(path), first))


def refuse_missing(path: KeyPath, where: StudyText) -> BadInput:
    """The error of a key that has to be there."""
    return where.make_error(path, f"{_name_key(path)} is missing", f"add it: {_make_example(path)}")


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def _name_key(path: KeyPath) -> str:
    """A key for a message; of workloads, which have no name as a table, it is counted which it is of."""
    match path:
        case ("workloads", int(index), *keys):
            workload = f"the {_ORDINALS[index]} workload" if index < len(_ORDINALS) else f"workload {index + 1}"
            return f"`{join_path(tuple(keys))}` of {workload}" if keys else workload
    return f"`{join_path(path)}`"


def _has_levels(factor: object) -> bool:
    return isinstance(factor, Mapping) and isinstance(factor.get("levels"), list)


def find_top_place(path: KeyPath, where: StudyText) -> str | None:
    """Where a key belongs that a table does not know and that is one of the top; None of any other.

    A table takes in all that is written below its head.
    """
    key = path[-1]
    if key not in Study.model_fields:
        return None
    if any(path[:length] in where.overrides for length in range(1, len(path) + 1)):
        return f"`{key}` is a key of its own: --set {key}=…"
    return f"`{key}` stands at the top of the file, above the first [table]"


def _find_table_hint(key: str, where: StudyText) -> str | None:
    """Of a key that stands at the top, or so in [quick], and is one of a table's, such as `blocks`."""
    tables = [
        table
        for table, field in Study.model_fields.items()
        if isinstance(field.annotation, type)
        and issubclass(field.annotation, BaseModel)
        and key in keys_of(field.annotation)
    ]
    if not tables:
        return None
    if (key,) in where.overrides:
        return f"did you mean {' or '.join(f'`{table}.{key}`' for table in tables)}?"
    before = "" if key in where.raw else "quick."
    return f"write it under {' or '.join(f'[{before}{table}]' for table in tables)}"


def _of_key(path: KeyPath, first: ErrorDetails, where: StudyText) -> BadInput | None:
    """What is wrong with a key of which more can be said than what pydantic says; None of any other."""
    name = _name_key(path)
    if hint := find_list_hint(path, first["input"]):
        return where.make_error(path, f"{name} cannot be a list", hint)
    if path[:1] == ("factors",) and "levels" in path[2:]:
        factor = path[1]
        if first["type"] == "too_short":
            return where.make_error(path, f"the factor `{factor}` has no levels", "give it at least one")
        what = f"the levels of `{factor}` must be a list of numbers, texts or booleans"
        is_one = len(path) == 3 and isinstance(first["input"], str | int | float)
        levels = write_list(first["input"]) if is_one else '["a", "b"]'
        key = "levels" if where.has_key(path[:3]) else factor
        is_set = path[:2] in where.overrides
        return where.make_error(path, what, f"--set 'factors.{factor}={levels}'" if is_set else f"{key} = {levels}")
    if path == ("workloads",):
        return where.make_error(
            path, "the study has no list of workloads", "begin each with [[workloads]], name and kind"
        )
    if path[-1] == "name" and first["type"] in ("string_pattern_mismatch", "string_too_long"):
        remedy = as_name(first["input"], _NAMES.get(path[:-2], "my-study"))
        return where.make_error(path, f"{name} cannot be {show_value(first['input'])}", remedy)
    if path == ("design", "blocks") and first["type"] not in _BOUNDS:
        what = f"{name} cannot be {show_value(first['input'])}"
        example = _make_example((*path, "max"))
        return where.make_error(path, what, f'it must be a whole number, "auto", or as in {example}')
    if first["type"] == "string_type" and isinstance(first["input"], int | float):
        return where.make_error(
            path, f"{name} cannot be {show_value(first['input'])}", _as_text(path, first["input"], where)
        )
    return None


def _as_text(path: KeyPath, value: float, where: StudyText) -> str:
    """How a number or a truth is written where a text is wanted: on the command line the shell takes quotes away."""
    quoted = f'"{show_value(value)}"'
    if isinstance(path[-1], int):  # one of a list
        written = quoted
    else:
        written = f"--set '{join_path(path)}={quoted}'" if path in where.overrides else f"{path[-1]} = {quoted}"
    meant = _MEANT.get(path, "")
    return f"it must be a text: write {written}" + (f"; {meant}" if meant else "")


def describe_error(
    subject: str, error: ErrorDetails, manual: str = "docs/study-file.md says what each key takes"
) -> tuple[str, str]:
    """What is wrong with a value, and what would be right; a validator of ours says both in one sentence."""
    if error["type"] == "value_error":
        message = error["msg"].removeprefix("Value error, ").replace(repr(error["input"]), show_value(error["input"]))
        return f"{subject}: {message}", manual
    if error["type"] in ("too_short", "too_long"):
        number = len(error["input"])
        return (
            f"{subject} {f'has {_count_entries(number)}' if number else 'is empty'}",
            f"it must have {_describe_bound(error)}",
        )
    return f"{subject} cannot be {show_value(error['input'])}", f"it must be {in_words(error)}"


def _describe_bound(error: ErrorDetails) -> str:
    """How many entries a list or a table may have."""
    context = error.get("ctx", {})
    least = error["type"] == "too_short"
    return (
        f"at least {_count_entries(context['min_length'])}"
        if least
        else f"at most {_count_entries(context['max_length'])}"
    )


def _count_entries(number: int) -> str:
    return f"{number:,} entr{'y' if number == 1 else 'ies'}"


def _make_example(path: KeyPath) -> str:
    """A key that is missing, as it might be written."""
    if path[:1] == ("environments",) and path[-1] == "kind":
        return f'kind = "host", or another of {", ".join(plugins.list_names("environments"))}'
    if path[-1] == "name":
        return f'name = "{_NAMES.get(path[:-2], "my-study")}"'
    return _EXAMPLES.get(path[-1], f"{path[-1]} = …")


_NAMES: Mapping[KeyPath, str] = {(): "my-study", ("workloads",): "web"}
"""Of what has one, by the list that it stands in."""

_EXAMPLES: dict[str | int, str] = {
    "workloads": '[[workloads]] name = "web", kind = "http"',
    "kind": 'kind = "http"',
    "levels": 'levels = ["a", "b"]',
    "max": "blocks = { min = 8, max = 40 }",
    "min": "blocks = { min = 8, max = 40 }",
}

_MEANT: dict[KeyPath, str] = {
    ("machine", "cpus"): "it says which CPUs of the host, and `machine.vcpus` how many",
    ("clients", "cpus"): "it says which CPUs of the host",
}
"""What a key is for, where a number for a text tells that something else may have been meant."""

_PATTERNS = {
    NAME: f"a text of {_NAME_RULE}",
    SSH_TARGET: 'where an SSH server answers, such as "user@10.0.0.2"',
    LOGIN: 'the name of a user there, such as "root"',
    SYSCTL_NAME: "the name of a sysctl, such as net.ipv4.tcp_congestion_control",
}

_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "a text",
    "tuple": "a list",
    "list": "a list",
    "dict": "a table",
    "mapping": "a table",
    "model": "a table",
    "ip_any_address": "an IPv4 or IPv6 address",
}


_BOUNDS = {
    "greater_than_equal": "at least",
    "greater_than": "more than",
    "less_than_equal": "at most",
    "less_than": "less than",
}


def in_words(error: ErrorDetails) -> str:
    """What would be right, from what pydantic says is wrong."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        return f"{_BOUNDS[kind]} {show_alike(next(iter(context.values())), error['input'])}"
    if kind == "literal_error":
        return f"one of {context['expected']}"
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], f"a text that matches {context['pattern']}")
    if kind == "string_too_short":
        return f"a text of at least {context['min_length']} character{'s' * (context['min_length'] > 1)}"
    if kind == "string_too_long":
        return f"a text of at most {context['max_length']} characters"
    plain = kind.removesuffix("_type").removesuffix("_parsing").removesuffix("_attributes")
    return _TYPES.get(plain, error["msg"].removeprefix("Input should be "))


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys that a table takes, as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_of(path: KeyPath) -> type[BaseModel]:
    """The model of the table that a key stands in, found by walking the study's own fields."""
    model: type[BaseModel] = Study
    for part in path[:-1]:
        if part in model.model_fields:
            inner = next(_models_in(model.model_fields[str(part)].annotation), None)
            model = inner or model
    return model


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
