"""Finding plugins: environments, treatments, workloads, observers and report sections.

A plugin is one module in the folder of its group that exposes the name `plugin`, or an entry point of the group
`nearmetal.GROUP` in somebody else's package. Names come from file names and entry points, so that listing them
imports nothing.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, overload

from nearmetal.errors import BadInput, HostCannot, NearmetalError, message_of
from nearmetal.optional_dependencies import describe_install
from nearmetal.shortened_list import shorten_list

if TYPE_CHECKING:
    from nearmetal.model import Environment, Observer, Treatment, Workload

Group = Literal["environments", "treatments", "workloads", "observers", "sections"]

_PACKAGES: dict[Group, str] = {
    "environments": "nearmetal.environments",
    "treatments": "nearmetal.treatments",
    "workloads": "nearmetal.workloads",
    "observers": "nearmetal.observers",
    "sections": "nearmetal.report.sections",
}

_STUDIES, _CHAPTER = "nearmetal.studies", "chapter"
"""Where built-in studies have chapters of their own, each in the folder of its studies."""

_PROMISES: dict[Group, tuple[str, str]] = {
    "environments": ("nearmetal.model", "Environment"),
    "treatments": ("nearmetal.model", "Treatment"),
    "workloads": ("nearmetal.model", "Workload"),
    "observers": ("nearmetal.model", "Observer"),
    "sections": ("nearmetal.report.report_input", "SectionPlugin"),
}
"""The Protocol that says what plugins of a group are, by its name as they themselves: it may import what finds them."""
_NAMED = 3
"""Of what a plugin lacks, so much is told by name."""


@cache
def _find_modules(group: Group) -> dict[str, str]:
    """Plugin name to module, of our own folder. A leading underscore hides a file."""
    package = _PACKAGES[group]
    found = {
        path.stem.replace("_", "-"): f"{package}.{path.stem}"
        for folder in _list_places(package)
        for path in sorted([*folder.glob("*.py"), *(one.parent for one in folder.glob("*/__init__.py"))])
        if not path.stem.startswith("_")
    }
    if group == "sections":
        chapters = (path for folder in _list_places(_STUDIES) for path in sorted(folder.glob(f"*/{_CHAPTER}.py")))
        found |= {path.parent.name.replace("_", "-"): f"{_STUDIES}.{path.parent.name}.{_CHAPTER}" for path in chapters}
    return found


def _list_places(package: str) -> list[Path]:
    spec = find_spec(package)
    return [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []


@cache
def _entry_points(group: Group) -> dict[str, EntryPoint]:
    found = {point.name: point for point in entry_points(group=f"nearmetal.{group}")}
    clash = sorted(found.keys() & _find_modules(group).keys())
    if clash:
        raise BadInput(
            f"{found[clash[0]].value} and nearmetal itself both provide {clash[0]!r} in {group}",
            remedy="uninstall one of the two packages, or rename its entry point",
        )
    return found


def list_names(group: Group) -> tuple[str, ...]:
    """Every name of a group, sorted; imports no plugin."""
    return tuple(sorted({*_find_modules(group), *_entry_points(group)}))


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
def load(group: Literal["sections"], name: str) -> Any: ...  # the report's type, and the report finds it here
def load(group: Group, name: str) -> object:
    """One plugin. BadInput when nobody provides the name; HostCannot when what it needs is not installed, and when
    somebody else's cannot be imported or looked at, whatever it raises, or lacks what its group's Protocol asks for.

    Of what that has, only the names are looked at here; what it does, by the conformance tests.
    """
    return _load_cached(group, name)


@cache
def _load_cached(group: Group, name: str) -> Any:
    if name in _find_modules(group):
        try:
            return importlib.import_module(_find_modules(group)[name]).plugin
        except ImportError as error:
            raise HostCannot(
                f"{name!r} in {group} cannot be loaded: {error}",
                remedy=f"install what it needs: {describe_install(error.name or name)}",
            ) from error
    if name in _entry_points(group):
        return _load_theirs(group, name, _entry_points(group)[name])
    raise BadInput(f"there is no {name!r} in {group}", remedy=f"choose one of: {', '.join(list_names(group))}")


def _load_theirs(group: Group, name: str, point: EntryPoint) -> Any:
    try:
        plugin = point.load()
        problem = _find_problem(group, name, plugin)  # it looks at it, and what is looked at may be code of theirs too
    except (Exception, SystemExit) as error:  # a module of somebody else's may raise anything, and end us
        wish = "install what it needs" if isinstance(error, ImportError) else "ask whoever made it"
        raise _of_no_use(group, name, message_of(error), wish) from error
    if problem:
        raise _of_no_use(group, name, problem, "ask whoever made it")
    return plugin


def _of_no_use(group: Group, name: str, why: str, wish: str) -> HostCannot:
    package = package_of(group, name)
    return HostCannot(
        f"{name!r} in {group}, of the package {package}, cannot be loaded: {why}",
        remedy=f"{wish}, or do without it: pip uninstall {package}",
    )


def _find_problem(group: Group, name: str, plugin: object) -> str | None:
    """Why it cannot be what its group asks for, as far as names tell."""
    module, protocol = _PROMISES[group]
    promised = getattr(importlib.import_module(module), protocol)
    is_class = isinstance(plugin, type)
    if isinstance(plugin, ModuleType):
        return f"it is a module; its entry point has to name an object in it: {plugin.__name__}:plugin"
    if is_class != (group in ("workloads", "observers")):
        return f"it is {'a class, not an object' if is_class else 'an object, not a class'} (docs/extending.md)"
    if lacking := describe_lacking(promised, plugin):
        return lacking
    # A ledger has a machine by its environment's kind: by another name `clean` does not find who removes it.
    word = "kind" if group in ("environments", "workloads") else "name"
    own = getattr(plugin, word)
    return None if own == name else f"its {word} is {own!r}, and its entry point is called {name!r}"


class Misfit(Exception):
    """What a plugin gave is not what its Protocol promises."""


@contextmanager
def blame_package(group: Group, name: str, passes: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """HostCannot, which names the package, for what a plugin of somebody else's raises in here.

    nearmetal's own errors and those of `passes` go through. So does all that a plugin of nearmetal itself raises: that
    is a defect, of which a traceback says more.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        package = package_of(group, name)
        if package is None or isinstance(error, (NearmetalError, *passes)):
            raise
        how = f"does not fit: {error}" if isinstance(error, Misfit) else f"broke: {message_of(error)}"
        raise HostCannot(
            f"the {group[:-1]} {name!r} of the package {package} {how}",
            remedy=f"ask whoever made it (docs/extending.md), or do without it: pip uninstall {package}",
            cause="broke",
        ) from error


def describe_lacking(protocol: type, given: object) -> str | None:
    """What somebody else's object or class has not of the names that a Protocol asks for; None if it has them all."""
    parts = [part for part in protocol.__mro__ if getattr(part, "_is_protocol", False)]
    members = {name: part for part in parts for name in (*inspect.get_annotations(part), *vars(part))}
    lacks = sorted(
        name
        for name, part in members.items()
        if not name.startswith("_")
        and not hasattr(given, name)
        # What a Protocol has as a property, the objects of a class may have from their `__init__` on.
        and not (isinstance(given, type) and isinstance(vars(part).get(name), property))
    )
    return f"it is no {protocol.__name__}: it has no {shorten_list(lacks, _NAMED)}" if lacks else None
