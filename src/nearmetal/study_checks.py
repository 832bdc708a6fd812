"""What a study can get wrong although each key has the right shape: BadInput with the place and the remedy."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Any

from pydantic import ValidationError

from nearmetal import factors as words
from nearmetal import hosts, plugins
from nearmetal.errors import BadInput
from nearmetal.lab import cpus
from nearmetal.lines import KeyPath
from nearmetal.model import EnvironmentSpec, Level, Provision, Reached, Study, Workload, WorkloadSpec
from nearmetal.study_text import StudyText, did_you_mean, keys_of, shown, told
from nearmetal.units import AS_WRITTEN

MOST_TRIALS = 1_000_000

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_NAME_RULE = "letters, digits and . _ - only, at most 100"

Check = Callable[[Study, StudyText], None]


def check(study: Study, where: StudyText) -> None:
    """Everything that can be known before anything runs. BadInput names the first thing that is wrong."""
    for one in CHECKS:
        one(study, where)


# ── Names and factors ─────────────────────────────────────────────────────────────────────────────────────────────


def _names(study: Study, where: StudyText) -> None:
    for table, things in (("factors", study.factors), ("environments", study.environments), ("hosts", study.hosts)):
        for name in things:
            if not _NAME.fullmatch(name):
                raise where.wrong((table, name), f"{shown(name)} cannot be a name in [{table}]", _NAME_RULE)
    if "local" in study.hosts:
        raise where.wrong(("hosts", "local"), "`local` is this host itself and cannot be another", "rename it")


def _factors(study: Study, where: StudyText) -> None:
    for name, factor in study.factors.items():
        path = ("factors", name, "levels")
        seen: set[tuple[str, Level]] = set()
        for level in factor.levels:
            if isinstance(level, str) and (len(level) > 200 or any(c in level for c in "\t\r\n")):
                raise where.wrong(
                    path, f"{shown(level)} cannot be a level of `{name}`", "at most 200 characters, on one line"
                )
            if words.typed(level) in seen:
                raise where.wrong(path, f"the factor `{name}` has the level {shown(level)} twice", "remove one")
            seen.add(words.typed(level))
    outer = study.factors["environment"]
    if outer.when or outer.sets:
        key = "when" if outer.when else "sets"
        raise where.wrong(
            ("factors", "environment", key), f"the factor `environment` cannot have `{key}`", f"remove `{key}`"
        )


def _conditions(study: Study, where: StudyText) -> None:
    for name, factor in study.factors.items():
        path = ("factors", name, "when")
        for other, levels in words.conditions(factor).items():
            if other not in study.factors:
                what = f"`when` of `{name}` names {shown(other)}, which is no factor"
                raise where.wrong(path, what, did_you_mean(other, study.factors, "factors"))
            if not levels:
                raise where.wrong(path, f"`when` of `{name}` never holds: it names no level of {other}", "name one")
            known = study.factors[other].levels
            for level in levels:
                if not _is_among(level, known):
                    what = f"`when` of `{name}` never holds: {other} is never {shown(level)}"
                    raise where.wrong(path, what, f"levels of {other}: {_list(known)}")
    try:
        words.in_order(study.factors)
    except ValueError as error:
        raise where.wrong(("factors",), str(error), "let the outer factor be free of conditions") from None
    for name, factor in study.factors.items():
        if factor.when and not all(words.demands(study.factors, name).values()):
            raise where.wrong(
                ("factors", name, "when"),
                f"the `when` of `{name}` never holds: what it asks for and what that asks for exclude each other",
                "name levels that can be had together",
            )


def _is_among(level: Level, levels: Iterable[Level]) -> bool:
    return any(words.same(level, known) for known in levels)


def _list(levels: Sequence[Level]) -> str:
    return ", ".join(shown(level) for level in levels[:20]) + (", …" if len(levels) > 20 else "")


# ── Where things run ──────────────────────────────────────────────────────────────────────────────────────────────


def _environments(study: Study, where: StudyText) -> None:
    kinds = plugins.names("environments")
    for name, spec in study.environments.items():
        if spec.kind not in kinds:
            what = f"there is no kind of environment {shown(spec.kind)}"
            raise where.wrong(("environments", name, "kind"), what, did_you_mean(spec.kind, kinds, "kinds"))
        _options(name, spec, where)
    for level in study.factors["environment"].levels:
        _is_environment(("factors", "environment"), level, study, where)
        _is_declared(("factors", "environment"), str(level), study, where)
        _provision(study, str(level), where)
    _is_environment(("clients", "environment"), study.clients.environment, study, where)
    _is_declared(("clients", "environment"), study.clients.environment, study, where)
    for table, host in (("machine", study.machine.host), ("clients", study.clients.host)):
        _is_host((table, "host"), host, study, where)
    for table, given in (("machine", study.machine.cpus), ("clients", study.clients.cpus)):
        _is_cpus((table, "cpus"), given, where)


def _is_environment(path: KeyPath, level: Level, study: Study, where: StudyText) -> None:
    known = (*study.environments, *plugins.names("environments"))
    if level not in known:
        what = f"there is no environment {shown(level)}"
        raise where.wrong(path, what, did_you_mean(str(level), known, "environments"))


def _is_declared(path: KeyPath, level: str, study: Study, where: StudyText) -> None:
    """A machine that exists already has to be said how to reach, under a name that no other host has."""
    kind = study.environment(level).kind
    what = f"{shown(level)} is a kind of machine that exists already, and the study does not say which one"
    if level not in study.environments and hosts.is_elsewhere(study.environment(level)):
        raise where.wrong(path, what, f'name one: [environments.guest] kind = "{level}"; see docs/environments.md')
    if not isinstance(plugins.load("environments", kind), Reached):
        return
    if level not in study.environments:
        raise where.wrong(path, what, f'name one: [environments.metal] kind = "{level}", address = "user@address"')
    if level in study.hosts or level == "local":
        what = f"{shown(level)} is the name of a host already"
        raise where.wrong(("environments", level), what, "rename it: the machine is a host of its own")


def _is_host(path: KeyPath, level: Level, study: Study, where: StudyText) -> None:
    if level != "local" and level not in study.hosts:
        what = f"`{'.'.join(map(str, path))}` names {shown(level)}, which is no host"
        raise where.wrong(path, what, f'declare it: [hosts.{level}] ssh = "user@address"')


def _is_cpus(path: KeyPath, level: Level | None, where: StudyText) -> None:
    if level is None:
        return
    try:
        named = cpus.parse(str(level))
    except ValueError as error:
        raise where.wrong(path, str(error), 'name CPUs of the host, like "0-2,4"') from None
    if not named:
        raise where.wrong(path, "`cpus` names no CPU", "name one, or leave it out")


def _options(name: str, spec: EnvironmentSpec, where: StudyText) -> None:
    """What the kind takes, where it says so; one that does not say checks for itself."""
    model = getattr(plugins.load("environments", spec.kind), "Options", None)
    if model is None:
        return
    try:
        model.model_validate(dict(spec.options), context=AS_WRITTEN)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = str(first["loc"][0]) if first["loc"] else ""
        path: KeyPath = ("environments", name, key)
        if first["type"] == "extra_forbidden":
            what = f"unknown key `{key}` in an environment of kind {spec.kind}"
            known = ["kind", "provision", *keys_of(model)]
            raise where.wrong(path, what, did_you_mean(key, known, "known keys")) from None
        raise where.wrong(path, *told(f"`{key}` of the environment {name!r}", first)) from None


_STRENGTH: Sequence[Provision] = ("boot", "restart", "restore", "reuse")
"""Strongest first: the less a provision makes anew, the less a verdict may be generalised."""


def _provision(study: Study, level: str, where: StudyText) -> None:
    """What the design says may not weaken an environment silently; what is said for it alone is its own choice."""
    spec = study.environment(level)
    can: Sequence[Provision] = plugins.load("environments", spec.kind).provisions
    wanted = provision_of(study, spec)
    own = spec.provision is not None
    path: KeyPath = ("environments", level, "provision") if own else ("design", "provision")
    if wanted not in can:
        raise where.wrong(
            path,
            f"{level!r} cannot be provisioned by {wanted!r}: {spec.kind} can {', '.join(can)}",
            f'say so for it alone: [environments.{level}] kind = "{spec.kind}", provision = "{can[0]}"',
        )
    if not own and _STRENGTH.index(wanted) > _STRENGTH.index(can[0]):
        raise where.wrong(
            path,
            f"provision = {wanted!r} is weaker than {can[0]!r}, which {level!r} can do",
            f'say that it is meant: [environments.{level}] kind = "{spec.kind}", provision = "{wanted}"',
        )


def provision_of(study: Study, spec: EnvironmentSpec) -> Provision:
    """How an environment's machines are provisioned: as it says itself, else as the design says."""
    return spec.provision or study.design.provision


# ── What factors set ──────────────────────────────────────────────────────────────────────────────────────────────


def _targets(study: Study, where: StudyText) -> None:
    treatments = plugins.names("treatments")
    taken: dict[words.Target, str] = {}
    for name, factor in study.factors.items():
        try:
            aim = words.target(name, factor, study, treatments)
        except words.NoTarget as error:
            raise where.wrong(("factors", name), str(error), 'say what it sets: sets = "machine.nic"') from None
        if aim in taken:
            what = f"`{name}` and `{taken[aim]}` both set {aim.key}"
            raise where.wrong(("factors", name), what, "make them one factor")
        taken[aim] = name
    for name, level in study.machine.settings.items():
        if name not in treatments:
            known = [*type(study.machine).model_fields, *treatments]
            what = f"unknown key `machine.{name}`"
            raise where.wrong(("machine", name), what, did_you_mean(name, known, "known keys"))
        _is_level(("machine", name), name, level, where)


def _levels(study: Study, where: StudyText) -> None:
    """Every level, put in its place, must make sense there."""
    for key in _MODELS:
        _is_model(("machine", key), key, getattr(study.machine, key), where)
    treatments = plugins.names("treatments")
    for name, factor in study.factors.items():
        aim = words.target(name, factor, study, treatments)
        for level in factor.levels:
            _level(name, aim, level, study, where)


def _level(name: str, aim: words.Target, level: Level, study: Study, where: StudyText) -> None:
    path = ("factors", name)
    if aim.kind == "treatment":
        _is_level(path, aim.key, level, where)
    if aim.kind in ("environment", "treatment", "placeholder"):
        return
    try:
        placed = words.put(study, aim, level)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise where.wrong(path, *told(f"the level {shown(level)} of `{name}`", first)) from None
    match aim.kind, aim.key:
        case "clients", "environment":
            _is_environment(path, level, study, where)
        case "machine" | "clients", "host":
            _is_host(path, level, study, where)
        case "machine" | "clients", "cpus":
            _is_cpus(path, level, where)
        case "machine", "nic" | "disk":
            _is_model(path, aim.key, level, where)
        case "observe", _:
            _observer(path, aim.key, placed, where)


_MODELS = {"nic": ("virtio-net", "e1000", "e1000e", "rtl8139", "vmxnet3"), "disk": ("virtio-blk", "ide")}
"""What a machine can be given: those that have been seen to boot with the lab image."""


def _is_model(path: KeyPath, key: str, level: object, where: StudyText) -> None:
    if level not in _MODELS[key]:
        what = f"{shown(level)} cannot be a machine's {key}"
        raise where.wrong(path, what, did_you_mean(str(level), _MODELS[key], "it is one of"))


def _is_level(path: KeyPath, name: str, level: object, where: StudyText) -> None:
    """Whether a treatment takes this level."""
    if not isinstance(level, bool | int | float | str):
        raise where.wrong(path, f"{name} cannot be {shown(level)}", "a level is a number, a text, true or false")
    problem = plugins.load("treatments", name).problem(level)
    if problem:
        raise where.wrong(path, f"{name} cannot be {shown(level)}", problem)


def _observers(study: Study, where: StudyText) -> None:
    for name, setting in study.observe.chosen.items():
        _observer(("observe", name), name, setting, where)


def _observer(path: KeyPath, name: str, setting: Any, where: StudyText) -> None:
    """Whether there is such an observer, and it takes this setting."""
    known = plugins.names("observers")
    if name not in known:
        what = f"there is no observer {shown(name)}"
        raise where.wrong(path, what, did_you_mean(name, known, "observers"))
    if setting in (None, False):
        return
    try:
        plugins.load("observers", name)(setting)
    except (ValueError, TypeError) as error:
        raise where.wrong(path, f"the observer {name!r}: {error}", "docs/study-file.md says what it takes") from None


# ── Workloads ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _workloads(study: Study, where: StudyText) -> None:
    seen: set[str] = set()
    for index, workload in enumerate(study.workloads):
        path: KeyPath = ("workloads", index)
        if workload.name in seen:
            raise where.wrong((*path, "name"), f"two workloads are called {workload.name!r}", "rename one")
        seen.add(workload.name)
        kinds = plugins.names("workloads")
        if workload.kind not in kinds:
            what = f"there is no kind of workload {shown(workload.kind)}"
            raise where.wrong((*path, "kind"), what, did_you_mean(workload.kind, kinds, "kinds"))
        _placeholders(index, workload, study, where)


def _placeholders(index: int, workload: WorkloadSpec, study: Study, where: StudyText) -> None:
    for key, value in workload.parameters.items():
        for name in words.placeholders_in(value):
            path = ("workloads", index, key)
            if name not in study.factors:
                what = f"the placeholder {{{name}}} has no factor"
                raise where.wrong(path, what, did_you_mean(name, study.factors, "factors"))
            if not words.is_everywhere(study.factors, name):
                what = f"the placeholder {{{name}}} has no level where the `when` of `{name}` does not hold"
                raise where.wrong(path, what, f"give `{name}` a level everywhere: remove its `when`")


def _workload_parameters(study: Study, where: StudyText) -> None:
    """Every workload, filled with every combination of the levels that stand in it, must make sense."""
    for index, workload in enumerate(study.workloads):
        names = list(dict.fromkeys(words.placeholders_in(workload.parameters)))
        for levels in _combined(names, study):
            filled = words.fill(workload.model_dump(), levels)
            _parameters(index, WorkloadSpec.model_validate(filled), levels, where)


def _combined(names: Sequence[str], study: Study) -> Iterator[dict[str, Level]]:
    """Each combination of the levels of these factors that some treatment has."""
    if study.design.crossing == "full":
        for levels in product(*(study.factors[name].levels for name in names)):
            yield dict(zip(names, levels, strict=True))
        return
    seen: set[words.Identity] = set()
    for treatment in words.treatments_of(study):
        found = {name: treatment[name] for name in names}
        if words.identity(found) not in seen:
            seen.add(words.identity(found))
            yield found


def workload_of(spec: WorkloadSpec) -> Workload:
    """Build a workload from its entry. pydantic's ValidationError when a parameter does not fit."""
    kind = plugins.load("workloads", spec.kind)
    built: Workload = kind(kind.Parameters.model_validate(spec.parameters, context=AS_WRITTEN))
    return built


def _parameters(index: int, spec: WorkloadSpec, levels: dict[str, Level], where: StudyText) -> None:
    known = keys_of(plugins.load("workloads", spec.kind).Parameters)
    for key in spec.parameters:
        if key not in known:
            what = f"unknown key `{key}` in a workload of kind {spec.kind}"
            remedy = did_you_mean(key, ["name", "kind", "primary", *known], "known keys")
            raise where.wrong(("workloads", index, key), what, remedy)
    try:
        workload = workload_of(spec)
    except ValidationError as error:
        raise _wrong_parameter(error, index, spec, levels, where) from None
    if spec.primary is not None and spec.primary not in workload.responses:
        what = f"workload {spec.name!r} ({spec.kind}) has no response {spec.primary!r}"
        remedy = did_you_mean(spec.primary, workload.responses, "responses")
        raise where.wrong(("workloads", index, "primary"), what, remedy)


def _wrong_parameter(
    error: ValidationError, index: int, spec: WorkloadSpec, levels: dict[str, Level], where: StudyText
) -> BadInput:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    with_levels = f" (with {words.key(levels)})" if levels else ""
    subject = f"workload {spec.name!r}{with_levels}" + (f", `{name}`" if name else "")
    if first["type"] == "missing":
        return where.wrong(("workloads", index), f"{subject} is missing", "docs/workloads.md says what it takes")
    what, remedy = told(subject, first)
    return where.wrong(("workloads", index, name), what, remedy.replace("study-file", "workloads"))


# ── What is compared, and how much it is ──────────────────────────────────────────────────────────────────────────


def _reference(study: Study, where: StudyText) -> None:
    for name, level in study.reference.items():
        if name not in study.factors:
            what = f"the reference names {shown(name)}, which is no factor"
            raise where.wrong(("reference", name), what, did_you_mean(name, study.factors, "factors"))
        if not _is_among(level, study.factors[name].levels):
            what = f"the reference has {name} = {shown(level)}, which is none of its levels"
            raise where.wrong(("reference", name), what, f"levels: {_list(study.factors[name].levels)}")


def _size(study: Study, where: StudyText) -> None:
    blocks = study.design.blocks
    if not isinstance(blocks, int):
        if blocks.min > blocks.max:
            what = f"min = {blocks.min} is more than max = {blocks.max}"
            raise where.wrong(("design", "blocks"), what, "swap the two")
        blocks = blocks.max
    each = blocks * study.design.repeats * len(study.workloads)
    most = MOST_TRIALS // each
    if words.number_of_treatments(study, most) > most:
        path: KeyPath = ("factors",) if most > 0 else ("design",)
        what = f"the study has more than {MOST_TRIALS:,} trials"
        raise where.wrong(path, what, 'fewer levels, blocks or repeats, or crossing = "one-at-a-time"')


def _counterparts(study: Study, where: StudyText) -> None:
    """Where a comparison with the reference brings a factor in, the reference must name its level.

    Only factors that have to do with a `when` can come in or go, so the others stand for themselves by one level.
    """
    nested = {name for name, factor in study.factors.items() if factor.when}
    decisive = {outer for factor in study.factors.values() for outer in factor.when} | nested
    if not nested:
        return
    few = {
        name: factor if name in decisive else factor.model_copy(update={"levels": factor.levels[:1]})
        for name, factor in study.factors.items()
    }
    skeleton = study.model_copy(update={"factors": few})
    for name, level in words.reference_of(study).items():
        if name not in decisive:
            continue
        for treatment in islice(words.treatments_of(skeleton), _LOOKED_AT):
            if name in treatment and not words.same(treatment[name], level):
                try:
                    words.counterpart(study, treatment, name)
                except words.Unnamed as error:
                    raise where.wrong(("reference",), str(error), error.remedy) from None


def _places(study: Study, where: StudyText) -> None:
    """A machine that is a host of its own cannot be placed on another."""
    for treatment in islice(words.treatments_of(study), _LOOKED_AT):
        asked = words.as_written(study, treatment, plugins.names("treatments"))
        placed = (("machine", asked.environment, asked.machine), ("clients", asked.clients.environment, asked.clients))
        for table, level, spec in placed:
            if spec.host != "local" and hosts.reached(study, level) is not None:
                what = f"{table}.host places {shown(level)} on {shown(spec.host)}, but it is a host of its own"
                raise where.wrong((table, "host"), what, "leave it out, or give the factor a `when`")


def _cables(study: Study, where: StudyText) -> None:
    """A direct cable has two ends."""
    for treatment in islice(words.treatments_of(study), _LOOKED_AT):
        asked = words.ask(study, treatment, plugins.names("treatments"))
        if asked.link.switch == "direct" and asked.clients.count > 1 and asked.clients.connect == "shared":
            what = f"a direct cable has two ends, and {asked.clients.count} clients share a server"
            raise where.wrong(("link", "switch"), what, 'switch = "bridge", or clients.connect = "pairs"')
        if asked.link.jitter and asked.link.jitter > (asked.link.delay or 0.0):
            what = "the jitter is more than the delay, and no frame can arrive before it was sent"
            raise where.wrong(("link", "jitter"), what, "give a longer delay, or less jitter")


_LOOKED_AT = 20_000
"""Treatments that are tried. What is beyond is found when the study is planned or run."""

CHECKS: Sequence[Check] = (
    _names,
    _factors,
    _environments,
    _conditions,
    _workloads,
    _targets,
    _reference,
    _size,
    _observers,
    _levels,
    _workload_parameters,
    _counterparts,
    _places,
    _cables,
)
