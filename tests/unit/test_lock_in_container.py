"""The lock of a dead run in a process namespace, where the kernel does not say who took it: the file does."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearmetal.lab import process_locks


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_locks, "_find_taker", lambda file: None)


@pytest.mark.usefixtures("untold")
def test_what_a_dead_run_left_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    file = tmp_path / "lock"
    file.write_text(f"process {dead.stdout.strip()}")
    held = os.open(file, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    # It is over once somebody has waited.
    monkeypatch.setattr("nearmetal.lab.process_locks.time.sleep", lambda seconds: fcntl.flock(held, fcntl.LOCK_UN))
    with file.open("r") as waiting:
        assert process_locks.lock_after_dead(waiting, 20)
    os.close(held)


@pytest.mark.usefixtures("untold")
@pytest.mark.parametrize("says", ["process {own}", "", "rubbish", "process x"])
def test_nobody_else_is_waited_for(says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lock"
    file.write_text(says.format(own=os.getpid()))
    held = os.open(file, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    monkeypatch.setattr("nearmetal.lab.process_locks.time.sleep", lambda seconds: pytest.fail("it waited"))
    with file.open("r") as waiting:
        assert not process_locks.lock_after_dead(waiting, 20)
    os.close(held)
