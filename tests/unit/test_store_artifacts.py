"""A file of a trial that is not as recorded is told by the report and by `trace`, and nothing is made of it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nearmetal import cli
from nearmetal.model import TrialRecord
from nearmetal.report.write import render
from nearmetal.run.trial import keep_artifacts
from nearmetal.store import journal
from nearmetal.store.run_folder import RunFolder, describe_change, hash_file
from tests import captures, journals, plausible_captures

pytestmark = pytest.mark.usefixtures("one_engine")

DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped bit": (lambda file: file.write_bytes(flip(file.read_bytes())), "it was changed after it was written"),
    "cut short": (lambda file: file.write_bytes(file.read_bytes()[:-1]), "it was changed after it was written"),
    "gone": (Path.unlink, "No such file or directory"),
    "a link": (lambda file: linked(file), "it is no file of the run's artifacts"),
}


MADE_OF_THEM = "Segments of servers by the bytes that they carry"


def flip(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


def linked(file: Path) -> None:
    elsewhere = file.parents[3] / file.parent.name
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return plausible_captures.make(tmp_path / "run", 2)


def artifacts(folder: RunFolder) -> list[Path]:
    records = [line for line in journal.read_lines(folder.journal) if isinstance(line, TrialRecord)]
    return [folder.path / artifact.path for record in records for artifact in record.artifacts]


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_report_warns_of_it_and_makes_nothing_of_it(folder: RunFolder, damage: str) -> None:
    before = str(render(folder, "md"))
    assert "not as recorded" not in before and MADE_OF_THEM in before
    do, why = DAMAGES[damage]
    for file in artifacts(folder):
        do(file)
    said: list[str] = []
    page = str(render(RunFolder(folder.path), "md", said.append))
    assert MADE_OF_THEM not in page
    # One of each treatment is asked for.
    assert page.count("3 files of trials are not as recorded, and nothing here is made of them. artifacts/") == 1
    assert page.count(f"/trace-0.json: {why}") == 3
    assert len(said) == 1 and said[0] in page


def test_trace_warns_of_a_capture_of_a_run_that_was_changed(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = artifacts(folder)[0].parent
    captures.both_ends(trial, captures.conversation(5))
    capture = trial / "client.pcap"
    with journals.changed_records(folder.journal) as records:
        path = str(capture.relative_to(folder.path))
        records[0]["artifacts"].append({"path": path, "sha256": hash_file(capture)})

    def trace(*words: str) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["nearmetal", "trace", str(capture), *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 0
        printed = capsys.readouterr()
        return printed.out, printed.err

    whole, _ = trace("--json")
    assert describe_change(capture) is None
    content = bytearray(capture.read_bytes())
    content[24 + 4] ^= 1  # a microsecond of the first packet's time
    capture.write_bytes(content)
    why = "client.pcap: it was changed after it was written: its SHA-256 is another than its record's"
    assert f"warning: {why}" in " ".join(trace()[0].split())
    assert json.loads(trace("--json")[0])["warnings"] == [why, *json.loads(whole)["warnings"]]
    assert f"warning: {why}" in trace("--json", "--request", "1")[1]


def test_a_file_that_is_no_runs_or_has_no_record_is_nothing_to_warn_of(folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    for file in (tmp_path / "artifacts" / "one.pcap", artifacts(folder)[0].parent / "of-nobody"):
        file.write_bytes(b"any")
        assert describe_change(file) is None


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("a.txt", "a.txt"),
        ("of/a.txt", "of/a.txt"),
        ("../../../a.txt", "a.txt"),
        ("/etc/a.txt", "etc/a.txt"),
        ("..", "unnamed"),
    ],
)
def test_the_name_that_a_plugin_gives_leads_out_of_no_trial(name: str, kept: str, tmp_path: Path) -> None:
    (artifact,) = keep_artifacts(tmp_path / "artifacts", "trial", {name: b"content"})
    assert artifact.path == f"artifacts/trial/{kept}"
    assert (tmp_path / artifact.path).read_bytes() == b"content"


def test_artifacts_of_one_name_are_all_kept(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    first = keep_artifacts(folder, "trial", {"log.txt": b"the workload's"})
    later = keep_artifacts(folder, "trial", {"log.txt": b"the observer's", "./log.txt": b"more"}, first)
    assert {one.path: (tmp_path / one.path).read_bytes() for one in (*first, *later)} == {
        "artifacts/trial/log.txt": b"the workload's",
        "artifacts/trial/again-log.txt": b"the observer's",
        "artifacts/trial/again-again-log.txt": b"more",
    }
