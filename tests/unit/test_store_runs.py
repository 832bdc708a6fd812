"""Which runs are known: wherever they were put, and however damaged some of them are."""

import shutil
from pathlib import Path

import pytest

from nearmetal.errors import BadInput
from nearmetal.store import runs
from nearmetal.store.run_folder import RunFolder

GOLDEN = Path(__file__).parents[1] / "golden" / "run"


def make(path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, path))


def test_one_bad_folder_does_not_hide_the_others(tmp_path: Path) -> None:
    make(tmp_path / "a")
    (make(tmp_path / "b") / "manifest.json").write_text("{")
    with (make(tmp_path / "c") / "journal.jsonl").open("a") as journal:
        journal.write("nonsense\n")
    (make(tmp_path / "d") / "manifest.json").unlink()
    make(tmp_path / "e")
    (tmp_path / "no-run").mkdir()
    (tmp_path / "file").touch()
    listed, unreadable = runs.list_entries(runs.find_runs(tmp_path))
    assert [one.run for one in listed] == [str(tmp_path / "a"), str(tmp_path / "e")]
    assert all((one.study, one.trials > 0, one.planned > 0) == ("golden", True, True) for one in listed)
    reasons = {Path(one.run).name: one.reason for one in unreadable}
    assert reasons.keys() == {"b", "c", "d"}
    assert reasons["b"].startswith("manifest.json: the run's manifest cannot be read: it is not JSON")
    assert "journal.jsonl: line " in reasons["c"]
    assert reasons["d"] == "manifest.json: the run's manifest is missing"


def test_a_folder_that_is_a_run_itself(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    assert runs.find_runs(run) == [run]


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such folder"):
        runs.find_runs(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="this is a file, not a folder"):
        runs.find_runs(tmp_path / "file")


def test_what_was_put_elsewhere_is_remembered_until_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    state = tmp_path / "state"
    assert runs.list_remembered(state) == []
    one, two = make(tmp_path / "one"), make(tmp_path / "elsewhere" / "two")
    for place in (Path("one"), two, one):
        runs.remember_run(place, state)
    assert runs.list_remembered(state) == [two, one]
    shutil.rmtree(two)
    assert runs.list_remembered(state) == [one]
    runs.remember_run(one, state)
    assert "two" not in (state / "runs.json").read_text()


@pytest.mark.parametrize("content", [b"", b"{", b"5", b"[5, null]", b"\xff"])
def test_an_index_that_cannot_be_read_is_none_and_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "runs.json").write_bytes(content)
    assert runs.list_remembered(tmp_path) == []
    run = make(tmp_path / "run")
    runs.remember_run(run, tmp_path)
    assert runs.list_remembered(tmp_path) == [run]


def test_a_run_that_is_known_twice_is_listed_once(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    (tmp_path / "link").symlink_to(run)
    listed, _ = runs.list_entries([run, tmp_path / "link", run])
    assert len(listed) == 1


def test_what_is_no_run_is_told_from_a_run_without_its_manifest(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    run = make(tmp_path / "run")
    (run / "manifest.json").unlink()
    for name, what in (
        ("nowhere", "there is no such folder"),
        ("file", "this is an empty file, and neither a run's folder nor a bundle"),
        ("empty", "this is not a run's folder"),
        ("run", "the run's manifest is missing"),
    ):
        with pytest.raises(BadInput, match=what):
            RunFolder.open(tmp_path / name)
