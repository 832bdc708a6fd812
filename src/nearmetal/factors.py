"""What factors mean: what each one sets, which combinations exist, and what a combination asks for. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from nearmetal.model import (
    Assignment,
    ClientsSpec,
    FactorSpec,
    Level,
    LinkSpec,
    MachineSpec,
    ObserveSpec,
    Study,
    WorkloadSpec,
)
from nearmetal.units import AS_WRITTEN

PLACEHOLDER = re.compile(r"\{([A-Za-z0-9._-]+)\}")

Table = Literal["machine", "clients", "link", "observe"]
Kind = Literal["environment", "treatment", "placeholder"] | Table

_TABLES: dict[Table, Any] = {
    "machine": MachineSpec,
    "clients": ClientsSpec,
    "link": LinkSpec,
    "observe": ObserveSpec,
}


@dataclass(frozen=True)
class Target:
    """What a factor sets: a key of a table, a treatment, or a placeholder in the workloads."""

    kind: Kind
    key: str


class NoTarget(ValueError):
    """A factor that sets and fills nothing."""


def target(name: str, factor: FactorSpec, study: Study, treatments: tuple[str, ...]) -> Target:
    """What a factor sets: what it says, else a key of that name, else a treatment, else a placeholder. NoTarget."""
    if name == "environment":
        return Target("environment", name)
    if factor.sets is not None:
        table, _, key = factor.sets.partition(".")
        if table in _TABLES and (key in _TABLES[table].model_fields or (table == "machine" and key in treatments)):
            return Target(table, key) if key in _TABLES[table].model_fields else Target("treatment", key)
        keys = ", ".join(f"{t}.{k}" for t, model in _TABLES.items() for k in model.model_fields)
        raise NoTarget(f"sets = {factor.sets!r} names nothing that can be set; it can be one of {keys}")
    for table, model in _TABLES.items():
        if name in model.model_fields:
            return Target(table, name)
    if name in treatments:
        return Target("treatment", name)
    if name in placeholders(study):
        return Target("placeholder", name)
    raise NoTarget(
        f"the factor {name!r} sets nothing and fills nothing: it is no key of [machine], [clients], [link] or "
        f'[observe], no treatment ({", ".join(treatments)}), and no workload says "{{{name}}}"'
    )


def placeholders(study: Study) -> set[str]:
    """Every name that stands in braces in a workload."""
    return {name for workload in study.workloads for name in _placeholders_in(workload.parameters)}


def _placeholders_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from PLACEHOLDER.findall(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _placeholders_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _placeholders_in(item)


def fill(value: Any, levels: Assignment) -> Any:
    """Put levels in the place of placeholders: with its type where the placeholder is the whole value."""
    if isinstance(value, str):
        whole = PLACEHOLDER.fullmatch(value)
        if whole and whole[1] in levels:
            return levels[whole[1]]
        return PLACEHOLDER.sub(lambda match: str(levels.get(match[1], match[0])), value)
    if isinstance(value, Mapping):
        return {key: fill(item, levels) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill(item, levels) for item in value]
    return value


# ── Which combinations exist ──────────────────────────────────────────────────────────────────────────────────────


def same(one: Level, other: Level) -> bool:
    """Levels are equal only with their type: true is not 1."""
    return type(one) is type(other) and one == other


def conditions(factor: FactorSpec) -> Mapping[str, tuple[Level, ...]]:
    """`when` with each condition as a tuple of the levels that satisfy it."""
    return {name: level if isinstance(level, tuple) else (level,) for name, level in factor.when.items()}


def applies(factor: FactorSpec, assignment: Assignment) -> bool:
    """Whether a factor means something in a combination: every condition names a factor that is there and holds."""
    return all(
        name in assignment and any(same(assignment[name], level) for level in levels)
        for name, levels in conditions(factor).items()
    )


def in_order(factors: Mapping[str, FactorSpec]) -> list[str]:
    """Factor names so that each comes after those its `when` names. ValueError names a cycle."""
    ordered: list[str] = []
    waiting = dict(factors)
    while waiting:
        ready = [name for name, factor in waiting.items() if not (factor.when.keys() & waiting.keys())]
        if not ready:
            raise ValueError(f"the `when` of these factors refer to each other in a circle: {', '.join(waiting)}")
        ordered += ready
        for name in ready:
            del waiting[name]
    return ordered


def combinations(factors: Mapping[str, FactorSpec]) -> Iterator[dict[str, Level]]:
    """Every combination of levels, nested factors only where they apply; lazily, in the order of the study file."""

    def extend(assignment: dict[str, Level], names: list[str]) -> Iterator[dict[str, Level]]:
        if not names:
            yield {name: assignment[name] for name in factors if name in assignment}
            return
        name, *rest = names
        if not applies(factors[name], assignment):
            yield from extend(assignment, rest)
            return
        for level in factors[name].levels:
            yield from extend({**assignment, name: level}, rest)

    yield from extend({}, in_order(factors))


def completed(factors: Mapping[str, FactorSpec], wanted: Assignment) -> dict[str, Level]:
    """The combination that has the wanted levels where they apply, and each other factor's first level."""
    assignment: dict[str, Level] = {}
    for name in in_order(factors):
        if applies(factors[name], assignment):
            assignment[name] = wanted.get(name, factors[name].levels[0])
    return {name: assignment[name] for name in factors if name in assignment}


def one_at_a_time(study: Study) -> Iterator[dict[str, Level]]:
    """The reference combination, and each that differs from it in one factor.

    A nested factor that the reference does not have is varied from the nearest combination that has it: the
    reference with the conditions of its `when` met by their first levels.
    """
    factors = study.factors
    base = dict(study.reference)
    seen: list[dict[str, Level]] = []
    for name in in_order(factors):
        wanted = {**base, **_conditions_met(factors, name)}
        for level in factors[name].levels:
            combination = completed(factors, {**wanted, name: level})
            if combination not in seen:
                seen.append(combination)
                yield combination


def _conditions_met(factors: Mapping[str, FactorSpec], name: str) -> dict[str, Level]:
    """First levels that make a factor apply, and those that make them apply."""
    met: dict[str, Level] = {}
    for other, levels in conditions(factors[name]).items():
        met |= _conditions_met(factors, other)
        met[other] = levels[0]
    return met


def key(assignment: Assignment) -> str:
    """A combination as one line, "environment=qemu nic=e1000": stable, for names and for people."""
    return " ".join(f"{name}={show(level)}" for name, level in assignment.items())


def show(level: Level) -> str:
    """A level as it stands in the study file."""
    return str(level).lower() if isinstance(level, bool) else str(level)


# ── What a combination asks for ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Asked:
    """A study with one combination put into it."""

    environment: str
    machine: MachineSpec
    clients: ClientsSpec
    link: LinkSpec
    observe: ObserveSpec
    treatments: Mapping[str, Level]
    """Treatment name to level: those of [machine], overridden by the combination's."""
    workloads: tuple[WorkloadSpec, ...]
    """With placeholders filled."""


def ask(study: Study, assignment: Assignment, treatments: tuple[str, ...]) -> Asked:
    """What a combination asks for. pydantic's ValidationError when a level does not fit the key it sets."""
    tables: dict[str, dict[str, Any]] = {table: {} for table in _TABLES}
    chosen = {name: level for name, level in study.machine.settings.items() if name in treatments}
    for name, level in assignment.items():
        aim = target(name, study.factors[name], study, treatments)
        if aim.kind in tables:
            tables[aim.kind][aim.key] = level
        elif aim.kind == "treatment":
            chosen[aim.key] = level
    return Asked(
        environment=str(assignment["environment"]),
        machine=_with(study.machine, tables["machine"]),
        clients=_with(study.clients, tables["clients"]),
        link=_with(study.link, tables["link"]),
        observe=_with(study.observe, tables["observe"]),
        treatments=chosen,
        workloads=tuple(
            WorkloadSpec.model_validate(fill(workload.model_dump(), assignment)) for workload in study.workloads
        ),
    )


def _with(spec: Any, levels: Mapping[str, Level]) -> Any:
    """A table with some keys set to levels as the study file writes them ("1GiB"), validated as if they stood there."""
    if not levels:
        return spec
    parsed = type(spec).model_validate(dict(levels), context=AS_WRITTEN)
    return spec.model_copy(update={key: getattr(parsed, key) for key in levels})
