"""A study file: TOML to `Study`, with errors that name file, line and remedy. Pure: the text is passed in."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from nearmetal import plugins
from nearmetal.errors import BadInput
from nearmetal.model import PRETENDED, Study
from nearmetal.spelling import did_you_mean
from nearmetal.study.checks import check
from nearmetal.study.checks.hosts import place_roles
from nearmetal.study.checks.levels import list_unknown_settings
from nearmetal.study.error_messages import (
    DEEPEST,
    StudyText,
    explain_error,
    join_mistakes,
    parse,
    refuse_missing,
    refuse_what_nothing_takes,
    show_value,
)
from nearmetal.study.line_numbers import KeyPath
from nearmetal.units import AS_WRITTEN


def read(
    text: str, file: str, overrides: Sequence[str] = (), quick: bool = False, typed: Mapping[str, str] | None = None
) -> Study:
    """The study that a file describes. BadInput for whatever could not be carried out as written.

    `overrides` are `table.key=value` as `--set` takes them, and `typed` has what was typed for those that another
    option set; `quick` applies the file's own [quick] table, which is checked in any case.
    """
    where = StudyText(text, file)
    raw = where.raw
    refuse_what_nothing_takes(where, raw)
    scaled_down = raw.pop("quick", None)
    if scaled_down is not None and not isinstance(scaled_down, dict):
        raise where.make_error(("quick",), "`quick` is not a table", "say in [quick] what a quick run sets")
    if quick and scaled_down is None:
        raise where.make_error(
            (), "--quick, but the study has no [quick] table", "say in [quick] what a quick run sets"
        )
    where.quick_workloads = _quick_workloads(raw, scaled_down or {}, where)
    small = copy.deepcopy(raw)
    _merge(small, scaled_down or {})
    given = [_parse_override(one, file, typed) for one in overrides]
    changes = _find_overrides(given, small if quick else raw, where)
    whole = _check_study(_override_study(raw, changes), where)
    if scaled_down is None:
        return whole
    where.is_quick = True
    small_study = _check_study(_override_study(small, changes), where)
    return small_study if quick else whole


def locate_key(
    text: str, file: str, overrides: Sequence[str], quick: bool, path: KeyPath, typed: Mapping[str, str] | None = None
) -> str:
    """Where a study that was read by `read` has a key: its file and line, or the override that sets it."""
    where = StudyText(text, file)
    scaled_down = where.raw.pop("quick", None) or {}
    where.quick_workloads = _quick_workloads(where.raw, scaled_down, where)
    where.is_quick = quick
    _find_overrides([_parse_override(one, file, typed) for one in overrides], where.raw, where)
    return where.place_of(path)


def _merge(raw: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Lay one table over another; [[workloads]] are met by name."""
    for key, value in over.items():
        if key == "workloads" and isinstance(value, list) and isinstance(raw.get(key), list):
            for entry in value:
                same = [
                    old for old in raw[key] if _name_entry(old) is not None and _name_entry(old) == _name_entry(entry)
                ]
                if same:
                    _merge(same[0], entry)
                else:
                    raw[key].append(entry)
        elif isinstance(value, dict) and isinstance(raw.get(key), dict):
            _merge(raw[key], value)
        else:
            raw[key] = copy.deepcopy(value)


def _quick_workloads(raw: Mapping[str, Any], quick: Mapping[str, Any], where: StudyText) -> dict[int, int]:
    """The place of each of [[quick.workloads]] among all workloads, to which of them it is. A name that the study does
    not have is a new workload's if that has a kind, and else a mistake: BadInput."""
    entries, over = raw.get("workloads"), quick.get("workloads")
    if not isinstance(entries, list) or not isinstance(over, list):
        return {}
    names = [_name_entry(entry) for entry in entries]
    known = [name for name in names if isinstance(name, str)]
    found = {}
    for number, entry in enumerate(over):
        name = _name_entry(entry)
        if name is None or name not in names:
            if isinstance(name, str) and "kind" not in entry:
                remedy = f"{did_you_mean(name, known, 'workloads')}; a new one needs `kind`"
                path = ("quick", "workloads", number, "name")
                raise where.make_error(path, f"there is no workload {show_value(name)}", remedy)
            names.append(name)
            found[len(names) - 1] = number
        else:
            found[names.index(name)] = number
    return found


def _name_entry(entry: object) -> object:
    return entry.get("name") if isinstance(entry, dict) else None


@dataclass(frozen=True)
class Override:
    """A key that the command line sets, by its path, and how it did."""

    written: str
    path: KeyPath
    value: Any


def _parse_override(text: str, file: str, typed: Mapping[str, str] | None) -> Override:
    try:
        override = parsed_override(text)
        return replace(override, written=(typed or {}).get(text, override.written))
    except BadInput as error:
        raise BadInput(error.what, f"{file}, {error.where}" if error.where else "", error.remedy) from None


def parsed_override(text: str) -> Override:
    """`machine.nic=e1000` as it is meant. The value is TOML where it reads as TOML, else text. BadInput."""
    key, equals, value = text.partition("=")
    wrong = BadInput(f"--set {show_value(text)} is not KEY=VALUE", remedy="write it like --set machine.nic=e1000")
    if not equals or "\n" in text:
        raise wrong
    if key.count(".") >= DEEPEST:
        what = f"tables are nested more than {DEEPEST} deep"
        raise BadInput(what, f"--set {show_value(text)}", "a study has two levels of tables")
    try:
        table = parse(f"{key} = 0")
    except ValueError:
        raise wrong from None
    path: KeyPath = ()
    inner: Any = table
    while isinstance(inner, dict):
        (part,) = inner
        path, inner = (*path, part), inner[part]
    try:
        parsed = parse(f"value = {value}")["value"]
    except ValueError:
        parsed = value
    return Override(f"--set {text}", path, parsed)


def _find_overrides(given: Sequence[Override], raw: Mapping[str, Any], where: StudyText) -> list[Override]:
    """The overrides, each workload by its place in the list instead of its name. BadInput."""
    where.overrides = {override.path: override.written for override in given}
    for override in given:
        if override.path[0] == "quick":
            remedy = "leave out `quick.`, and add --quick: what --set says goes over [quick] too"
            raise where.make_error(override.path, "what [quick] says is not set", remedy)
    found = [
        _of_workload(override, raw["workloads"], where) if _names_workload(override, raw) else override
        for override in given
    ]
    where.overrides = {override.path: override.written for override in found}
    for override in found:
        refuse_what_nothing_takes(where, _nest_value(override.path, override.value))
    return found


def _names_workload(override: Override, raw: Mapping[str, Any]) -> bool:
    return override.path[0] == "workloads" and len(override.path) > 1 and isinstance(raw.get("workloads"), list)


def _of_workload(override: Override, workloads: Sequence[object], where: StudyText) -> Override:
    path = override.path
    names = [_name_entry(entry) for entry in workloads]
    if path[1] not in names:
        known = [name for name in names if isinstance(name, str)]
        raise where.make_error(
            path, f"there is no workload {show_value(path[1])}", did_you_mean(str(path[1]), known, "workloads")
        )
    if len(path) == 2 and not isinstance(override.value, dict):
        what = f"{show_value(path[1])} is a workload, and a key of it can be set"
        raise where.make_error(path, what, f"write it like --set workloads.{path[1]}.duration=5s")
    return replace(override, path=("workloads", names.index(path[1]), *path[2:]))


def _nest_value(path: KeyPath, value: Any) -> Any:
    for part in reversed(path):
        value = {part: value}
    return value


def _override_study(raw: dict[str, Any], changes: Sequence[Override]) -> dict[str, Any]:
    result = copy.deepcopy(raw)
    for change in changes:
        match change.path:
            case ("workloads", int(index), *keys):
                entries = result["workloads"]
                # A workload that only [quick] adds is not in the whole study.
                if isinstance(entries, list) and index < len(entries):
                    _merge(entries[index], _nest_value(tuple(keys), change.value))
            case _:
                _merge(result, _nest_value(change.path, change.value))
    return result


def _check_study(raw: dict[str, Any], where: StudyText) -> Study:
    given = raw.get("factors")
    if not isinstance(given, dict) or "environment" not in given:
        remedy = 'say where to measure: [factors] environment = ["host", "docker"]'
        no_environment = where.make_error(("factors",), "the study has no factor `environment`", remedy)
        missing = [refuse_missing((key,), where) for key in ("name", "workloads") if key not in raw]
        raise join_mistakes([no_environment, *missing])
    raw["factors"] = {name: value if isinstance(value, dict) else {"levels": value} for name, value in given.items()}
    _name_kinds(raw.get("environments"))
    _align_kernels(raw)
    try:
        study: Study = Study.model_validate(raw, context=AS_WRITTEN)
    except ValidationError as error:
        machine = raw.get("machine")
        unknown = list_unknown_settings(machine, where) if isinstance(machine, dict) else []
        raise join_mistakes([explain_error(error, raw, where), *unknown]) from None
    if "environment" not in study.clients.model_fields_set and _is_pretended(study):
        study = study.model_copy(update={"clients": study.clients.model_copy(update={"environment": PRETENDED})})
    study = place_roles(study, where)
    check(study, where)
    return study


def _align_kernels(raw: dict[str, Any]) -> None:
    """A file that says nothing has them aligned. The model itself has "off", as studies had that were kept before."""
    kernel = raw.setdefault("kernel", {})
    if isinstance(kernel, dict):
        kernel.setdefault("align", "network")


def _name_kinds(environments: object) -> None:
    """A table of [environments] without a kind is of the kind that it is called after, where there is one."""
    for name, table in environments.items() if isinstance(environments, dict) else ():
        if isinstance(table, dict) and name in plugins.list_names("environments"):
            table.setdefault("kind", name)


def _is_pretended(study: Study) -> bool:
    """Whether none of its machines under test is real: then a real client has nobody to talk to."""
    return all(study.environment(str(level)).is_pretended for level in study.factors["environment"].levels)
