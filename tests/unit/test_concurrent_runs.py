"""Runs of other homes are seen on a host, told of, and not kept out."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab import concurrent_runs, doctor
from nearmetal.lab.process_locks import hold_measuring_lock
from nearmetal.model import Resolved
from nearmetal.store.events import Event
from nearmetal.store.journal import read_records
from nearmetal.store.run_folder import RunFolder
from tests.command_line import called
from tests.order import mock_run

HELD = (
    "from nearmetal.lab.process_locks import hold_measuring_lock\n"
    "with hold_measuring_lock(what='study web, /runs/web-1'): print('held', flush=True); input()"
)


@contextmanager
def another(home: Path) -> Iterator[int]:
    """That measures, of another home: its process."""
    env = {**os.environ, "NEARMETAL_HOME": str(home)}
    with subprocess.Popen(
        [sys.executable, "-c", HELD], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield process.pid
        finally:
            process.kill()


def test_another_home_is_seen_for_as_long_as_its_process_lives(tmp_path: Path) -> None:
    assert concurrent_runs.other() is None
    with another(tmp_path / "one") as process:
        assert concurrent_runs.other() == process
        with hold_measuring_lock():
            assert concurrent_runs.other() == process
            with another(tmp_path / "two") as second:
                assert concurrent_runs.other() in (process, second)
    with hold_measuring_lock():
        assert concurrent_runs.other() is None, "nobody is another to itself"
    file = tmp_path / "nearmetal-measuring"
    assert file.stat().st_mode & 0o777 == 0o666, "everybody's"


LOCKED = """
import fcntl, os, struct, sys
path, start, length, user, *claim = sys.argv[1:]
file = os.open(path, os.O_RDWR)
os.setresuid(int(user), int(user), int(user))
fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, int(start), int(length), 0))
print("held", flush=True)
input()
"""


@contextmanager
def locked(file: Path, start: int, length: int, user: int) -> Iterator[int]:
    """By somebody who claims, with a word, to run nearmetal: the process."""
    argv = [sys.executable, "-c", LOCKED, str(file), str(start), str(length), str(user), "nearmetal"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="being another user takes root")
def test_locks_of_any_user_are_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "nearmetal-measuring"
    with hold_measuring_lock():
        pass  # it is made
    with locked(file, 0, 0, 65534) as stranger, another(tmp_path / "one") as process:
        assert concurrent_runs.other() == process, "behind a lock on everything it is still seen"
    # Who names a folder of locks also believes those of containers that are not seen.
    monkeypatch.setattr(concurrent_runs, "_path", lambda: file)
    monkeypatch.delenv("NEARMETAL_LOCKS")
    own = Path("/proc/self/ns/pid").stat().st_ino << 22
    with locked(file, 0, 0, 65534):
        assert concurrent_runs.other() is None
    with locked(file, own + stranger + 1, 1, 65534):
        assert concurrent_runs.other() is None, "nobody has this number"
    with subprocess.Popen([sys.executable, "-c", "input()", "nearmetal"], stdin=subprocess.PIPE) as innocent:
        with locked(file, own + innocent.pid, 1, 65534):
            assert concurrent_runs.other() is None, "it runs nearmetal, and does not measure"
        innocent.kill()


@pytest.mark.live
def test_one_with_the_same_process_id_in_a_container_is_seen(tmp_path: Path) -> None:
    told = "from nearmetal.lab import concurrent_runs; from nearmetal.lab.process_locks import hold_measuring_lock"
    told += "\nwith hold_measuring_lock(): print(concurrent_runs.other())"
    inside = ("unshare", "--pid", "--fork", sys.executable, "-c")
    env = {**os.environ, "NEARMETAL_HOME": str(tmp_path / "one")}
    with subprocess.Popen([*inside, HELD], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            assert subprocess.check_output([*inside, told]) == b"1\n"
        finally:
            process.communicate(b"\n")


def test_where_the_hosts_file_cannot_be_had_nobody_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_LOCKS", str(tmp_path / "nowhere"))
    with another(tmp_path / "one"), hold_measuring_lock():
        assert concurrent_runs.other() is None
    (tmp_path / "nearmetal-measuring").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("NEARMETAL_LOCKS", str(tmp_path))
    with hold_measuring_lock():
        assert concurrent_runs.other() is None
    assert not (tmp_path / "elsewhere").exists(), "no link is followed"


@pytest.mark.parametrize(("one", "other"), [("real", "linked"), ("linked", "real")])
def test_no_link_is_followed_to_a_file_that_is_there(
    one: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("real", "linked"):
        (tmp_path / folder).mkdir()
    file = tmp_path / "real" / "nearmetal-measuring"
    file.touch()
    (tmp_path / "linked" / file.name).symlink_to(file)
    monkeypatch.setenv("NEARMETAL_LOCKS", str(tmp_path / one))
    with another(tmp_path / "home"):
        monkeypatch.setenv("NEARMETAL_LOCKS", str(tmp_path / other))
        assert concurrent_runs.other() is None


def test_all_of_a_host_have_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEARMETAL_LOCKS")
    assert concurrent_runs._path() == Path("/run/lock/nearmetal-measuring")


def test_two_of_one_home_are_kept_apart(home: Path) -> None:
    with another(home) as process, pytest.raises(HostCannot) as refused, hold_measuring_lock():
        pass
    told = f"another run is measuring on this host (process {process}: study web, /runs/web-1)"
    assert refused.value.what == told


def test_a_run_is_named_to_those_that_wait_for_it(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resolved, "is_pretended", False)
    lock = Path(home, "state", "measuring.lock")
    study = tmp_path / "study.toml"
    study.write_text(mock_run.STUDY)
    assert called("run", str(study), "-o", "one", cwd=tmp_path).returncode == 0
    assert lock.read_text() == f"process {os.getpid()}: study order, {tmp_path / 'one'}"
    with another(home):
        refused = called("run", str(study), "-o", "two", cwd=tmp_path)
    assert refused.returncode == 3 and "study web, /runs/web-1" in refused.stderr
    assert not (tmp_path / "two").exists()


async def test_pretended_machines_neither_wait_nor_keep_others_waiting(tmp_path: Path, home: Path) -> None:
    measured = []

    def measure(event: Event) -> None:
        with hold_measuring_lock():
            measured.append(event)

    said: list[str] = []
    await mock_run.run(tmp_path / "first", listener=measure)
    assert measured
    with another(home):
        _, records = await mock_run.run(tmp_path / "second", say=said.append)
    assert [record.status for record in records] == ["ok"] * 4
    assert [text for text in said if "disturbs" in text] == []
    assert "another-run" not in {warned.code for record in records for warned in record.warnings}


async def test_two_that_begin_at_once_in_one_folder_do_not_mix(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ended = await asyncio.gather(*(mock_run.run(folder) for _ in range(2)), return_exceptions=True)
    (refused,) = (one for one in ended if isinstance(one, BaseException))
    assert isinstance(refused, BadInput | HostCannot)
    assert len(list(read_records(RunFolder(folder).journal))) == 4


async def test_trials_tell_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resolved, "is_pretended", False)
    with another(tmp_path / "one"):
        _, records = await mock_run.run(tmp_path / "first")
    text = "another nearmetal was at work on this host: each disturbed the other"
    told = [[warned.text for warned in record.warnings if warned.code == "another-run"] for record in records]
    assert told == [[text]] * 4
    _, records = await mock_run.run(tmp_path / "second")
    assert "another-run" not in {warned.code for record in records for warned in record.warnings}


def test_who_starts_a_run_is_told_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resolved, "is_pretended", False)
    study = tmp_path / "study.toml"
    study.write_text(mock_run.STUDY)
    with another(tmp_path / "one") as process:
        done = called("run", str(study), "-o", str(tmp_path / "run"), "--json")
    assert done.returncode == 0
    assert f"another nearmetal (process {process}) is at work on this host" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["trials"]["ok"] == 4


def test_who_has_a_machine_up_or_has_the_host_tried_beside_it_is_told(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "examine", AsyncMock(return_value=doctor.Diagnosis.of([])))  # nothing is tried
    told = "measures on this host, and this disturbs it"
    with another(tmp_path / "one") as process:
        up = called("up", "mock", "--json")
        tried = called("doctor", "--json")
    down = called("down", "mock")
    assert (up.returncode, down.returncode) == (0, 0)
    for said in (up, tried):
        assert f"another nearmetal (process {process}) {told}" in said.stderr
    assert told not in called("doctor", "--json").stderr
