"""What makes `resume` refuse: that what is installed now would run something else than what was planned."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearmetal import plugins
from nearmetal.errors import BadInput, HostCannot
from nearmetal.model import PluginVersion
from nearmetal.run import study_execution
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.resolve import resolve_treatments
from nearmetal.study.study_file import read
from tests import journals
from tests.order import mock_run


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEARMETAL_HOME", str(folder.parent / "home"))
        asyncio.run(mock_run.run(folder))
    return folder


def changed(kept: Path, place: Path, change: Callable[[dict[str, Any]], object]) -> RunFolder:
    place.mkdir()
    for name in ("manifest.json", "journal.jsonl"):
        shutil.copy(kept / name, place)
    with journals.changed_manifest(place) as manifest:
        change(manifest)
    return RunFolder(place)


def refusal(folder: RunFolder) -> str:
    with pytest.raises(BadInput) as error:
        study_execution.refuse_changed_plan(folder, folder.read_manifest())
    assert error.value.remedy
    return error.value.what


def test_a_run_as_it_was_planned_goes_on(kept: Path) -> None:
    folder = RunFolder(kept)
    study_execution.refuse_changed_plan(folder, folder.read_manifest())


def test_trials_that_would_have_other_names(kept: Path, tmp_path: Path) -> None:
    folder = changed(kept, tmp_path / "run", lambda manifest: manifest.update(trial_ids="0" * 64))
    assert "its trials are not those" in refusal(folder)


def test_treatments_that_would_be_others(kept: Path, tmp_path: Path) -> None:
    def faster(manifest: dict[str, Any]) -> None:
        manifest["study"]["environments"]["slow"]["speed"] = 0.25

    assert "its environment is not as it was planned" in refusal(changed(kept, tmp_path / "run", faster))


def test_options_that_the_kind_does_not_take_any_more(kept: Path, tmp_path: Path) -> None:
    def misspelt(manifest: dict[str, Any]) -> None:
        manifest["study"]["environments"]["slow"]["sped"] = 0.5

    assert "`sped`" in refusal(changed(kept, tmp_path / "run", misspelt))


def test_a_study_with_a_treatment_of_no_level(kept: Path, tmp_path: Path) -> None:
    def odd(manifest: dict[str, Any]) -> None:
        manifest["study"]["machine"]["odd"] = {}

    assert "its study means nothing any more" in refusal(changed(kept, tmp_path / "run", odd))


def test_a_plugin_of_another_version_is_told(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = RunFolder(kept).read_manifest()
    before = PluginVersion(group="workloads", plugin="http", distribution="theirs", version="1.0")
    older = manifest.model_copy(update={"plugins": (before,)})
    (told,) = study_execution.find_other_plugins(older).values()
    assert told[0] == "1.0"
    assert study_execution.find_other_plugins(manifest) == {}
    now = before.model_copy(update={"version": "2.0"})
    monkeypatch.setattr(study_execution, "collect_plugins", lambda _: (now,))
    assert study_execution.find_other_plugins(older) == {"the plugin http of theirs": ("1.0", "2.0")}


def test_a_kind_that_describes_no_family_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    study = read(mock_run.STUDY, "s.toml")
    monkeypatch.setattr(plugins, "package_of", lambda group, name: "theirs")
    monkeypatch.setattr(type(plugins.load("environments", "mock")), "describe", lambda self, options, spec: None)
    with pytest.raises(HostCannot, match="of the package theirs does not fit: its `describe` returns no Description"):
        resolve_treatments(study)
