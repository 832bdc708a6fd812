"""Whether a run goes on, has ended or was interrupted: `ls`, `show`, the dashboard and `resume` say the same of it."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from nearmetal import cli
from nearmetal.dashboard.list_view import ListView
from nearmetal.dashboard.run_view import RunView
from nearmetal.errors import BadInput
from nearmetal.run.preflight import refuse_occupied_folder
from nearmetal.store import runs
from nearmetal.store.journal import read_events
from nearmetal.store.journal_lock import hold_journal
from nearmetal.store.run_folder import RunFolder
from tests import journals, one_picture
from tests.command_line import called
from tests.dashboard_server import PATIENCE
from tests.golden.make_run import FOLDER
from tests.order import mock_run
from tests.order.test_dashboard import held_after

pytestmark = pytest.mark.usefixtures("one_picture")

Said = Callable[..., tuple[int, str]]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Status and words of a command."""

    def of(*words: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["nearmetal", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    return of


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """One that has ended, with 16 trials."""
    return RunFolder(Path(shutil.copytree(FOLDER, tmp_path / "a run")))


def all_say(state: str, folder: RunFolder, said: Said) -> None:
    (listed,), _ = runs.list_entries([folder.path])
    assert listed.state == state
    assert f'<span class="state {state}">' in RunView(folder.path).render_state()["state"]
    assert f'<span class="state {state}">' in ListView(lambda: [folder.path]).render_runs()["runs"]
    status, words = said("show", folder.path)
    assert (status, f", {state}: " in words) == (0, True), words


def before(lines: int) -> Callable[[RunFolder], None]:
    """Cut its journal as `kill -9` would have."""

    def cut(folder: RunFolder) -> None:
        folder.journal.write_bytes(b"".join(folder.journal.read_bytes().splitlines(keepends=True)[:lines]))

    return cut


def without_journal(folder: RunFolder) -> None:
    journals.emptied(folder)
    folder.journal.unlink()


@pytest.mark.parametrize(
    "killed",
    [
        pytest.param(before(40), id="in its middle"),
        pytest.param(before(1), id="before a trial", marks=pytest.mark.long),
        pytest.param(journals.emptied, id="before a line", marks=pytest.mark.long),
        pytest.param(without_journal, id="before a journal"),
    ],
)
def test_one_that_was_killed_can_go_on(killed: Callable[[RunFolder], None], folder: RunFolder, said: Said) -> None:
    killed(folder)
    all_say("interrupted", folder, said)
    assert f"nearmetal resume '{folder.path}'" in RunView(folder.path).render_state()["state"].replace("&#39;", "'")
    assert "where it was interrupted, `nearmetal resume` goes on" in " ".join(said("show", folder.path)[1].split())
    status, words = said("resume", folder.path)
    assert (status, "nothing is left to do" in words) == (0, False)
    assert "16 trials ok; going on took" in words
    all_say("ended", folder, said)


def made_with(versions: dict[str, str], folder: RunFolder) -> None:
    folder.write_manifest(folder.read_manifest().model_copy(update={"versions": versions}))


def test_one_that_goes_on_with_other_versions_says_so(folder: RunFolder) -> None:
    made_with({"Python": platform.python_version(), "Python package numpy": "0.0.1", "QEMU": "7.2.0"}, folder)
    before(40)(folder)
    numpy = version("numpy")
    went_on = called("resume", str(folder.path), "--json")
    assert (went_on.returncode, len(went_on.stdout.splitlines())) == (0, 1)
    told = [line for line in went_on.stderr.splitlines() if "has changed" in line]
    assert told == [
        f"since the run began Python package numpy has changed: 0.0.1 before, {numpy} now",
        "since the run began QEMU has changed: 7.2.0 before, none now",
    ]
    (resumed,) = [event for event in read_events(folder.journal) if event["event"] == "RunResumed"]
    assert resumed["changed"] == {"Python package numpy": ["0.0.1", numpy], "QEMU": ["7.2.0", "none"]}
    analysis = json.loads(called("report", str(folder.path), "--format", "json").stdout)
    warned = [one["text"] for one in analysis["warnings"] if one["code"] == "versions-changed"]
    page = " ".join(called("report", str(folder.path), "--format", "md").stdout.split())
    assert warned == [
        f"the trials after it was resumed were made with another Python package numpy: {numpy} instead of 0.0.1",
        "the trials after it was resumed were made with another QEMU: none instead of 7.2.0",
    ]
    assert all(text in page for text in warned)


def test_one_that_goes_on_with_the_same_versions_says_nothing_of_them(folder: RunFolder) -> None:
    made_with({"Python": platform.python_version(), "Python package numpy": version("numpy")}, folder)
    before(40)(folder)
    went_on = called("resume", str(folder.path))
    assert went_on.returncode == 0 and "has changed" not in went_on.stdout + went_on.stderr
    assert "versions-changed" not in called("report", str(folder.path), "--format", "json").stdout


def test_one_that_goes_on_is_not_begun_again(folder: RunFolder, said: Said) -> None:
    before(40)(folder)
    with hold_journal(folder.journal):
        all_say("running", folder, said)
        status, words = said("resume", folder.path)
    assert status == 3
    assert f"{folder.journal}: this run is measured by another process\n  remedy: wait until it ends" in words
    all_say("interrupted", folder, said)


def test_one_that_has_ended_is_left_as_it_is(folder: RunFolder, said: Said) -> None:
    all_say("ended", folder, said)
    journal = folder.journal.read_bytes()
    status, words = said("resume", folder.path)
    assert (status, words.startswith("nothing is left to do: this run has come to its end")) == (0, True)
    assert folder.journal.read_bytes() == journal


def test_bad_trials_do_not_change_what_has_ended(folder: RunFolder, said: Said) -> None:
    first = folder.journal.read_text().splitlines()
    place = next(number for number, line in enumerate(first) if line.startswith('{"schema":"record.v'))
    bad = {**json.loads(first[place]), "status": "failed", "reason": "it broke", "responses": {}}
    first[place] = json.dumps(bad, separators=(",", ":"))
    folder.journal.write_text("\n".join(first) + "\n")
    all_say("ended", folder, said)
    assert said("resume", folder.path)[0] == 1


@pytest.mark.parametrize("file", ["manifest.json", "journal.jsonl"])
def test_one_that_is_damaged_is_told_with_the_file(file: str, folder: RunFolder, said: Said) -> None:
    text = (folder.path / file).read_text()
    (folder.path / file).write_text(f"nonsense\n{text}")
    status, listed = said("ls", folder.path)
    assert (status, f"cannot be read: {folder.path}: {file}: " in listed) == (0, True)
    reason = listed.partition(f"{file}: ")[2].strip()
    for words in (("show", folder.path), ("resume", folder.path)):
        status, told = said(*words)
        assert (status, f"{folder.path / file}: {reason}" in told) == (2, True)
    assert f"{file}: {reason}" in RunView(folder.path).render_state()["state"].replace("&#39;", "'")
    assert f"{file}: {reason}" in ListView(lambda: [folder.path]).render_runs()["runs"].replace("&#39;", "'")


def test_one_that_is_killed_while_it_measures(tmp_path: Path, said: Said) -> None:
    study, folder = tmp_path / "study.toml", RunFolder(tmp_path / "run")
    study.write_text(mock_run.STUDY.replace("blocks = 2", "blocks = 8"))
    running = held_after(folder.path, 3, "run", study, "-o", folder.path)
    try:
        all_say("running", folder, said)
    finally:
        running.kill()
        running.wait()
    all_say("interrupted", folder, said)


# ── A run's folder that is there already, or cannot be written ────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        (lambda folder: None, ", or see it by: nearmetal show 'RUN'"),
        (before(40), ", or go on with it by: nearmetal resume 'RUN'"),
        (journals.emptied, ", or go on with it by: nearmetal resume 'RUN'"),
        (lambda folder: (folder.path / "manifest.json").write_text("{"), ""),
    ],
    ids=["ended", "interrupted", "killed at once", "damaged"],
)
def test_a_run_in_the_way_is_told_with_what_can_be_done_with_it(
    change: Callable[[RunFolder], None], remedy: str, folder: RunFolder, said: Said, tmp_path: Path
) -> None:
    change(folder)
    (tmp_path / "study.toml").write_text(mock_run.STUDY)
    found = {file: file.read_bytes() for file in folder.path.iterdir() if file.is_file()}
    status, words = said("run", tmp_path / "study.toml", "-o", folder.path)
    assert status == 2
    assert {file: file.read_bytes() for file in folder.path.iterdir() if file.is_file()} == found
    told = f"{folder.path}: a run is there already\n  remedy: choose another -o{remedy}\n"
    assert words == f"nearmetal: {told.replace('RUN', str(folder.path))}"


def test_a_run_in_the_way_that_another_measures_is_told_so(folder: RunFolder) -> None:
    """By a home of its own, else that one is measuring would be told before."""
    with hold_journal(folder.journal), pytest.raises(BadInput) as told:
        refuse_occupied_folder(folder.path)
    assert str(told.value) == (
        f"{folder.path}: a run is there already, and goes on: another process measures it\n"
        f"  remedy: choose another -o, or see how far it is by: nearmetal show '{folder.path}'"
    )


def read_only(folder: RunFolder, *words: object) -> tuple[int, str]:
    """A command for which the run lies on a read-only file system: a folder's mode keeps root from nothing."""
    mount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
    command = [*one_picture.COMMAND, *map(str, words)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, "sh", str(folder.path), *command],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_one_that_may_only_be_read_says_the_same_and_where_to_write(folder: RunFolder) -> None:
    status, words = read_only(folder, "show", folder.path)
    assert (status, ", ended: 16 trials ok" in words) == (0, True), words
    for verb in ("report", "resume"):
        status, words = read_only(folder, verb, folder.path)
        assert status == 3
        assert f"{folder.path}: the report cannot be written there: Read-only file system\n" in words
        assert f"  remedy: nearmetal report '{folder.path}' -o FILE\n" in words
    before(40)(folder)
    status, words = read_only(folder, "show", folder.path)
    assert (status, ", interrupted: " in words) == (0, True), words
    status, words = read_only(folder, "resume", folder.path)
    assert status == 3
    assert f"{folder.journal}: the run's journal cannot be written: Read-only file system\n  remedy: a run is" in words
