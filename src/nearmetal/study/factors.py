"""What factors mean: what each one sets, and which combinations of their levels exist. Pure.

`resolve.py` says what a combination asks for.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from nearmetal.model import (
    CAPTURE_KEYS,
    SYSCTL_NAME,
    Assignment,
    ClientsSpec,
    FactorSpec,
    Identity,
    Level,
    LinkSpec,
    MachineSpec,
    ObserveSpec,
    ServiceSpec,
    Study,
    WorkloadSpec,
    identify_assignment,
)
from nearmetal.model.services import FILLED
from nearmetal.study.levels import find_placeholders, format_level, identify_level, is_same_level

Table = Literal["machine", "clients", "link", "observe"]
Kind = Literal["environment", "treatment", "placeholder", "sysctl"] | Table

_TABLES: dict[Table, Any] = {
    "machine": MachineSpec,
    "clients": ClientsSpec,
    "link": LinkSpec,
    "observe": ObserveSpec,
}


@dataclass(frozen=True)
class Target:
    """What a factor sets: a key of a table, a treatment, a sysctl, or a placeholder in the workloads."""

    kind: Kind
    key: str

    @property
    def is_how_captured(self) -> bool:
        """Not whether packets are captured, but how."""
        return self.kind == "observe" and self.key in CAPTURE_KEYS


class NoTarget(ValueError):
    """A factor that sets and fills nothing."""


@dataclass(frozen=True)
class KnownNames:
    """What a factor may set besides keys of tables."""

    treatments: tuple[str, ...]
    observers: tuple[str, ...]


def find_aims(name: str, factor: FactorSpec, study: Study, known: KnownNames) -> tuple[Target, ...]:
    """What a factor sets, each key of a list in its order. NoTarget."""
    written = factor.sets if isinstance(factor.sets, tuple) else (factor.sets,)
    return tuple(_find_aim(name, one, study, known) for one in written)


def _find_aim(name: str, sets: str | None, study: Study, known: KnownNames) -> Target:
    """What a factor says that it sets, else a key of its name, a treatment, a placeholder, an observer. NoTarget."""
    if name == "environment":
        return Target("environment", name)
    treatments = known.treatments
    if sets is not None:
        table, _, key = sets.partition(".")
        if table == "observe" and key and (key in CAPTURE_KEYS or not key.startswith("capture.")):
            return Target("observe", key)  # also an observer of somebody else's
        if table == "sysctl":
            if re.fullmatch(SYSCTL_NAME, key) is None:
                raise NoTarget(f'sets = {sets!r} names no sysctl, such as "sysctl.net.ipv4.tcp_sack"')
            return Target("sysctl", key)
        if table in _TABLES and (key in _TABLES[table].model_fields or (table == "machine" and key in treatments)):
            return Target(table, key) if key in _TABLES[table].model_fields else Target("treatment", key)
        settable = [(t, k) for t, model in _TABLES.items() for k in model.model_fields]
        settable += [("observe", k) for k in CAPTURE_KEYS]
        keys = ", ".join(f"{t}.{k}" for t, k in settable)
        treated = ", ".join(f"machine.{treatment}" for treatment in treatments)
        raise NoTarget(
            f"sets = {sets!r} names nothing that can be set; it can be one of {keys}, {treated}, sysctl.NAME"
        )
    for table, model in _TABLES.items():
        if name in model.model_fields and not (model is ClientsSpec and name in ClientsSpec.TREATMENTS):
            return Target(table, name)
    if name in treatments:
        return Target("treatment", name)
    if name in list_placeholders(study):
        return Target("placeholder", name)
    if name in known.observers:
        return Target("observe", name)  # of somebody else's: ours are keys of [observe]
    raise NoTarget(
        f"the factor {name!r} sets nothing and fills nothing: it is no key of [machine], [clients], [link] or "
        f"[observe], no treatment ({', '.join(treatments)}), no observer ({', '.join(known.observers)}), "
        f'and no workload says "{{{name}}}"'
    )


def list_placeholders(study: Study) -> set[str]:
    """Every name that stands in braces in a workload, or in a service where levels are filled in."""
    in_workloads = {name for workload in study.workloads for name in find_placeholders(workload.parameters)}
    return in_workloads.union(*(find_filling(spec) for spec in study.services.values()))


def find_filling(spec: ServiceSpec) -> set[str]:
    """Every name that stands in braces in a service, where levels are filled in."""
    return {name for key in FILLED for name in find_placeholders(getattr(spec, key))}


def list_unused(study: Study, known: KnownNames) -> Iterator[tuple[WorkloadSpec, str]]:
    """Each workload with a factor that only fills placeholders, and none of this one: it is measured at each level."""
    for name, factor in study.factors.items():
        if find_aims(name, factor, study, known)[0].kind == "placeholder":
            for workload in study.workloads:
                if name not in find_placeholders(workload.parameters) and not _asks_filled(workload, name, study):
                    yield workload, name


def _asks_filled(workload: WorkloadSpec, name: str, study: Study) -> bool:
    """Whether it asks a service, or may, in which levels of this factor stand."""
    filled = {service for service, spec in study.services.items() if name in find_filling(spec)}
    server, services = workload.parameters.get("server"), workload.parameters.get("services", ())
    may_vary = any(find_placeholders(server)) or any(find_placeholders(services))
    return bool(filled) and (may_vary or not filled.isdisjoint({str(server), *services}))


def list_conditions(factor: FactorSpec) -> Mapping[str, tuple[Level, ...]]:
    """`when` with each condition as a tuple of the levels that satisfy it."""
    return {name: level if isinstance(level, tuple) else (level,) for name, level in factor.when.items()}


def does_apply(factor: FactorSpec, assignment: Assignment) -> bool:
    """Whether a factor means something in a combination: every condition names a factor that is there and holds."""
    return all(
        name in assignment and any(is_same_level(assignment[name], level) for level in levels)
        for name, levels in list_conditions(factor).items()
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


def list_demands(factors: Mapping[str, FactorSpec], name: str) -> dict[str, tuple[Level, ...]]:
    """What must hold for a factor to apply: each factor it is nested in, however deep, with the levels that serve.

    No levels: it never applies. Otherwise any choice of these levels makes it apply.
    """
    met: dict[str, tuple[Level, ...]] = {}
    waiting = [name]
    visited: set[str] = set()
    while waiting:
        inner = waiting.pop()
        if inner in visited:
            continue
        visited.add(inner)
        for outer, levels in list_conditions(factors[inner]).items():
            possible = met.get(outer, factors[outer].levels)
            wanted = {identify_level(level) for level in levels}
            met[outer] = tuple(level for level in possible if identify_level(level) in wanted)
            waiting.append(outer)
    return met


def is_everywhere(factors: Mapping[str, FactorSpec], name: str) -> bool:
    """Whether a factor has a level in every combination."""
    return all(len(levels) == len(factors[outer].levels) for outer, levels in list_demands(factors, name).items())


def count_combinations(factors: Mapping[str, FactorSpec], limit: int) -> int:
    """How many combinations there are. Exact up to `limit`; beyond, only that there are more.

    Factors are taken one by one, and combinations are told apart only by the levels that a later `when` asks for.
    """
    names = in_order(factors)
    last_asked = {outer: position for position, name in enumerate(names) for outer in factors[name].when}
    states: Counter[tuple[tuple[str, int], ...]] = Counter({(): 1})
    for position, name in enumerate(names):
        factor = factors[name]
        following: Counter[tuple[tuple[str, int], ...]] = Counter()
        total = 0
        for state, number in states.items():
            kept = tuple(one for one in state if last_asked[one[0]] > position)
            means_something = does_apply(factor, {outer: factors[outer].levels[index] for outer, index in state})
            total += number * len(factor.levels) if means_something else number
            if total > limit:
                return total
            if not means_something:
                following[kept] += number
            elif last_asked.get(name, -1) > position:
                for index in range(len(factor.levels)):
                    following[(*kept, (name, index))] += number
            else:
                following[kept] += number * len(factor.levels)
        states = following
    return states.total()


def list_combinations(factors: Mapping[str, FactorSpec]) -> Iterator[dict[str, Level]]:
    """Every combination of levels, nested factors only where they apply; lazily, in the order of the study file."""
    names = in_order(factors)
    stack: list[tuple[dict[str, Level], int]] = [({}, 0)]
    while stack:
        assignment, position = stack.pop()
        while position < len(names) and not does_apply(factors[names[position]], assignment):
            position += 1
        if position == len(names):
            yield {name: assignment[name] for name in factors if name in assignment}
            continue
        name = names[position]
        stack += [({**assignment, name: level}, position + 1) for level in reversed(factors[name].levels)]


def complete_combination(factors: Mapping[str, FactorSpec], wanted: Assignment) -> dict[str, Level]:
    """The combination that has the wanted levels where they apply, and each other factor's first level."""
    assignment: dict[str, Level] = {}
    for name in in_order(factors):
        if does_apply(factors[name], assignment):
            assignment[name] = wanted.get(name, factors[name].levels[0])
    return {name: assignment[name] for name in factors if name in assignment}


def one_at_a_time(study: Study) -> Iterator[dict[str, Level]]:
    """The reference combination, and each that differs from it in one factor.

    A nested factor that the reference does not have is varied from the nearest combination that has it: the
    reference, with each condition that it does not meet met by the first level that serves.
    """
    factors = study.factors
    seen: set[Identity] = set()
    for name in in_order(factors):
        wanted = {**study.reference, **_find_met(study, name)}
        for level in factors[name].levels:
            combination = complete_combination(factors, {**wanted, name: level})
            if identify_assignment(combination) not in seen:
                seen.add(identify_assignment(combination))
                yield combination


def _find_met(study: Study, name: str) -> dict[str, Level]:
    """Levels that make a factor apply: the reference's own where they serve."""
    met: dict[str, Level] = {}
    for outer, levels in list_demands(study.factors, name).items():
        usual = study.reference.get(outer, study.factors[outer].levels[0])
        met[outer] = usual if not levels or any(is_same_level(usual, level) for level in levels) else levels[0]
    return met


def treatments_of(study: Study) -> Iterator[dict[str, Level]]:
    """Every combination that the design asks for, lazily."""
    if study.design.crossing == "one-at-a-time":
        return one_at_a_time(study)
    return list_combinations(study.factors)


def number_of_treatments(study: Study, limit: int) -> int:
    """How many there are. Exact up to `limit`; beyond, only that there are more."""
    if study.design.crossing == "one-at-a-time":
        return sum(1 for _ in islice(one_at_a_time(study), limit + 1))
    return count_combinations(study.factors, limit)


class UnnamedLevel(ValueError):
    """A factor that comes in when a combination is compared with the reference, which does not name its level."""

    def __init__(self, factor: str, name: str, level: Level) -> None:
        super().__init__(
            f"compared with {name} = {format_level(level)}, the factor `{factor}` comes in, and the reference "
            "does not say at which level"
        )
        self.remedy = f"name it: reference = {{ …, {factor} = … }}"


def reference_of(study: Study) -> Assignment:
    """The levels that others are compared with: as the study says, else each factor's first."""
    return study.reference or {name: factor.levels[0] for name, factor in study.factors.items()}


def find_counterpart(study: Study, treatment: Assignment, name: str) -> dict[str, Level]:
    """A combination with one factor at its reference level, all else alike. UnnamedLevel.

    Factors that no longer apply are dropped. Those that newly apply are taken from the reference, which must name
    them: any other choice would be ours, not the study's.
    """
    reference = reference_of(study)
    found = complete_combination(study.factors, {**reference, **treatment, name: reference[name]})
    for new in found:
        if new not in treatment and new not in reference:
            raise UnnamedLevel(new, name, reference[name])
    return found
