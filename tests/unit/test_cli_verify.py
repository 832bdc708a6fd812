"""`nearmetal verify`: all that is damaged in a run's folder is named, and nothing of a whole one."""

import asyncio
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from nearmetal import cli, schemas
from nearmetal.commands.runs import _print_verification
from nearmetal.store.verify import Verification, verify
from tests import journals, plausible_run
from tests.order import mock_run

JOURNAL, MANIFEST = "journal.jsonl", "manifest.json"
GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEARMETAL_HOME", str(folder.parent / "home"))
        asyncio.run(mock_run.run(folder))
    return folder


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "run"))


def look(run: Path) -> Verification:
    return verify(run, lambda _: None)


def damages(run: Path) -> list[tuple[str, str]]:
    found = look(run)
    assert found.is_whole == (not found.damaged)
    return [(one.file, one.what) for one in found.damaged]


def first_artifact(run: Path) -> Path:
    return min((run / "artifacts").rglob("load-0.json"))


def test_a_measured_run_is_whole(run: Path) -> None:
    found = look(run)
    assert (found.is_whole, found.trials, found.without_checksum, found.unknown) == (True, 4, 0, ())
    assert found.lines == len((run / JOURNAL).read_bytes().splitlines()) > 4
    assert found.artifacts == len([file for file in (run / "artifacts").rglob("*") if file.is_file()]) >= 4


@pytest.mark.parametrize("name", ["kinds", "published"])
def test_a_run_of_an_earlier_version_is_whole_as_far_as_can_be_told(name: str) -> None:
    found = look(GOLDEN / name)
    assert (found.is_whole, found.without_checksum) == (True, found.lines)


def test_a_run_with_repeated_blocks_is_whole(tmp_path: Path) -> None:
    found = look(plausible_run.make(tmp_path / "run").path)
    assert (found.is_whole, found.trials) == (True, 8 * 6 + 2 * 6)


def test_each_flipped_bit_of_any_of_its_files_is_told(run: Path) -> None:
    """Any of a few hundred, over all that it holds."""
    for file in sorted(path for path in run.rglob("*") if path.is_file()):
        whole = file.read_bytes()
        for bit in range(0, 8 * len(whole), max(1, 8 * len(whole) // 60)):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            file.write_bytes(flipped)
            assert str(file.relative_to(run)) in {name for name, _ in damages(run)}, (file, bit)
        file.write_bytes(whole)
    assert damages(run) == []


def test_two_lines_that_are_damaged_are_both_told(run: Path) -> None:
    lines = (run / JOURNAL).read_bytes().splitlines(keepends=True)
    for number in (1, len(lines) - 1):
        lines[number] = lines[number].replace(b'"at_ns":1', b'"at_ns":2', 1).replace(b'"record.v2"', b'"record.v9"', 1)
    (run / JOURNAL).write_bytes(b"".join(lines))
    changed = "cannot be read: it was changed after it was written: its checksum is another"
    told = [what for _, what in damages(run)]
    assert [what for what in told if changed in what] == [f"line 2 {changed}", f"line {len(lines)} {changed}"]


def drop(lines: list[dict[str, Any]]) -> None:
    del lines[next(number for number, line in enumerate(lines) if line["schema"] == "record.v2")]


def drop_block(lines: list[dict[str, Any]]) -> None:
    lines[:] = [line for line in lines if line.get("block", line.get("trial", {}).get("block")) != 1]


def twice(lines: list[dict[str, Any]]) -> None:
    record = next(line for line in lines if line["schema"] == "record.v2")
    lines.insert(lines.index(record) + 1, record)


def change_first(path: str, value: object) -> Callable[[list[dict[str, Any]]], None]:
    def change(lines: list[dict[str, Any]]) -> None:
        record = next(line for line in lines if line["schema"] == "record.v2")
        record["trial"][path] = value

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (drop, "ends a block of which 1 of 2 trials have no line"),
        (drop_block, "block 2 has no line, though the run has come to its end"),
        (twice, "is of the same trial as line"),
        (change_first("id", "0" * 16), "is of no trial of the plan"),
        (change_first("block", 7), "is of no trial of the plan"),
        (change_first("workload", "other"), "has the id of another trial of the plan"),
        (change_first("attempt", 1), "repeats a block of which no trial went wrong before"),
    ],
)
def test_lines_that_are_whole_but_of_another_run_than_planned_are_told(
    run: Path, change: Callable[[list[dict[str, Any]]], None], expected: str
) -> None:
    with journals.changed(run / JOURNAL) as lines:
        change(lines)
    told = damages(run)
    assert {file for file, _ in told} == {JOURNAL}
    assert any(expected in what for _, what in told), told


def test_a_plan_that_is_another_than_its_trials_is_told(run: Path) -> None:
    with journals.changed_manifest(run) as manifest:
        manifest["plan"]["study"] = "0" * 64
    assert (MANIFEST, "its trials are not those of its plan") in damages(run)


@pytest.mark.parametrize("name", [MANIFEST, JOURNAL])
def test_a_run_that_lacks_one_of_its_two_files_is_damaged(run: Path, name: str) -> None:
    (run / name).unlink()
    assert [file for file, what in damages(run) if "is missing" in what] == [name]


def test_files_of_trials_that_are_gone_and_files_of_nobody(run: Path) -> None:
    gone = first_artifact(run)
    gone.unlink()
    (gone.parent / "of-nobody").write_bytes(b"")
    (run / "notes.txt").write_bytes(b"")
    (run / "report").mkdir(exist_ok=True)
    (run / "report" / "any.csv").write_bytes(b"")
    assert damages(run) == [(str(gone.relative_to(run)), "No such file or directory")]
    assert look(run).unknown == (str((gone.parent / "of-nobody").relative_to(run)), "notes.txt")


def test_files_of_trials_without_a_record_are_counted_on_one_line(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of a journal that ends early; the document names each."""
    lines = (run / JOURNAL).read_bytes().splitlines(keepends=True)
    first, second = [number for number, line in enumerate(lines) if b'"schema":"record.' in line][:2]
    (run / JOURNAL).write_bytes(b"".join(lines[:second]))
    stray = run / "artifacts" / json.loads(lines[first])["trial"]["id"] / "of-nobody"
    stray.touch()
    found = look(run)
    of_trials = found.list_without_record()
    assert (found.is_whole, found.trials, len(of_trials), len(found.unknown)) == (True, 1, 3, 4)
    assert "_trials" not in found.model_dump()
    _print_verification(found)
    *others, counted, last = capsys.readouterr().out.splitlines()
    assert counted == "3 files of trials that have no record, as an interrupted one leaves"
    assert others == [f"{stray.relative_to(run)}: no record names it"]
    assert last.startswith("nothing is damaged: 1 trial, ")


def test_the_command_prints_it_and_ends_by_it(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def started(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["nearmetal", "verify", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    status, out, _ = started(str(run))
    assert (status, out.splitlines()[-1][:16]) == (0, "whole: 4 trials,")
    first_artifact(run).write_bytes(b"other")
    status, out, _ = started(str(run))
    assert status == 2
    assert "load-0.json: it was changed after it was written: its SHA-256 is another than its record's" in " ".join(
        out.split()
    )
    status, out, _ = started(str(run), "--json")
    document = json.loads(out)
    jsonschema.validate(document, schemas.list_documents()["verify.v1"])
    assert (status, document["is_whole"], len(document["damaged"])) == (2, False, 1)
    status, out, err = started(str(run / "nowhere"))
    assert (status, out) == (2, "") and "there is no such folder" in err
