"""What factors set, and what observers are told: every level, put in its place, makes sense there."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from pydantic import ValidationError

from nearmetal import plugins
from nearmetal.errors import BadInput
from nearmetal.model import CAPTURE_KEYS, SAME, ClientsSpec, FactorSpec, Level, MachineSpec, Study, find_sysctl_problem
from nearmetal.spelling import did_you_mean
from nearmetal.study import error_messages
from nearmetal.study import factors as words
from nearmetal.study.checks.places import is_cpus, is_environment, is_host
from nearmetal.study.factors import KnownNames
from nearmetal.study.line_numbers import KeyPath
from nearmetal.study.plugin_answers import check_setting, find_level_problem
from nearmetal.study.treatment_request import put_level


def check_targets(study: Study, where: error_messages.StudyText) -> None:
    known = KnownNames(plugins.list_names("treatments"), plugins.list_names("observers"))
    taken: dict[words.Target, str] = {}
    for name, factor in study.factors.items():
        try:
            aims = words.find_aims(name, factor, study, known)
        except words.NoTarget as error:
            remedy = f'write "{{{name}}}" into a workload, or say what it sets, as in: sets = "machine.nic"'
            if f"capture.{name}" in CAPTURE_KEYS:
                remedy = f'say what it sets: sets = "observe.capture.{name}"'
            raise where.make_error(("factors", name), str(error), remedy) from None
        for aim in aims:
            if aim in taken:
                what = f"`{name}` and `{taken[aim]}` both set {aim.key}"
                if taken[aim] == name:
                    raise where.make_error(("factors", name), f"`{name}` sets {aim.key} twice", "name it once")
                raise where.make_error(("factors", name), what, "make them one factor")
            taken[aim] = name
            # A level `true` of an observer is what [observe] says of it.
            is_as_set = aim.kind == "observe" and not aim.is_how_captured and True in factor.levels
            path: KeyPath = (aim.kind, *aim.key.split("."))
            if path in where.overrides and not is_as_set and words.is_everywhere(study.factors, name):
                what = f"the factor `{name}` sets `{aim.kind}.{aim.key}` in every treatment, so that this does nothing"
                raise where.make_error(path, what, f"set its levels: --set 'factors.{name}=[…]'")
    if unknown := list_unknown_settings(study.machine.settings, where):
        raise error_messages.join_mistakes(unknown)
    for name, level in study.machine.settings.items():
        _is_level(("machine", name), name, level, where)
    for name, level in study.clients.own_treatments.items():
        _is_level(("clients", name), name, level, where)


def list_unknown_settings(machine: Iterable[str], where: error_messages.StudyText) -> list[BadInput]:
    """What is wrong with the keys of [machine], of which those that are no keys of its own are treatments."""
    keys = [*MachineSpec.model_fields, *plugins.list_names("treatments")]
    return [
        where.make_error(
            ("machine", name),
            f"unknown key `machine.{name}`",
            error_messages.find_top_place(("machine", name), where) or did_you_mean(name, keys, "known keys"),
        )
        for name in islice((name for name in machine if name not in keys), error_messages.MANY_MISTAKES)
    ]


def check_levels(study: Study, where: error_messages.StudyText) -> None:
    """Every level, put in its place, must make sense there."""
    for key in MODELS:
        _is_model(("machine", key), key, getattr(study.machine, key), where)
    if study.clients.nic is not None:
        _is_model(("clients", "nic"), "nic", study.clients.nic, where)
    known = KnownNames(plugins.list_names("treatments"), plugins.list_names("observers"))
    for name, factor in study.factors.items():
        for aim in words.find_aims(name, factor, study, known):
            _check_levels_of(name, factor, aim, study, where)


def _check_levels_of(
    name: str, factor: FactorSpec, aim: words.Target, study: Study, where: error_messages.StudyText
) -> None:
    placed: list[tuple[Level, Any]] = []
    for level in factor.levels:
        value = _set_level(name, aim, level, study, where)
        if aim.kind == "observe" and level is True:
            value = study.observe.chosen.get(aim.key, value)
        alike = next((other for other, its in placed if type(its) is type(value) and its == value), None)
        if alike is not None:
            both = f"{error_messages.show_value(alike)} and {error_messages.show_value(level)}"
            what = f"the levels {both} of `{name}` are the same"
            raise where.make_error(("factors", name), what, "remove one")
        if value is not None:
            placed.append((level, value))


def _set_level(name: str, aim: words.Target, level: Level, study: Study, where: error_messages.StudyText) -> Any:
    """What it becomes in the table that it sets; None where it sets none."""
    path = ("factors", name)
    if aim.kind == "treatment":
        _is_level(path, aim.key, level, where)
    if aim.kind == "sysctl" and (problem := find_sysctl_problem(level)):
        raise where.make_error(path, f"{aim.key} cannot be {error_messages.show_value(level)}", problem)
    if aim.kind in ("environment", "treatment", "placeholder", "sysctl"):
        return None
    try:
        placed = put_level(study, aim, level)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        what, remedy = error_messages.describe_error(f"the level {error_messages.show_value(level)} of `{name}`", first)
        if study.factors[name].sets is None and name in words.list_placeholders(study):
            what += f". By its name this factor sets {aim.kind}.{aim.key}, besides filling the placeholder {{{name}}}"
            remedy = "give a factor that shall only fill a placeholder another name, here and in the braces"
        raise where.make_error(path, what, remedy) from None
    match aim.kind, aim.key:
        case "clients", "environment":
            if level != SAME:
                is_environment(path, level, study, where)
        case "clients", name if name in ClientsSpec.TREATMENTS:
            _is_level(path, name, level, where)
        case "machine" | "clients", "host":
            is_host(path, level, study, where)
        case "machine" | "clients", "cpus":
            is_cpus(path, level, where)
        case ("machine", "nic" | "disk") | ("clients", "nic"):
            _is_model(path, aim.key, level, where)
        case "observe", _:
            check_observer(path, aim.key.partition(".")[0], placed, where)
    return placed


MODELS = {"nic": ("virtio-net", "e1000", "e1000e", "rtl8139", "vmxnet3"), "disk": ("virtio-blk", "ide")}
"""What a machine can be given: those that have been seen to boot with the lab image."""


def _is_model(path: KeyPath, key: str, level: object, where: error_messages.StudyText) -> None:
    if level not in MODELS[key]:
        what = f"{error_messages.show_value(level)} cannot be a machine's {key}"
        raise where.make_error(path, what, did_you_mean(str(level), MODELS[key], "it is one of"))


def _is_level(path: KeyPath, name: str, level: object, where: error_messages.StudyText) -> None:
    """Whether a treatment takes this level."""
    if not isinstance(level, bool | int | float | str):
        raise where.make_error(
            path, f"{name} cannot be {error_messages.show_value(level)}", "a level is a number, a text, true or false"
        )
    if problem := find_level_problem(name, level):
        raise where.make_error(path, f"{name} cannot be {error_messages.show_value(level)}", problem)


def check_observers(study: Study, where: error_messages.StudyText) -> None:
    for name, setting in study.observe.chosen.items():
        check_observer(("observe", name), name, setting, where)


def check_observer(path: KeyPath, name: str, setting: Any, where: error_messages.StudyText) -> None:
    """Whether there is such an observer, and it takes this setting."""
    known = plugins.list_names("observers")
    if name not in known:
        what = f"there is no observer {error_messages.show_value(name)}"
        hint = error_messages.find_top_place(path, where)
        raise where.make_error(path, what, hint or did_you_mean(name, known, "observers"))
    if setting in (None, False):
        return
    try:
        check_setting(name, setting)
    except (ValueError, TypeError) as error:
        package = plugins.package_of("observers", name)
        who = f"the package {package}" if package else "docs/observers.md"
        raise where.make_error(path, f"the observer {name!r}: {error}", f"{who} says what it takes") from None
