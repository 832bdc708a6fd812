"""Where things run: environments with their options, hosts, CPUs, ways to provision."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from nearmetal import cpu_lists, plugins
from nearmetal.model import SAME, Description, EnvironmentSpec, Level, MachineSpec, Provision, Study
from nearmetal.spelling import did_you_mean
from nearmetal.study.error_messages import StudyText, check_each, describe_error, find_top_place, keys_of, show_value
from nearmetal.study.line_numbers import KeyPath
from nearmetal.study.plugin_answers import describe_machines, validate_options

_MANUAL = "docs/environments.md says what each kind takes"


def check_environments(study: Study, where: StudyText) -> None:
    kinds = plugins.list_names("environments")
    if SAME in study.environments:
        what = f"{show_value(SAME)} cannot name an environment: for clients it means the servers'"
        raise where.make_error(("environments", SAME), what, "rename it")
    check_each(lambda one: _check_declared(*one, kinds, where), study.environments.items())
    for level in study.factors["environment"].levels:
        is_environment(("factors", "environment"), level, study, where)
        _is_declared(("factors", "environment"), str(level), study, where)
        _check_provision(study, str(level), where)
    if study.clients.environment != SAME:
        is_environment(("clients", "environment"), study.clients.environment, study, where)
        _is_declared(("clients", "environment"), study.clients.environment, study, where)
    for table, hosts in (("machine", (study.machine.host,)), ("clients", study.clients.hosts)):
        for number, host in enumerate(hosts):
            is_host((table, "host"), host, study, where)
            if host in hosts[:number]:
                what = f"`{table}.host` names {show_value(host)} twice"
                raise where.make_error(
                    (table, "host"), what, f"name it once; {table}.count = {len(hosts)} makes as many"
                )
    for table, given in (("machine", study.machine.cpus), ("clients", study.clients.cpus)):
        is_cpus((table, "cpus"), given, where)


def _check_declared(name: str, spec: EnvironmentSpec, kinds: Sequence[str], where: StudyText) -> None:
    if spec.kind not in kinds:
        what = f"there is no kind of environment {show_value(spec.kind)}"
        raise where.make_error(("environments", name, "kind"), what, did_you_mean(spec.kind, kinds, "kinds"))
    _is_what_it_is_called(name, spec, kinds, where)
    _check_options(name, spec, where)


def is_environment(path: KeyPath, level: Level, study: Study, where: StudyText) -> None:
    known = (*study.environments, *plugins.list_names("environments"))
    if level not in known:
        what = f"there is no environment {show_value(level)}"
        raise where.make_error(path, what, did_you_mean(str(level), known, "environments"))


def _is_what_it_is_called(name: str, spec: EnvironmentSpec, kinds: Sequence[str], where: StudyText) -> None:
    """A container must not be called `host`. A pretended machine may be called anything: reports say what it is."""
    if name in kinds and spec.kind != name and not spec.is_pretended:
        what = (
            f"{show_value(name)} is the name of another kind of environment than {spec.kind}: reports would "
            "call it that"
        )
        remedy = f"rename it, as in [environments.my-{spec.kind}], also where `factors` and `reference` name it"
        raise where.make_error(("environments", name), what, remedy)


def _is_declared(path: KeyPath, level: str, study: Study, where: StudyText) -> None:
    """A machine that exists already has to be said how to reach, under a name that no other host has."""
    kind = study.environment(level).kind
    what = f"{show_value(level)} is a kind of machine that exists already, and the study does not say which one"
    described = describe_kind(kind, study.environment(level).options, study.machine)
    if level not in study.environments and (described is None or described.is_reached_from_outside):
        raise where.make_error(path, what, f'name one: [environments.mine] kind = "{level}"; see docs/environments.md')
    if described is None or described.host is None:
        return
    if level in study.hosts or level == "local":
        what = f"{show_value(level)} is the name of a host already"
        raise where.make_error(("environments", level), what, "rename it: the machine is a host of its own")


def describe_kind(kind: str, options: Mapping[str, Any], machine: MachineSpec) -> Description | None:
    """What a kind says of its machines; None if these options do not say enough, as none does of a machine that exists.

    HostCannot when the kind cannot be loaded.
    """
    try:
        validate_options(kind, options)
    except ValidationError:
        return None
    return describe_machines(kind, options, machine)


def is_host(path: KeyPath, level: Level, study: Study, where: StudyText) -> None:
    if level != "local" and level not in study.hosts:
        what = f"`{'.'.join(map(str, path))}` names {show_value(level)}, which is no host"
        raise where.make_error(path, what, f'declare it: [hosts.{level}] ssh = "user@address"')


def is_cpus(path: KeyPath, level: Level | None, where: StudyText) -> None:
    if level is None:
        return
    try:
        named = cpu_lists.parse(str(level))
    except ValueError as error:
        raise where.make_error(path, str(error), 'name CPUs of the host, like "0-2,4"') from None
    if not named:
        raise where.make_error(path, "`cpus` names no CPU", "name one, or leave it out")


def _check_options(name: str, spec: EnvironmentSpec, where: StudyText) -> None:
    """What the kind takes."""
    try:
        validate_options(spec.kind, spec.options)
    except ValidationError as error:
        # A key that is missing may stand there misspelt.
        first = min(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
        key = str(first["loc"][0]) if first["loc"] else ""
        path: KeyPath = ("environments", name, key)
        if first["type"] == "extra_forbidden":
            what = f"unknown key `{key}` in an environment of kind {spec.kind}"
            known = ["kind", "provision", *keys_of(plugins.load("environments", spec.kind).Options)]
            hint = find_top_place(path, where) or did_you_mean(key, known, "known keys")
            raise where.make_error(path, what, hint) from None
        if first["type"] == "missing":
            what = f"the environment {name!r} is of kind {spec.kind}, which takes `{key}`"
            raise where.make_error(path, what, _MANUAL) from None
        subject = f"`{key}` of the environment {name!r}" if key else f"the environment {name!r}"
        raise where.make_error(path, *describe_error(subject, first, _MANUAL)) from None


_STRENGTH: Sequence[Provision] = ("boot", "restart", "restore", "reuse")
"""Strongest first: the less a provision makes anew, the less a verdict may be generalised."""


def _check_provision(study: Study, level: str, where: StudyText) -> None:
    """What the design says may not weaken an environment silently; what is said for it alone is its own choice."""
    spec = study.environment(level)
    can = plugins.load("environments", spec.kind).provisions
    wanted = study.provision_of(spec)
    own = spec.provision is not None
    path: KeyPath = ("environments", level, "provision") if own else ("design", "provision")
    if not own and "provision" not in study.design.model_fields_set:
        path = ("environments", level) if level in study.environments else ("factors", "environment")
    if wanted not in can:
        raise where.make_error(
            path,
            f"{level!r} cannot be provisioned by {wanted!r}: {spec.kind} can {', '.join(can)}",
            f'say so for it alone: [environments.{level}] kind = "{spec.kind}", provision = "{can[0]}"',
        )
    if not own and _STRENGTH.index(wanted) > _STRENGTH.index(can[0]):
        raise where.make_error(
            path,
            f"provision = {wanted!r} is weaker than {can[0]!r}, which {level!r} can do",
            f'say that it is meant: [environments.{level}] kind = "{spec.kind}", provision = "{wanted}"',
        )
