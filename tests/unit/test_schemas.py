"""The schemas in the repository are those of the models, and real files meet them."""

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from nearmetal import schemas, studies
from nearmetal.report.write import render
from nearmetal.store.run_folder import RunFolder, render_manifest
from tests.golden.make_run import FOLDER

KEPT = Path(__file__).parents[2] / "schemas" / "run"
DOCUMENTS = schemas.list_documents()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_kept_schema_is_the_models(name: str) -> None:
    renew = "renew them: python -m nearmetal.schemas schemas/run"
    schema = DOCUMENTS[name]
    Draft202012Validator.check_schema(schema)
    assert (KEPT / f"{name}.json").read_text() == schemas.to_text(schema), renew


def test_each_key_of_a_study_is_described() -> None:
    schema = DOCUMENTS["study.v1"]
    tables = {"Study": schema, **schema["$defs"]}
    keys = {f"{name}.{key}": found for name, table in tables.items() for key, found in table["properties"].items()}
    assert len(keys) > 100 and [name for name, found in keys.items() if not found.get("description")] == []


@pytest.mark.parametrize("name", studies.list_names())
def test_built_in_studies_meet_the_schema(name: str) -> None:
    Draft202012Validator(DOCUMENTS["study.v1"]).validate(tomllib.loads(studies.read_study_file(name)))


def test_a_golden_run_meets_the_schemas() -> None:
    run = RunFolder(FOLDER)
    meets = {name: Draft202012Validator(schema) for name, schema in DOCUMENTS.items()}
    meets["manifest.v2"].validate(json.loads(render_manifest(run.read_manifest())))
    meets["analysis.v1"].validate(json.loads(render(run, "json")))
    for line in map(json.loads, run.journal.read_text().splitlines()):
        if line["schema"] == "record.v1":  # which lacks what came with version 2, and has the rest
            line["schema"] = "record.v2"
        meets[line["schema"]].validate(line)
