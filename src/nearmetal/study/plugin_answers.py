"""What plugins say while a study is read and planned, looked at before it is believed.

HostCannot, with the package, if a plugin of somebody else's breaks there or says what its Protocol does not allow.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import ValidationError

from nearmetal import model, plugins
from nearmetal.model.record import IN_CLAUSES
from nearmetal.plugins import Misfit, blame_package
from nearmetal.units import AS_WRITTEN

_PROPERTIES = tuple(name for name, value in vars(model.Workload).items() if isinstance(value, property))
"""What an object has, perhaps from its `__init__` on, so that `plugins.load` does not look for it in the class."""
_IN_CLAUSES = re.compile(r"\{([^{}]*)\}")


def validate_parameters(spec: model.WorkloadSpec | model.ResolvedWorkload) -> model.Frozen:
    """A workload's parameters, as its kind declares them. pydantic's ValidationError."""
    kind = plugins.load("workloads", spec.kind)
    with blame_package("workloads", spec.kind, passes=(ValidationError,)):
        return kind.Parameters.model_validate(dict(spec.parameters), context=AS_WRITTEN)


def make_workload(kind: str, parameters: model.Frozen) -> model.Workload:
    plugin = plugins.load("workloads", kind)
    with blame_package("workloads", kind):
        workload = plugin(parameters)
        _check_workload(workload)
    return workload


def _check_workload(workload: model.Workload) -> None:
    if lacks := [name for name in _PROPERTIES if not hasattr(workload, name)]:
        raise Misfit(f"it has no {', '.join(lacks)}")
    _check_responses(workload.responses)
    if workload.primary not in workload.responses:
        known = ", ".join(workload.responses) or "none"
        raise Misfit(f"its `primary` is {workload.primary!r}, and its `responses` are {known}")
    if not isinstance(workload.has_clients, bool):
        raise Misfit(f"its `has_clients` is {workload.has_clients!r}, neither True nor False")
    for name in ("duration", "preparing", "limit"):
        _check_seconds(name, getattr(workload, name))


def _check_responses(responses: object) -> None:
    if not isinstance(responses, Mapping):
        raise Misfit(f"its `responses` are {responses!r}, no mapping of names to ResponseKind")
    for name, kind in responses.items():
        if not isinstance(name, str) or not isinstance(kind, model.ResponseKind):
            raise Misfit(f"its `responses` have {name!r}: {kind!r}, not a name and its ResponseKind")
        if name in model.COSTS:
            raise Misfit(f"its `responses` have {name!r}, which nearmetal adds to every trial itself")
        for placeholder in _IN_CLAUSES.findall(kind.clause):
            if placeholder not in IN_CLAUSES:
                known = ", ".join(f"{{{one}}}" for one in IN_CLAUSES)
                raise Misfit(f"the clause of its response {name!r} has {{{placeholder}}}, which is none of {known}")


def _check_seconds(name: str, value: object) -> None:
    """Misfit if it is no time that something can take."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise Misfit(f"its `{name}` is {value!r}, not a number of seconds from 0 on")


def validate_options(kind: str, options: Mapping[str, Any]) -> None:
    """pydantic's ValidationError if a kind of environment does not take these options."""
    plugin = plugins.load("environments", kind)
    with blame_package("environments", kind, passes=(ValidationError,)):
        plugin.Options.model_validate(dict(options), context=AS_WRITTEN)


def describe_machines(kind: str, options: Mapping[str, Any], spec: model.MachineSpec) -> model.Description:
    """What a kind of environment says of its machines, from options that it takes."""
    plugin = plugins.load("environments", kind)
    with blame_package("environments", kind):
        described = plugin.describe(options, spec)
        if not isinstance(described, model.Description) or described.family is None:
            raise Misfit("its `describe` returns no Description that says of which family its machines are")
        _check_seconds("typical_ready", plugin.typical_ready)
        if not plugin.provisions or not set(plugin.provisions) <= set(get_args(model.Provision)):
            raise Misfit(f"its `provisions` are {plugin.provisions!r}, not of {', '.join(get_args(model.Provision))}")
    return described


def find_level_problem(treatment: str, level: model.Level) -> str | None:
    """Why a treatment cannot have this level; None if it can."""
    plugin = plugins.load("treatments", treatment)
    with blame_package("treatments", treatment):
        problem = plugin.problem(level)
        if not isinstance(problem, str | None):
            raise Misfit(f"its `problem` of {level!r} is {problem!r}, neither a text nor None")
    return problem


def shape_machine(treatment: str, spec: model.MachineSpec, level: model.Level) -> model.MachineSpec:
    """What a treatment makes of a machine that is to be."""
    plugin = plugins.load("treatments", treatment)
    with blame_package("treatments", treatment):
        shaped = plugin.shape(spec, level)
        if not isinstance(shaped, model.MachineSpec):
            raise Misfit(f"its `shape` of {level!r} is {shaped!r}, not a MachineSpec")
    return shaped


def check_setting(observer: str, setting: Any) -> None:
    """ValueError or TypeError if an observer does not take this setting."""
    plugin = plugins.load("observers", observer)
    with blame_package("observers", observer, passes=(ValueError, TypeError)):
        plugin(setting)
        _check_seconds("takes", plugin.takes)
