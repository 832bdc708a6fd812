"""The reference of the study file names every key with its default, and its examples are studies."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from nearmetal import model
from nearmetal.planning import noise_evidence, plan
from nearmetal.study import study_file
from nearmetal.study.error_messages import MOST_TRIALS, keys_of
from nearmetal.units import _RATES, _SIZES, _TIMES, AS_WRITTEN

MANUAL = (Path(__file__).parents[2] / "docs" / "study-file.md").read_text()
EXAMPLES = re.findall(r"```toml\n(.*?)```", MANUAL, re.DOTALL)

TABLES: list[tuple[str, str, type[BaseModel], dict[str, Any]]] = [
    ("The top of the file", "key", model.Study, {}),
    ("Factors", "key", model.FactorSpec, {"levels": [1]}),
    ("[environments.NAME]", "key", model.EnvironmentSpec, {"kind": "mock"}),
    ("[machine]", "key", model.MachineSpec, {}),
    ("[clients]", "key", model.ClientsSpec, {}),
    ("[link]", "key", model.LinkSpec, {}),
    ("[hosts.NAME]", "key", model.HostSpec, {"ssh": "a"}),
    ("[observe]", "key", model.ObserveSpec, {}),
    ("[observe]", "key of `capture`", model.CaptureSpec, {}),
    ("[services.NAME]", "key", model.ServiceSpec, {"start": ["x"], "port": 1}),
    ("[[workloads]]", "key", model.WorkloadSpec, {"name": "w", "kind": "http"}),
    ("[design]", "key", model.DesignSpec, {}),
    ("[design]", "key of `blocks`", model.SequentialBlocks, {}),
]


def rows(chapter: str, heading: str) -> dict[str, str]:
    """Key to what the manual says its default is."""
    text = MANUAL.split(f"\n## {chapter}\n", 1)[1].split("\n## ", 1)[0]
    table = text.split(f"| {heading} | default |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {key.strip("`"): default for key, default, _ in cells}


@pytest.mark.parametrize(("chapter", "heading", "table", "required"), TABLES)
def test_every_key_is_there_with_its_default(
    chapter: str, heading: str, table: type[BaseModel], required: dict[str, Any]
) -> None:
    documented = rows(chapter, heading)
    assert list(documented) == keys_of(table)
    for key, field in table.model_fields.items():
        told = documented[key]
        if field.default is PydanticUndefined:
            assert told == "required"
        elif field.default is None:
            assert told == "none"
        elif isinstance(field.default, BaseModel):
            assert told == "table"
        elif table is model.Study:
            assert tomllib.loads(f"x = {told.strip('`')}")["x"] == field.default
        else:
            written = {**required, key: tomllib.loads(f"x = {told.strip('`')}")["x"]}
            assert getattr(table.model_validate(written, context=AS_WRITTEN), key) == field.default


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_is_a_study(text: str) -> None:
    assert plan.make_plan(noise_evidence.open_number(study_file.read(text, "example.toml"))).contrasts
    if "[quick" in text:
        assert study_file.read(text, "example.toml", quick=True).design.blocks == 2


def test_the_examples_show_crossed_and_nested_factors() -> None:
    found = study_file.read(EXAMPLES[1], "nic-models.toml")
    assert len(plan.make_plan(found).treatments) == 2 * 2 * (1 + 1 + 2)


def test_every_unit_is_named() -> None:
    units = " ".join(MANUAL.split("**Quantities carry units**:", 1)[1].split("%", 1)[0].split())
    for known in (_SIZES, _TIMES, _RATES):
        assert f"`{' '.join(known)}`" in units


def test_the_largest_study_is_named() -> None:
    assert f"more than {MOST_TRIALS:,} trials" in " ".join(MANUAL.split())
