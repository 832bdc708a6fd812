"""Finding plugins: environments, treatments, workloads, observers and report sections.

A plugin is one module in the folder of its group that exposes the name `plugin`, or an entry point of the group
`nearmetal.GROUP` in somebody else's package. Names come from file names and entry points, so that listing them
imports nothing.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from nearmetal.errors import BadInput, HostCannot, message_of

if TYPE_CHECKING:
    from nearmetal.model import Environment, Observer, Treatment, Workload
    from nearmetal.report.reading import SectionPlugin

Group = Literal["environments", "treatments", "workloads", "observers", "sections"]

_PACKAGES: dict[Group, str] = {
    "environments": "nearmetal.environments",
    "treatments": "nearmetal.treatments",
    "workloads": "nearmetal.workloads",
    "observers": "nearmetal.observers",
    "sections": "nearmetal.report.sections",
}


@cache
def _modules(group: Group) -> dict[str, str]:
    """Plugin name to module, of our own folder. A leading underscore hides a file."""
    spec = find_spec(_PACKAGES[group])
    folders = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    return {
        path.stem.replace("_", "-"): f"{_PACKAGES[group]}.{path.stem}"
        for folder in folders
        for path in sorted(Path(folder).glob("*.py"))
        if not path.stem.startswith("_")
    }


@cache
def _entry_points(group: Group) -> dict[str, EntryPoint]:
    found = {point.name: point for point in entry_points(group=f"nearmetal.{group}")}
    clash = sorted(found.keys() & _modules(group).keys())
    if clash:
        raise BadInput(
            f"{found[clash[0]].value} and nearmetal itself both provide {clash[0]!r} in {group}",
            remedy="uninstall one of the two packages, or rename its entry point",
        )
    return found


def names(group: Group) -> tuple[str, ...]:
    """Every name of a group, sorted; imports no plugin."""
    return tuple(sorted({*_modules(group), *_entry_points(group)}))


def package_of(group: Group, name: str) -> str | None:
    """The package of somebody else that provides a plugin, as pip calls it. None for ours."""
    point = _entry_points(group).get(name)
    return None if point is None else point.dist.name if point.dist else point.module


@overload
def load(group: Literal["environments"], name: str) -> Environment: ...
@overload
def load(group: Literal["treatments"], name: str) -> Treatment: ...
@overload
def load(group: Literal["workloads"], name: str) -> type[Workload]: ...
@overload
def load(group: Literal["observers"], name: str) -> type[Observer]: ...
@overload
def load(group: Literal["sections"], name: str) -> SectionPlugin: ...
def load(group: Group, name: str) -> object:
    """One plugin. BadInput when nobody provides the name; HostCannot when what it needs is not installed, and when
    somebody else's cannot be imported, whatever its module raises.

    That it is what its group promises is taken on trust here, and looked at by the conformance tests.
    """
    return _loaded(group, name)


@cache
def _loaded(group: Group, name: str) -> Any:
    if name in _modules(group):
        try:
            return importlib.import_module(_modules(group)[name]).plugin
        except ImportError as error:
            raise HostCannot(
                f"{name!r} in {group} cannot be loaded: {error}",
                remedy=f"install what it needs, for example: pip install 'nearmetal[{name}]'",
            ) from error
    if name in _entry_points(group):
        return _theirs(group, name, _entry_points(group)[name])
    raise BadInput(f"there is no {name!r} in {group}", remedy=f"choose one of: {', '.join(names(group))}")


def _theirs(group: Group, name: str, point: EntryPoint) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:  # a module of somebody else's may raise anything, and end us
        package = package_of(group, name)
        wish = "install what it needs" if isinstance(error, ImportError) else "ask whoever made it"
        raise HostCannot(
            f"{name!r} in {group}, of the package {package}, cannot be loaded: {message_of(error)}",
            remedy=f"{wish}, or do without it: pip uninstall {package}",
        ) from error
