"""What plugins of other packages and scripts may rely on, as text: names with signatures, and the fields of types.

It is read from the source, so that it is the same whatever Python runs the tests, and nothing has to be imported. To
keep what a change makes of it, also in the changelog:

    python -m tests.surface
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nearmetal

FRONTS = (
    "nearmetal",
    "nearmetal.opened_run",
    "nearmetal.errors",
    "nearmetal.lab.api",
    "nearmetal.model",
    "nearmetal.report.api",
)
KEPT = Path(__file__).parent / "golden" / "surface"
_ROOT = Path(nearmetal.__file__).parent.parent
_SHOWN = ("__init__", "__str__")
"""Of the names that begin with an underscore."""


@dataclass(frozen=True)
class Definition:
    """Where a name is defined, and how."""

    module: str
    name: str
    node: ast.stmt

    @property
    def is_documented(self) -> bool:
        """Whether a function or a class has a docstring. What else there is has its name."""
        node = self.node
        documented = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return not isinstance(node, documented) or ast.get_docstring(node) is not None


def kept(front: str) -> Path:
    return KEPT / f"{front}.txt"


def names(front: str) -> list[str]:
    """What `__all__` says; else what the module defines, and what it passes on by `import NAME as NAME`."""
    body = list(_statements(front))
    for node in body:
        if isinstance(node, ast.Assign) and _targets(node) == ["__all__"]:
            return sorted(name for name in ast.literal_eval(node.value) if not name.startswith("_"))
    defined = [name for node in body for name in _targets(node)]
    imported = [one for node in body if isinstance(node, ast.ImportFrom) for one in node.names]
    passed_on = [one.name for one in imported if one.asname == one.name]
    return sorted(name for name in (*defined, *passed_on) if not name.startswith("_"))


def find_definition(module: str, name: str) -> Definition:
    """The one that a name of a module leads to, over imports. LookupError."""
    for node in _statements(module):
        if name in _targets(node):
            return Definition(module, name, node)
        if isinstance(node, ast.ImportFrom):
            for one in node.names:
                if name == (one.asname or one.name):
                    return find_definition(_imported_from(module, node), one.name)
    raise LookupError(f"{module} has no {name}")


def _imported_from(module: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".") if _file(module).name == "__init__.py" else module.split(".")[:-1]
    return ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])


def render(front: str) -> str:
    """All of a front, a definition after the other."""
    return "\n".join("\n".join(_rendered(name, find_definition(front, name))) + "\n" for name in names(front))


def _rendered(name: str, found: Definition) -> Iterator[str]:
    node = found.node
    if isinstance(node, ast.ClassDef):
        yield from (f"@{ast.unparse(one)}" for one in node.decorator_list)
        bases = ", ".join(base for base in map(ast.unparse, node.bases) if not base.startswith("_"))
        yield f"class {name}({bases}):" if bases else f"class {name}:"
        yield from (f"    {line}" for one in node.body for line in _member(one))
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield _signature(name, node)
    else:
        yield ast.unparse(node).replace(found.name, name, 1)


def _member(node: ast.stmt) -> Iterator[str]:
    if not all(name in _SHOWN or not name.startswith("_") for name in _targets(node)):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from (f"@{ast.unparse(one)}" for one in node.decorator_list)
        yield _signature(node.name, node)
    elif isinstance(node, ast.AnnAssign | ast.Assign):
        yield ast.unparse(node)


def _signature(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{word} {name}({ast.unparse(node.args)}){returned}"


def mentioned(found: Definition) -> set[str]:
    """Names of types that a definition's signatures and fields are written with."""
    node = found.node
    members = node.body if isinstance(node, ast.ClassDef) else [node]
    public = [one for one in members if all(not name.startswith("_") for name in _targets(one)) or one is node]
    return {word for one in public for annotation in _annotations(one) for word in _words(annotation)}


def _annotations(node: ast.stmt) -> Iterator[ast.expr]:
    if isinstance(node, ast.AnnAssign):
        yield node.annotation
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = node.args
        every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        yield from (one.annotation for one in every if one is not None and one.annotation is not None)
        if node.returns is not None:
            yield node.returns


def _words(annotation: ast.expr) -> Iterator[str]:
    if isinstance(annotation, ast.Name):
        yield annotation.id
    elif isinstance(annotation, ast.Constant):
        if isinstance(annotation.value, str):
            yield from _words(ast.parse(annotation.value, mode="eval").body)
    elif isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        assert isinstance(annotation.slice, ast.Tuple)
        yield from _words(annotation.slice.elts[0])  # the rest says how it is validated
    elif not (isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Literal"):
        for node in ast.iter_child_nodes(annotation):
            if isinstance(node, ast.expr):
                yield from _words(node)


def _targets(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [ast.unparse(node.target)]
    return [ast.unparse(target) for target in node.targets] if isinstance(node, ast.Assign) else []


def _statements(module: str) -> Iterator[ast.stmt]:
    """Those at the top, and those there for a type checker alone."""
    for node in _parsed(module):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from node.body
        else:
            yield node


@cache
def _parsed(module: str) -> list[ast.stmt]:
    return ast.parse(_file(module).read_bytes()).body


def _file(module: str) -> Path:
    path = _ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def imports_of(file: Path) -> Mapping[str, set[str]]:
    """Modules of nearmetal that a file imports from, each with the names."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "nearmetal":
            found.setdefault(str(node.module), set()).update(one.name for one in node.names)
        elif isinstance(node, ast.Import):
            found.update({one.name: set() for one in node.names if one.name.partition(".")[0] == "nearmetal"})
    return found


if __name__ == "__main__":
    for front in FRONTS:
        kept(front).parent.mkdir(exist_ok=True)
        kept(front).write_text(render(front))
    sys.stdout.write(f"{len(FRONTS)} files in {KEPT}\n")
