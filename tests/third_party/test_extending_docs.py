"""Every block of code in docs/extending.md is what one of the packages says, letter by letter."""

import re
from pathlib import Path

import pytest

from nearmetal import plugins

HERE = Path(__file__).parent
MANUAL = (HERE.parents[1] / "docs" / "extending.md").read_text()
BLOCKS = re.findall(r"<!-- (\S+) -->\n```\w+\n(.*?)```\n", MANUAL, re.DOTALL)


@pytest.mark.parametrize(("file", "code"), BLOCKS, ids=[f"{file}:{code[:20].strip()}" for file, code in BLOCKS])
def test_each_block_stands_in_the_package(file: str, code: str) -> None:
    assert code in (HERE / "nearmetal-example" / file).read_text()


def test_no_block_has_another_origin() -> None:
    assert len(BLOCKS) == MANUAL.count("\n```") / 2
    written = {path.name for path in HERE.glob("nearmetal-*/**/*.*") if path.suffix in (".py", ".toml")}
    assert {Path(file).name for file, _ in BLOCKS} == written - {"__init__.py"}


def test_every_group_is_explained() -> None:
    for group, package in plugins._PACKAGES.items():
        assert f"| `{group}` | `{package.replace('.', '/')}/`" in MANUAL
        assert f" | `nearmetal.{group}` |" in MANUAL
