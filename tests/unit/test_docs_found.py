"""Every page of the manual is found from the README, every built-in study and exit code in their tables."""

from pathlib import Path

from nearmetal import studies
from nearmetal.errors import ExitCode

ROOT = Path(__file__).parents[2]


def test_each_page_has_a_row() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [page.name for page in sorted((ROOT / "docs").glob("*.md")) if f"](docs/{page.name})" not in readme] == []


def test_each_built_in_study_has_a_row() -> None:
    manual = (ROOT / "docs" / "studies.md").read_text()
    assert [name for name in studies.names() if f"\n| `{name}` | " not in manual.split("\n## ", 1)[0]] == []


def test_each_exit_code_has_a_row() -> None:
    manual = (ROOT / "docs" / "tutorial.md").read_text()
    assert [code for code in ExitCode if f"\n| {code.value} | " not in manual] == []
