"""The notebooks of docs/: executed cell by cell, as a kernel would, and what they print put into them.

python -m tests.notebooks      execute them, and write what they print

A kernel (ipykernel, nbclient and forty packages) would do the same: their cells are plain Python without magic.
"""

import ast
import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"


def list_notebooks() -> list[Path]:
    return sorted(FOLDER.glob("*.ipynb"))


def read_notebook(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return notebook


def execute_cell(source: str, names: dict[str, Any]) -> str:
    """What it prints, and then its last expression's value unless that is None."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
            if value is not None:
                print(repr(value))
    return printed.getvalue()


def execute_notebook(notebook: dict[str, Any], folder: Path) -> list[str]:
    """What each of its cells of code prints. They run in one namespace, and in this folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        return [execute_cell("".join(cell["source"]), names) for cell in cells]


def write_outputs(path: Path) -> None:
    """Execute a notebook, and put what it prints into its file."""
    notebook = read_notebook(path)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setenv("NEARMETAL_HOME", str(Path(folder) / "home"))
        printed = execute_notebook(notebook, Path(folder))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, text) in enumerate(zip(cells, printed, strict=True), 1):
        cell["execution_count"] = number
        stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
        cell["outputs"] = [stream] if text else []
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    for one in list_notebooks():
        write_outputs(one)
