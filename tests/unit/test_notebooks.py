"""The notebooks of the documentation run from their first cell to their last, and print what they show."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.notebooks import FOLDER, execute_cell, execute_notebook, list_notebooks, read_notebook


@pytest.mark.parametrize("path", list_notebooks(), ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mended by `python -m tests.notebooks`. Nobody looks at the pictures of its reports."""

    def run_forked(command: list[str], **_: Any) -> Any:
        assert command[1:3] == ["-m", "nearmetal"]
        ended = fork_server.run(*command[3:], patience=120, one_picture=True)
        ended.check_returncode()
        return ended

    monkeypatch.setattr(subprocess, "run", run_forked)
    notebook = read_notebook(path)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    shown = ["".join(line for output in cell["outputs"] for line in output["text"]) for cell in cells]
    assert execute_notebook(notebook, tmp_path) == shown
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))


def test_there_are_two_and_pages_lead_to_them() -> None:
    assert [path.stem for path in list_notebooks()] == ["regression", "replication"]
    page = (FOLDER.parent / "how-to" / "pandas-polars-r.md").read_text("utf-8")
    assert all(f"(../notebooks/{path.name})" in page for path in list_notebooks())


def test_a_cell_prints_and_ends_with_its_value() -> None:
    names: dict[str, object] = {}
    assert execute_cell("x = 1\nprint('so')\nx + 1", names) == "so\n2\n"
    assert execute_cell("x", names) == "1\n"
    assert execute_cell("None", names) == ""
    with pytest.raises(ZeroDivisionError):
        execute_cell("x / 0", names)
