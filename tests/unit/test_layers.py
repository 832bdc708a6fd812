"""Who imports whom: nothing in nearmetal imports, by whatever way round, what imports it.

Imports count wherever in a file they stand, and relative ones too. Those that only a type checker reads count as well
in a test of their own: files whose types refer to each other cannot be understood one after the other. Plugins are
found by name, so that they may import what finds them.
"""

import ast
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import nearmetal
from nearmetal import lab

_ROOT = Path(nearmetal.__file__).parent.parent

Graph = Mapping[str, frozenset[str]]
"""Modules by their dotted names, each with those that it imports."""


@cache
def graph(with_types: bool = False) -> Graph:
    """All modules of ours. With types: also what is imported for a type checker alone."""
    return {name: found[with_types] for name, found in _read_imports().items()}


@cache
def _read_imports() -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
    """Of each module, without and with those for types. A tree is let go at once: all of them are slow to walk."""
    files = {_dotted(file): file for file in (_ROOT / "nearmetal").rglob("*.py")}
    found = {}
    for name, file in files.items():
        tree, is_package = ast.parse(file.read_bytes()), file.name == "__init__.py"
        without, including = (imports_of(name, tree, is_package, files.keys(), types) for types in (False, True))
        found[name] = (without, including)
    return found


def _dotted(file: Path) -> str:
    return ".".join(file.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(name: str, tree: ast.AST, is_package: bool, known: Set[str], with_types: bool) -> frozenset[str]:
    """The known modules that a module imports, except itself."""
    folder = name if is_package else name.rpartition(".")[0]
    return frozenset(_named(tree, folder, known, with_types)) - {name}


def _named(tree: ast.AST, folder: str, known: Set[str], with_types: bool) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            continue  # no statement is in it, and there are most of these
        is_for_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        if is_for_types and not with_types:
            continue
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in known)
        elif isinstance(node, ast.ImportFrom) and (module := _imported_from(node, folder)) in known:
            inside = (f"{module}.{one.name}" for one in node.names)
            yield from (name if name in known else module for name in inside)
        yield from _named(node, folder, known, with_types)


def _imported_from(node: ast.ImportFrom, folder: str) -> str:
    """The dotted name behind `from … import`, dots at its beginning resolved."""
    if not node.level:
        return node.module or ""
    parts = folder.split(".")
    base = parts[: len(parts) - node.level + 1]
    return ".".join([*base, *filter(None, [node.module])])


def package(module: str) -> str:
    """Right below nearmetal."""
    return ".".join(module.split(".")[:2])


def part_of_the_lab(module: str) -> str | None:
    """A folder or file right below nearmetal.lab; None for everything else."""
    return ".".join(module.split(".")[:3]) if module.startswith("nearmetal.lab.") else None


def module(module: str) -> str:
    return module


Part = Callable[[str], str | None]


def cycle(graph: Graph, of: Part) -> list[str]:
    """One, from a part to itself again; empty where there is none."""
    parts: TopologicalSorter[str] = TopologicalSorter()
    for name, named in graph.items():
        if (part := of(name)) is not None:
            parts.add(part, *(other for other in map(of, named) if other not in (None, part)))
    try:
        parts.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("with_types", [False, True], ids=["run", "types"])
@pytest.mark.parametrize("of", [package, part_of_the_lab, module])
def test_nothing_imports_what_imports_it(of: Part, with_types: bool) -> None:
    assert len(graph()) > 300, "it looks at the wrong place"
    assert not cycle(graph(with_types), of)


def test_a_cycle_is_found() -> None:
    made_up = {"nearmetal.a.one": frozenset({"nearmetal.b.one"}), "nearmetal.b.two": frozenset({"nearmetal.a.two"})}
    assert not cycle(made_up, module)
    assert sorted(set(cycle(made_up, package))) == ["nearmetal.a", "nearmetal.b"]


def test_relative_imports_and_those_for_types_are_seen() -> None:
    text = "from . import b\nfrom .b import c\nfrom ..a import one\nif TYPE_CHECKING:\n    from . import d\n"
    known = {"nearmetal.x", "nearmetal.x.a", "nearmetal.x.b", "nearmetal.x.b.c", "nearmetal.x.d", "nearmetal.a"}
    found = imports_of("nearmetal.x.a", ast.parse(text), False, known, with_types=False)
    assert found == {"nearmetal.x.b", "nearmetal.x.b.c", "nearmetal.a"}
    assert imports_of("nearmetal.x.a", ast.parse(text), False, known, with_types=True) == {*found, "nearmetal.x.d"}
    # In a package's own file, one dot is the package itself.
    assert imports_of("nearmetal.x", ast.parse("from . import b"), True, known, with_types=False) == {"nearmetal.x.b"}


_PAGES = ("nearmetal.analysis", "nearmetal.report", "nearmetal.dashboard", "nearmetal.studies")
_FINDS_SECTIONS = "nearmetal.report.chapters"
"""Chapters of a report are plugins, of ours and of others."""
_RESOLVES_VERSION_1 = "nearmetal.store.upgrade"
"""A manifest of version 1 has the study alone. What its treatments meant is found as it was found then."""
_NOT_OF_THE_RUN = frozenset({"nearmetal.plugins", "nearmetal.study.factors"})
"""What is installed now, and what a study file would mean now: a run's folder says both as they were."""


def ways_to(graph: Graph, starts: Iterable[str], ends: Set[str], without: Set[str] = frozenset()) -> list[str]:
    """For each start that comes to an end by imports, one shortest way: "a > b > c"."""
    found = []
    for start in starts:
        ways = {start: start}
        waiting = deque([start])
        while waiting and not ends & ways.keys():
            one = waiting.popleft()
            for other in sorted(graph.get(one, frozenset()) - ways.keys() - without):
                ways[other] = f"{ways[one]} > {other}"
                waiting.append(other)
        found += [ways[end] for end in sorted(ends & ways.keys())]
    return found


def test_pages_are_made_from_the_folder_of_the_run_alone() -> None:
    pages = (name for name in graph() if package(name) in _PAGES and name != _FINDS_SECTIONS)
    assert ways_to(graph(), pages, _NOT_OF_THE_RUN, {_FINDS_SECTIONS, _RESOLVES_VERSION_1}) == []


def test_a_way_is_found_over_other_modules() -> None:
    made_up = {name: frozenset(others) for name, others in {"a": "b", "b": "cd", "c": "", "d": "a"}.items()}
    assert ways_to(made_up, "ac", {"d"}) == ["a > b > d"]
    assert ways_to(made_up, "a", {"d"}, without={"b"}) == []


def test_the_lab_says_which_folders_it_has() -> None:
    folders = {file.parent.name for path in lab.__path__ for file in Path(path).glob("*/__init__.py")}
    words = set((lab.__doc__ or "").replace(",", " ").replace(".", " ").split())
    assert folders
    assert not folders - words


def test_the_page_of_folders_names_each_and_no_other() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs/architecture.md").read_text("utf-8")
    picture, inside, beside, crates = re.findall(r"^```text\n[\s\S]*?^```|(?:^\|.*\n)+", page, re.MULTILINE)
    drawn = set(re.findall(r"\b([a-z_]+)/", picture))
    named = set(re.findall(r"`([a-z_/]+)/`", inside.partition("---")[2]))
    others = re.findall(r"`(probe/[a-z]+)`", crates) + re.findall(r"`([a-z_]+)/` \|$", beside, re.MULTILINE)
    packages = {file.parent.name for file in (_ROOT / "nearmetal").glob("*/__init__.py")}
    assert drawn <= named and packages <= named
    assert [name for name in named if not (_ROOT / "nearmetal" / name).is_dir()] == []
    assert len(others) > 8 and [name for name in others if not (root / name).is_dir()] == []
    assert {f"probe/{file.parent.name}" for file in (root / "probe").glob("*/Cargo.toml")} - {*others} == {"probe/fuzz"}


def test_a_handles_data_is_read_by_its_plugin_alone() -> None:
    """And by the folder of the lab that the plugin is made of. Others read the fields of the handle."""
    makers = {"borrowed", "containers", "networks", "qemu"}
    readers = {
        _dotted(file)
        for file in (_ROOT / "nearmetal").rglob("*.py")
        if b".data" in (content := file.read_bytes())
        for node in ast.walk(ast.parse(content))
        if isinstance(node, ast.Attribute) and node.attr == "data"
        if isinstance(node.value, ast.Name | ast.Attribute) and "handle" in ast.unparse(node.value)
    }
    assert readers, "it looks for the wrong name"
    theirs = ("nearmetal.environments.", *(f"nearmetal.lab.{folder}." for folder in makers))
    assert [reader for reader in sorted(readers) if not reader.startswith(theirs)] == []
