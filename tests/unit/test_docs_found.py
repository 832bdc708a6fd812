"""Every page of the manual is found from the README."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_page_has_a_row() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [page.name for page in sorted((ROOT / "docs").glob("*.md")) if f"](docs/{page.name})" not in readme] == []
