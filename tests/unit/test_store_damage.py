"""A run's folder that is damaged: what is wrong and where, in plain words."""

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearmetal.dashboard.run_view import RunView
from nearmetal.errors import BadInput
from nearmetal.lab.changes import ledger
from nearmetal.model import Artifact
from nearmetal.report.report_input import read_run_input as read_run
from nearmetal.store import journal, query, runs
from nearmetal.store.run_folder import RunFolder

GOLDEN = Path(__file__).parents[1] / "golden" / "run"
LIBRARIES = re.compile(
    r"pydantic|validation error|Input should|type=|Expecting|\\bchar \\d|Extra inputs|Field required"
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "run"))


def refused(read: Callable[[], object]) -> BadInput:
    with pytest.raises(BadInput) as caught:
        read()
    error = caught.value
    assert error.remedy
    assert not LIBRARIES.search(error.what), error.what
    assert "\n" not in error.what
    return error


UNLIKE = "`left_out_why` does not have one for each of `left_out`"
MANIFESTS: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda manifest: manifest.update(schema="nearmetal"), "`schema` cannot be 'nearmetal'"),
    (lambda manifest: manifest.pop("study"), "`study` is missing"),
    (lambda manifest: manifest.update(colour="red"), "`colour` is nothing that this version of nearmetal knows"),
    (lambda manifest: manifest.update(created="yesterday"), "`created` cannot be 'yesterday'"),
    (lambda manifest: manifest.update(created="2026-11-26T22:00:00"), "`created` cannot be '2026-11-26T22:00:00'"),
    (
        lambda manifest: manifest.update(created="0001-01-01T00:00+14:00"),
        "`created` cannot be '0001-01-01T00:00+14:00'",
    ),
    (lambda manifest: manifest["plan"].update(level="high"), "`plan.level` cannot be 'high'"),
    (lambda manifest: manifest["study"]["design"].update(blocks="many"), "`study.design.blocks` cannot be 'many'"),
    (lambda manifest: manifest["plan"]["blocks"][0].pop("index"), "`plan.blocks.0.index` is missing"),
    (lambda manifest: manifest.update(left_out=[{"environment": "qemu"}]), UNLIKE),
    (lambda manifest: manifest.update(left_out_why=["none"]), UNLIKE),
]


def test_a_manifest_of_a_later_version_is_left_to_whoever_wrote_it(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "schema": "manifest.v9"}))
    error = refused(RunFolder(run).read_manifest)
    assert "of a later version (manifest.v9)" in error.what and "the nearmetal that wrote it" in error.remedy


@pytest.mark.parametrize(("damage", "what"), MANIFESTS)
def test_a_manifest_that_is_not_as_declared(run: Path, damage: Callable[[dict[str, Any]], object], what: str) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    damage(manifest)
    (run / "manifest.json").write_text(json.dumps(manifest))
    error = refused(RunFolder(run).read_manifest)
    assert error.where == str(run / "manifest.json")
    assert error.what == f"the run's manifest cannot be read: {what}"


def rows(manifest: dict[str, Any]) -> Any:
    return manifest["plan"]["treatments"]["rows"]


NO_PART = "`plan` names a part that is not there"
OF_ANOTHER_STUDY = "`plan` does not go with `study`"
MANIFESTS_V2: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda manifest: manifest["plan"].update(blocks=0), OF_ANOTHER_STUDY),
    (lambda manifest: manifest["plan"].update(blocks=10**30), OF_ANOTHER_STUDY),
    (lambda manifest: manifest["plan"].update(repeats=2**63), OF_ANOTHER_STUDY),
    (lambda manifest: manifest["plan"].update(share_boot=True), OF_ANOTHER_STUDY),
    (lambda manifest: manifest["plan"].update(workloads=["other"]), OF_ANOTHER_STUDY),
    (lambda manifest: manifest["plan"].pop("treatments"), "`plan.treatments` is missing"),
    (lambda manifest: manifest["plan"]["contrasts"][0].__setitem__(1, 99), NO_PART),
    (lambda manifest: rows(manifest)[0].__setitem__(0, -1), NO_PART),
    (lambda manifest: rows(manifest)[0].__setitem__(0, 10**30), NO_PART),
    (lambda manifest: rows(manifest)[0].__setitem__(5, []), NO_PART),
    (lambda manifest: rows(manifest).clear(), NO_PART),
    (lambda manifest: manifest["study"]["machine"].update(memory=math.inf), "`study.machine.memory` cannot be inf"),
]


@pytest.mark.parametrize(("damage", "what"), MANIFESTS_V2)
def test_a_manifest_of_version_2_that_is_not_as_declared(
    run: Path, damage: Callable[[dict[str, Any]], object], what: str
) -> None:
    RunFolder(run).write_manifest(RunFolder(run).read_manifest())
    manifest = json.loads((run / "manifest.json").read_text())
    damage(manifest)
    del manifest["sum"]
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert refused(RunFolder(run).read_manifest).what == f"the run's manifest cannot be read: {what}"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "it is not JSON (line 1, column 1)"),
        (b'{\n "run": }', "it is not JSON (line 2, column 9)"),
        (b"\xff\x00{", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[1]", "it is no JSON object"),
    ],
)
def test_a_manifest_that_is_no_json_object(run: Path, content: bytes, what: str) -> None:
    (run / "manifest.json").write_bytes(content)
    assert refused(RunFolder(run).read_manifest).what == f"the run's manifest cannot be read: {what}"


@pytest.mark.parametrize(("content", "what"), [(None, "is missing"), (b"", "is empty")])
def test_a_journal_that_is_lost_is_not_taken_for_one_of_a_run_that_did_not_begin(
    run: Path, content: bytes | None, what: str
) -> None:
    file = run / "journal.jsonl"
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    for read in (lambda: read_run(RunFolder(run)), RunView(run).follow_run):
        error = refused(read)
        assert (error.what, error.where) == (f"the run's journal {what}", str(file))
    (told,) = runs.list_entries([run])[1]
    assert told.reason == f"journal.jsonl: the run's journal {what}"
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "fairness": []}))
    assert read_run(RunFolder(run)).records == (), "killed before its first machine was made"


def event(name: str, **keys: object) -> str:
    return json.dumps({"schema": "event.v1", "event": name, "at_ns": 1, **keys})


def record(**changes: object) -> str:
    first = next(line for line in (GOLDEN / "journal.jsonl").read_text().splitlines() if '"record.v1"' in line)
    return json.dumps({**json.loads(first), **changes})


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("nonsense", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("5", "it is no JSON object"),
        (record(status="splendid"), "`status` cannot be 'splendid'"),
        (
            record(responses={"throughput": {"unit": "1/s", "better": "higher"}}),
            "`responses.throughput.value` is missing",
        ),
        (
            record(responses={"throughput": {"value": 1, "unit": "1/s\x1b", "better": "higher"}}),
            r"`responses.throughput.unit` cannot be '1/s\x1b'",
        ),
        (
            record(machines=[{"role": "server", "environment": "host", "boot_id": "", "cpus": "3-1"}]),
            "`machines.0.cpus` cannot be '3-1'",
        ),
        (record(mood="fine"), "`mood` is nothing that this version of nearmetal knows"),
        (record(schema="record.v3"), "`schema` cannot be 'record.v3'"),
        (record(schema=["record.v1"]), "`schema` cannot be a list"),
        ('{"rubbish":1}', "`schema` is missing"),
        ('{"schema":"event.v1","at_ns":1}', "`event` is missing"),
        ('{"schema":"event.v1","event":7}', "`event` cannot be 7"),
        (event("LookTaken"), "`look` is missing"),
        (event("LookTaken", look="last"), "`look` cannot be 'last'"),
        (event("NothingToCompare"), "`blocks` is missing"),
        (event("Withdrawn", treatment={"environment": "host"}), "`reason` is missing"),
        (event("LeftBehind"), "`what` is missing"),
        (event("RunResumed", finished=1, changed=5), "`changed` cannot be 5"),
        (event("RunResumed", finished=1, changed={"kernel": "6"}), "`changed.kernel` cannot be '6'"),
        (event("RunEnded", interrupted=None), "`interrupted` cannot be null"),
    ],
)
def test_a_line_of_the_journal_that_cannot_be_read(run: Path, line: str, what: str) -> None:
    whole = (run / "journal.jsonl").read_text().splitlines()
    (run / "journal.jsonl").write_text("\n".join([*whole[:2], line, *whole[2:]]) + "\n")
    file = run / "journal.jsonl"
    for read in (lambda: list(journal.read_records(file)), lambda: read_run(RunFolder(run)), RunView(run).follow_run):
        error = refused(read)
        assert error.where == str(file)
        assert error.what == f"line 3 cannot be read: {what}"


def test_a_line_of_another_version_is_told_with_what_may_have_made_it(run: Path) -> None:
    file = run / "journal.jsonl"
    file.write_text(file.read_text() + record(schema="record.v3") + "\n")
    error = refused(lambda: list(journal.read_records(file)))
    assert error.remedy == "if a newer nearmetal made it, read it with that; else restore the file from a copy"
    with pytest.raises(BadInput, match=r"`schema` cannot be 'record\.v3'"):
        list(journal.read_events(file))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (record(schema="record.v3"), "`schema` cannot be 'record.v3'"),
        ('{"schema":"event.v1","at_ns":1}', "`event` is missing"),
        ('{"schema":"event.v1","event":7}', "`event` cannot be 7"),
    ],
)
def test_a_question_is_not_answered_by_a_run_with_a_line_that_is_neither_a_record_nor_an_event(
    run: Path, line: str, what: str, tmp_path: Path
) -> None:
    with (run / "journal.jsonl").open("a") as file:
        file.write(line + "\n")
    error = refused(lambda: query.answer_query("SELECT run FROM runs", [run], tmp_path / "cache", lambda _: None))
    assert what in error.what and error.where == str(run / "journal.jsonl")


@pytest.mark.parametrize("line", [event("MoonRose"), event("LeftBehind", what="a tap", moon="full")])
def test_events_and_their_keys_that_this_version_does_not_know_are_passed_over(run: Path, line: str) -> None:
    """Events may come under one name, as keys may."""
    file = run / "journal.jsonl"
    known = read_run(RunFolder(run)).records
    file.write_text(file.read_text() + line + "\n")
    assert read_run(RunFolder(run)).records == known
    assert list(journal.read_events(file))[-1] == journal.read_journal(file)[1][-1] == json.loads(line)


def test_one_run_that_is_damaged_takes_no_other_with_it(run: Path, tmp_path: Path) -> None:
    late, bad = (Path(shutil.copytree(run, tmp_path / name)) for name in ("late", "bad"))
    manifest = json.loads((run / "manifest.json").read_text())
    (late / "manifest.json").write_text(json.dumps({**manifest, "created": "yesterday"}))
    (bad / "journal.jsonl").write_text((run / "journal.jsonl").read_text() + event("LookTaken") + "\n")
    listed, unreadable = runs.list_entries([late, run, bad])
    assert [one.run for one in listed] == [str(run)]
    assert [one.run for one in unreadable] == [str(late), str(bad)]
    said: list[str] = []
    asked = [late, run]
    assert query.answer_query("SELECT count(*) FROM runs", asked, tmp_path / "cache", said.append).rows == ((1,),)
    assert any(one.startswith("left out: ") and "`created` cannot be 'yesterday'" in one for one in said)


def test_a_trial_that_has_two_lines_is_told_by_all_who_read_them(run: Path, tmp_path: Path) -> None:
    """Two records of one trial are no block's whole attempt: "160 trials ok", and nothing could be compared."""
    file = run / "journal.jsonl"
    lines = file.read_text().splitlines()
    number = next(number for number, line in enumerate(lines) if '"record.v1"' in line)
    file.write_text("\n".join([*lines, lines[number]]) + "\n")
    what = f"line {len(lines) + 1} is of the same trial as line {number + 1}"
    view = RunView(run)
    assert what in view.render_state()["state"]
    for read in (
        lambda: list(journal.read_records(file)),
        lambda: read_run(RunFolder(run)),
        lambda: query.answer_query("SELECT 1", [run], tmp_path / "cache", lambda _: None),
        view.follow_run,
    ):
        error = refused(read)
        assert (error.what, error.where) == (what, str(file))
    (one,) = runs.list_entries([run])[1]
    assert one.reason == f"journal.jsonl: {what}"


def pipe(place: Path) -> None:
    os.mkfifo(place)


def endless(place: Path) -> None:
    place.symlink_to("/dev/zero")


@pytest.mark.parametrize("put", [pipe, endless])
@pytest.mark.parametrize("name", ["manifest.json", "journal.jsonl"])
def test_what_is_no_file_is_refused_and_neither_waited_for_nor_read(
    run: Path, name: str, put: Callable[[Path], None], tmp_path: Path
) -> None:
    (run / name).unlink()
    put(run / name)
    for read in (
        RunFolder(run).read_manifest,
        lambda: RunFolder.open(run).read_manifest(),
        lambda: read_run(RunFolder(run)),
        lambda: query.answer_query("SELECT 1", [run], tmp_path / "cache", lambda _: None),
        RunView(run).follow_run,
    ):
        error = refused(read)
        assert (error.what, error.where) == ("this is not a file", str(run / name))
    assert "this is not a file" in RunView(run).render_state()["state"]
    assert runs.list_entries([run])[1][0].reason == f"{name}: this is not a file"


@pytest.mark.parametrize("put", [pipe, endless])
def test_a_journal_or_ledger_that_is_no_file_is_refused_by_all_that_open_it(
    put: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "one.jsonl"
    put(path)
    for read in (
        lambda: journal.Journal(path),
        lambda: journal.read_lines(path),
        lambda: list(journal.read_entries(path)),
        lambda: journal.read_last_event(path),
        lambda: runs.find_state(path),
        lambda: ledger.Ledger(path),
        lambda: ledger.outstanding(path),
    ):
        error = refused(read)
        assert (error.what, error.where) == ("this is not a file", str(path))


@pytest.mark.parametrize("name", ["manifest.json", "journal.jsonl", ""])
def test_what_this_user_may_not_read_is_an_input_that_cannot_be_used(
    run: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read all."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != run / name)
    error = refused(lambda: RunFolder.open(run).read_manifest())
    assert (error.what, error.where) == ("this user may not read it", str(run / name))
    assert error.remedy.startswith("name one that you may read")
    (one,) = runs.list_entries([run])[1]
    assert one.reason == f"{name or run.name}: this user may not read it"


def test_a_link_in_the_place_of_the_folder_of_artifacts_is_refused(run: Path, tmp_path: Path) -> None:
    """Whoever goes on with the run would write where it leads."""
    (tmp_path / "elsewhere").mkdir()
    (run / "artifacts").symlink_to(tmp_path / "elsewhere")
    error = refused(RunFolder(run).read_manifest)
    assert (error.what, error.where) == ("this is a link, and not a folder of the run's own", str(run / "artifacts"))


OUTSIDE: dict[str, Callable[[Path], str]] = {
    "absolute": lambda run: str(run.parent / "there.json"),
    "above": lambda run: "artifacts/../../there.json",
    "of the run": lambda run: "manifest.json",
    "linked": lambda run: linked(run / "artifacts" / "one.json", "../../there.json"),
    "in a linked folder": lambda run: linked(run / "artifacts" / "trial", "../..") + "/there.json",
    "a pipe": lambda run: piped(run / "artifacts" / "one.json"),
    "a folder": lambda run: "artifacts",
    "too long": lambda run: "artifacts/" + "../artifacts/" * 400 + "one.json",
    "no path": lambda run: "artifacts/one\0.json",
}


def linked(place: Path, to: str) -> str:
    place.symlink_to(to)
    return f"artifacts/{place.name}"


def piped(place: Path) -> str:
    os.mkfifo(place)
    return f"artifacts/{place.name}"


@pytest.mark.parametrize("where", OUTSIDE)
def test_an_artifact_is_a_file_of_the_runs_own(run: Path, where: str) -> None:
    """Else it is not read: a record may name any file, and whoever opens a pipe waits for its other end."""
    (run.parent / "there.json").write_bytes(b"elsewhere")
    (run / "artifacts").mkdir()
    (run / "artifacts" / "its.json").write_bytes(b"its own")
    report = read_run(RunFolder(run))
    paths = (OUTSIDE[where](run), "artifacts/its.json")
    sha256 = hashlib.sha256(b"its own").hexdigest()
    told = report.records[0].model_copy(update={"artifacts": [Artifact(path=path, sha256=sha256) for path in paths]})
    assert list(report.artifacts(told, "*")) == [None, b"its own"]
