"""One measurement at a time on a host."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab import process_locks
from nearmetal.lab.process_locks import hold_exclusive_lock
from tests.nfs_locks import lock_as_on_nfs


def test_who_comes_second_is_told_who_is_there(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    with hold_exclusive_lock(path, "it is busy"):
        for _ in range(2):
            with (
                pytest.raises(HostCannot, match=rf"it is busy \(process {os.getpid()}\)"),
                hold_exclusive_lock(path, "it is busy"),
            ):
                raise AssertionError("both have it")
    with hold_exclusive_lock(path, "it is busy"):
        pass


def test_who_waits_for_what_a_dead_run_puts_right_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_locks, "_TOLD", 0.0)
    path = tmp_path / "lock"
    said: list[str] = []
    with path.open("w") as heir:
        number = heir.fileno()
        take = f"""
import fcntl, os
fcntl.flock({number}, fcntl.LOCK_EX)
os.write({number}, b"process %d" % os.getpid())  # which a process namespace needs
"""
        subprocess.run([sys.executable, "-c", take], pass_fds=[number], check=True)
        assert not process_locks.try_lock(os.open(path, os.O_RDONLY))

        def hear(text: str) -> None:
            said.append(text)
            heir.close()  # all is put right

        with hold_exclusive_lock(path, "it is busy", hear):
            pass
    assert said == ["a run whose controller was killed still puts right what it made: it has up to 120 s"]


def test_a_state_on_nfs_is_locked_and_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock_as_on_nfs(monkeypatch)
    with process_locks.hold_measuring_lock(), process_locks.hold_pretending_lock():
        pass
    process_locks.wait_for_dead_run()


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: object, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(HostCannot, match="gives no lock: No locks available") as refused:
        process_locks.wait_for_dead_run()
        with hold_exclusive_lock(tmp_path / "lock", "it is busy"):
            raise AssertionError("nobody has it")
    assert refused.value.where == str(tmp_path / "lock")
    assert "NEARMETAL_HOME" in refused.value.remedy
