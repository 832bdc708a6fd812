"""`nearmetal.run_study`: a study measured from a script, on the mock."""

import asyncio
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

import nearmetal
from nearmetal.errors import BadInput, HostCannot
from nearmetal.measured_study import render_toml
from nearmetal.store.run_folder import RunFolder
from tests.order import mock_run

MAPPING = tomllib.loads(mock_run.STUDY)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "home"))


def test_a_mapping_is_measured_and_its_run_can_be_read_and_measured_again(tmp_path: Path) -> None:
    run = nearmetal.run_study(MAPPING, tmp_path / "run", blocks=3, seed=7)
    assert run.path == tmp_path / "run"
    rows = run.trials("rows")
    assert {row["block"] for row in rows} == {0, 1, 2}
    assert {row["environment"] for row in rows} == {"base", "slow"}
    manifest = RunFolder(tmp_path / "run").read_manifest()
    assert manifest.study.design.seed == 7
    assert tomllib.loads(manifest.source) == MAPPING, "what the run keeps is a study file"
    with pytest.raises(BadInput):
        nearmetal.run_study(MAPPING, tmp_path / "run")


def test_a_file_is_measured_where_the_command_line_would_put_it(tmp_path: Path) -> None:
    file = tmp_path / "order.toml"
    file.write_text(mock_run.STUDY)
    run = nearmetal.run_study(file)
    assert run.path.name == "order-1"
    assert len(run.contrasts("rows")) > 0


@pytest.mark.parametrize(
    ("study", "what"),
    [
        ({**MAPPING, "factors": {"environment": ["base", "slow"], "vcpu": [1, 2]}}, "vcpu"),
        ({**MAPPING, "name": None}, "name: a study has no value such as None"),
        (dict[Any, Any](MAPPING) | {1: "one"}, "1 is not the name of a key"),
        ("quickstrat", "quickstrat"),
    ],
)
def test_what_is_no_study_is_refused_before_anything_is_made(study: Any, what: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=what):
        nearmetal.run_study(study, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_ordinary_user_is_told_what_makes_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    study = {**MAPPING, "reference": {"environment": "host"}, "factors": {"environment": ["host", "qemu"]}}
    study |= {"environments": {}, "clients": {}}
    with pytest.raises(HostCannot, match="user namespace") as refused:
        nearmetal.run_study(study, tmp_path / "run")
    assert "nearmetal run STUDY" in refused.value.remedy
    assert not (tmp_path / "run").exists()
    nearmetal.run_study(MAPPING, tmp_path / "run", blocks=1)


def test_inside_an_event_loop_it_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        nearmetal.run_study(MAPPING, tmp_path / "run")

    with pytest.raises(HostCannot, match="event loop"):
        asyncio.run(run())


_VALUES = some.recursive(
    some.booleans() | some.integers(-(2**63), 2**63 - 1) | some.floats(allow_nan=False) | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=8,
)


@given(some.dictionaries(some.text(), _VALUES, max_size=4))
def test_what_is_written_as_toml_is_read_back(document: Mapping[str, Any]) -> None:
    assert tomllib.loads(render_toml(document)) == document
