"""Pages of the manual are found from the page that lists them, and every built-in study in its table."""

import os
import re
from pathlib import Path

from nearmetal import studies
from tests.unit.test_docs_site import read_nav

ROOT = Path(__file__).parents[2]


def test_each_task_and_each_page_of_the_reference_is_found_from_its_list() -> None:
    nav = read_nav()
    for tab, index in (("How to", "how-to/index.md"), ("Reference", "reference/index.md")):
        text = (ROOT / "docs" / index).read_text()
        linked = {Path(os.path.normpath(Path(index).parent / path)) for path in re.findall(r"\]\(([^)#]+)", text)}
        assert [page for page in nav[tab] if page != index and Path(page) not in linked] == []


def test_what_most_people_ask_is_one_step_from_the_start() -> None:
    pages = ("services.md", "how-to/two-kernels.md", "how-to/pandas-polars-r.md", "gate-in-ci.md")
    asked = (*pages, "how-to/without-root.md", "how-to/two-servers.md")
    start, readme = ((ROOT / page).read_text() for page in ("docs/index.md", "README.md"))
    assert [page for page in asked if f"]({page})" not in start or f"](docs/{page})" not in readme] == []


def test_each_built_in_study_has_a_row() -> None:
    manual = (ROOT / "docs" / "studies.md").read_text()
    assert [name for name in studies.list_names() if f"\n| `{name}` | " not in manual.split("\n## ", 1)[0]] == []
