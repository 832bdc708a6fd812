"""The manual's chapter on pretended machines names every option that they take and every program that they answer."""

import json
from pathlib import Path

from nearmetal.environments.mock import Options
from nearmetal.lab.mock.programs import PROGRAMS
from nearmetal.lab.mock.world import _SYSCTLS

ROOT = Path(__file__).parents[2]
CHAPTER = (ROOT / "docs" / "environments.md").read_text().split("\n## mock\n", 1)[1].split("\n## ", 1)[0]


def test_each_option_has_a_row_with_its_default() -> None:
    rows = [line.split("|")[1:3] for line in CHAPTER.splitlines() if line.startswith("| `")]
    told = {name.strip(" `"): default.strip(" `") for name, default in rows}
    written = {name: json.dumps(field.default) for name, field in Options.model_fields.items()}
    assert told == {name: "none" if default == "null" else default for name, default in written.items()}


def test_each_program_is_named_and_each_sysctl() -> None:
    assert [name for name in (*PROGRAMS, *_SYSCTLS) if f"`{name}`" not in CHAPTER] == []
