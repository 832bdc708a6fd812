"""The dashboard beside a run that another process measures: what a browser is told, from its beginning to its end."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearmetal.dashboard import page
from nearmetal.dashboard.run_view import number_of
from nearmetal.store.journal import read_records
from nearmetal.store.journal_lock import hold_journal
from nearmetal.store.run_folder import RunFolder
from tests import one_picture
from tests.command_line import called
from tests.dashboard_server import PATIENCE, Dashboard, dashboard
from tests.golden.make_run import FOLDER
from tests.order import mock_run

pytestmark = pytest.mark.usefixtures("one_picture")

STUDY = (
    mock_run.STUDY.replace('"slow"]', '"slow", "bad"]').replace("blocks = 2", "blocks = 8")
    + '[environments.bad]\nkind = "mock"\nfault = "spawn"\nfault_on = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n'
)
"""One of its treatments fails until it is withdrawn."""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "first"


def nearmetal(*words: object) -> "subprocess.Popen[bytes]":
    """Whose report has one picture for all."""
    command = [*one_picture.COMMAND, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ))


def held_after(folder: Path, trials: int, *words: object) -> "subprocess.Popen[bytes]":
    """A run that was stopped in its middle, after some trials at least: nothing of it depends on who is quick."""
    running = nearmetal(*words)
    end = time.monotonic() + PATIENCE
    while _records(folder) < trials:
        assert running.poll() is None, "it has ended"
        assert time.monotonic() < end
        time.sleep(0.01)
    running.send_signal(signal.SIGSTOP)
    return running


def _records(folder: Path) -> int:
    journal = folder / "journal.jsonl"
    return journal.read_bytes().count(b'{"schema":"record.v') if journal.exists() else 0


@pytest.fixture
def served(folder: Path) -> Iterator[Dashboard]:
    with dashboard() as found:
        yield found


def test_a_run_from_its_beginning_over_an_interruption_to_its_end(study: Path, folder: Path, served: Dashboard) -> None:
    assert "There is no run yet" in served.page("/")
    running = held_after(folder, 3, "run", study, "-o", folder)
    try:
        listed = served.until("/events?seen=1", "runs", "running")
        place = f"/runs/{number_of(folder)}"
        assert place in listed
        page = served.page(place)
        assert '<span class="state running">' in page
        assert f"{_records(folder)} of " in page

        running.kill()
        running.wait()
        assert "nearmetal resume" in served.until(f"{place}/events", "state", "interrupted")

        running = held_after(folder, 7, "resume", folder)
        assert "resume" not in served.until(f"{place}/events", "state", "running")
        pushed = served.told(f"{place}/events")
        assert "running" in next(parts["state"] for parts in pushed if "state" in parts)
        running.send_signal(signal.SIGCONT)
        told = set[str]()
        for parts in pushed:
            told |= parts.keys()
            if '<span class="state ended">' in parts.get("state", ""):
                break
        assert "strip-0-0" in told, "what goes on in between is pushed"
        assert running.wait(PATIENCE) == 1
    finally:
        running.kill()
        running.wait()
    served.until(f"{place}/events", "state", f"{place}/report")
    page = served.page(place)
    assert "withdrawn" in page
    assert "does not start" in page
    assert "different, worse" in page
    report = served.ask(f"{place}/report")
    written = (folder / "report.html").read_bytes()
    back = f'<a href="{place}">To the run</a> · '.encode()
    assert report.read().replace(back, b"") == written != written.replace(b'<p class="kicker">', b"")
    policy = report.headers["Content-Security-Policy"]
    (scripts,) = re.findall(r"script-src ([^;]*)", policy)
    assert re.fullmatch(r"'sha256-[^' ]+'", scripts), "the page's own script and no other"
    assert "default-src 'none'" in policy


def test_a_run_that_another_process_measures_is_not_measured_twice(tmp_path: Path) -> None:
    """Whatever state folder that one has: the lock that says so is the run's own."""
    folder = RunFolder(Path(shutil.copytree(FOLDER, tmp_path / "run")))
    before = b"".join(folder.journal.read_bytes().splitlines(keepends=True)[:40])
    folder.journal.write_bytes(before)
    with hold_journal(folder.journal):
        command = [sys.executable, "-m", "nearmetal", "resume", str(folder.path)]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert folder.journal.read_bytes() == before
    assert refused.returncode == 3
    assert "this run is measured by another process" in refused.stderr
    assert called("resume", str(folder.path)).returncode == 0


def test_a_run_pauses_goes_on_and_stops_as_the_page_asks(folder: Path, tmp_path: Path, served: Dashboard) -> None:
    study = tmp_path / "long.toml"
    study.write_text(mock_run.STUDY.replace("blocks = 2", "blocks = 60"))
    running = held_after(folder, 2, "run", study, "-o", folder)
    place = f"/runs/{number_of(folder)}"
    try:
        for wish in ("pause", "resume", "pause"):
            assert served.order(f"{place}/ask/{wish}").status == 204
            before = _records(folder)
            running.send_signal(signal.SIGCONT)
            if wish == "pause":
                paused = served.until(f"{place}/events", "live", "paused: nothing is measured")
                assert re.findall(r'data-ask="(\w+)"', paused) == ["resume", "stop"]
                done = _records(folder)
                assert done <= before + 2, "the trial that went on, and no other"
                time.sleep(1.2)
                assert _records(folder) == done
            else:
                while _records(folder) < before + 3:
                    assert running.poll() is None
                    time.sleep(0.01)
        assert "Values so far" in served.page(place)
        assert served.order(f"{place}/ask/stop").status == 204
        assert running.wait(PATIENCE) == 4
    finally:
        running.kill()
        running.wait()
    assert not {"live.json", "request"} & {file.name for file in folder.iterdir()}
    refused = served.order(f"{place}/ask/resume")
    assert refused.status == 409
    assert f"nearmetal resume {folder}" in refused.read().decode()
    records = list(read_records(folder / "journal.jsonl"))
    told = [record for record in records if any(one.code == "interrupted" for one in record.warnings)]
    assert told, "those after a pause within their block say so"
    assert {record.status for record in records} == {"ok"}
    assert called("clean", "--json").stdout.count("removed") == 1


def test_nobody_else_can_ask_a_run_for_anything(folder: Path) -> None:
    shutil.copytree(FOLDER, folder)
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"".join(lines[:40]))
    note = {"step": "measure", "since_ns": 1, "block": 0, "attempt": 0, "treatment": {"environment": "base"}}
    (folder / "live.json").write_text(json.dumps(note))
    place = f"/runs/{number_of(folder)}/ask/stop"
    with dashboard(str(folder)) as alone, hold_journal(folder / "journal.jsonl"):
        for other in (
            {"Cookie": ""},
            {"Cookie": "nearmetal-1=guess"},
            {"Origin": "http://evil.example"},
            {"Origin": f"http://127.0.0.1:{alone.port + 1}"},
            {"Origin": "null"},
            {"Origin": ""},
            {"Host": "evil.example", "Origin": "http://evil.example"},
        ):
            assert alone.order(place, other).status == 403, other
        assert alone.ask(place).status == 404, "a link changes nothing"
        assert alone.order(place.replace("stop", "start")).status == 404
        assert alone.order(place.replace(number_of(folder), "000000000000")).status == 404
        assert not (folder / "request").exists()
        assert alone.order(place).status == 204
        assert (folder / "request").read_text() == "stop\n"
        assert alone.order(place.replace("stop", "resume")).status == 409, "it is stopping"


def test_only_what_is_known_has_an_address(study: Path, folder: Path, served: Dashboard, tmp_path: Path) -> None:
    study.write_text(mock_run.STUDY)
    assert called("run", str(study), "-o", str(folder)).returncode == 0
    number = number_of(folder)
    for path in (
        "/runs/000000000000",
        "/runs/../../etc/passwd",
        f"/runs/{number}/manifest.json",
        "/runs/..%2f..%2fetc%2fpasswd",
        "/journal.jsonl",
        f"/runs/{number_of(tmp_path)}",
    ):
        answer = served.ask(path)
        assert (answer.status, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8"), path
        assert answer.read().decode() == page.render_missing(), path
    (folder / "report.html").unlink()
    (folder / "report.html").symlink_to("/etc/passwd")
    assert served.ask(f"/runs/{number}/report").status == 404
    with dashboard(str(folder)) as alone:
        assert f"/runs/{number}" in alone.ask("/").headers["Location"]
        assert alone.ask("/runs/000000000000").status == 404
        assert "All runs" not in alone.page("/")


def test_who_has_no_token_is_told_nothing(study: Path, folder: Path, served: Dashboard) -> None:
    served.cookie, cookie = "", served.cookie
    for path in ("/", "/events", "/style.css", f"/runs/{number_of(folder)}", "/nothing"):
        assert served.ask(path).status == 403
    served.cookie = cookie
    assert served.ask("/", {"Host": f"evil.example:{served.port}"}).status == 403
    assert served.ask("/style.css").status == served.ask("/live.js").status == 200


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(number, marks=pytest.mark.long) for number in (signal.SIGINT, signal.SIGHUP))],
)
def test_it_ends_when_told_to_and_leaves_nothing(number: int, folder: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    with dashboard() as served:
        pushed = served.told("/events")
        assert "There is no run" in next(pushed)["runs"]
        assert served.end(number) == 0
        assert list(pushed) == []
        assert served.process.stderr is not None
        assert served.process.stderr.read() == ""
    assert sorted(tmp_path.rglob("*")) == before
    again = subprocess.run(
        [sys.executable, "-c", f"import socket; socket.create_server(('127.0.0.1', {served.port}))"], check=False
    )
    assert again.returncode == 0, "the port is free"
