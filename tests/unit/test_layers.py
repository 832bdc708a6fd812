"""Who imports whom: nothing in nearmetal imports, by whatever way round, what imports it.

Counted is what is imported when something runs, wherever in a file that is written; what only a type checker reads is
not. Plugins are found by name, and so may import whatever finds them.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import nearmetal
from nearmetal import lab

_ROOT = Path(nearmetal.__file__).parent.parent


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Each module of ours by its dotted name, with those that it imports."""
    files = {_dotted(file): file for file in (_ROOT / "nearmetal").rglob("*.py")}
    return {
        name: frozenset(named for named in _named(ast.parse(file.read_bytes()), files) if named != name)
        for name, file in files.items()
    }


def _dotted(file: Path) -> str:
    return ".".join(file.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__")


def _named(tree: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module in known:
            inside = (f"{node.module}.{one.name}" for one in node.names)
            yield from (name if name in known else node.module for name in inside)
        yield from _named(node, known)


def package(module: str) -> str:
    """Right below nearmetal."""
    return ".".join(module.split(".")[:2])


def part_of_the_lab(module: str) -> str | None:
    """A folder or file right below nearmetal.lab; None for everything else."""
    return ".".join(module.split(".")[:3]) if module.startswith("nearmetal.lab.") else None


def module(module: str) -> str:
    return module


Part = Callable[[str], str | None]


def cycle(graph: Mapping[str, frozenset[str]], of: Part) -> list[str]:
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


@pytest.mark.parametrize("of", [package, part_of_the_lab, module])
def test_nothing_imports_what_imports_it(of: Part) -> None:
    assert len(imports()) > 300, "it looks at the wrong place"
    assert not cycle(imports(), of)


def test_a_cycle_is_found() -> None:
    graph = {"nearmetal.a.one": frozenset({"nearmetal.b.one"}), "nearmetal.b.two": frozenset({"nearmetal.a.two"})}
    assert not cycle(graph, module)
    assert sorted(set(cycle(graph, package))) == ["nearmetal.a", "nearmetal.b"]


def test_the_lab_says_which_folders_it_has() -> None:
    folders = {file.parent.name for path in lab.__path__ for file in Path(path).glob("*/__init__.py")}
    words = set((lab.__doc__ or "").replace(",", " ").replace(".", " ").split())
    assert folders
    assert not folders - words
