"""Folders of one command: nobody else reads them, and they go with it, or by `clean` when it was killed."""

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nearmetal.system.temporary_folders import sweep_folders, temporary_folder
from tests.nfs_locks import lock_as_on_nfs

KILLED = """
import os, signal
from nearmetal.system.temporary_folders import temporary_folder
with temporary_folder() as folder:
    (folder / "capture.pcap").write_text("packets")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path))


def test_it_is_its_owners_alone_and_goes_with_all_that_is_in_it() -> None:
    with temporary_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "file").write_text("packets")
    assert not folder.exists()


def test_what_a_killed_command_left_is_swept_and_what_is_in_use_stays() -> None:
    left = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False).stdout.strip()
    assert Path(left, "capture.pcap").exists(), "it was not killed in the middle"
    with temporary_folder() as folder:
        sweep_folders()
        assert folder.exists() and not Path(left).exists()


def test_a_home_on_nfs_has_them_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock_as_on_nfs(monkeypatch)
    with temporary_folder() as folder:
        assert tmp_path in folder.parents
        sweep_folders()
        assert folder.exists()


def test_what_is_being_made_is_not_swept() -> None:
    """Between a folder and its lock: who makes one keeps a sweep away from all of them."""
    with temporary_folder() as folder:
        parent = folder.parent
    unlocked = parent / "nearmetal-new"
    unlocked.mkdir()
    making = os.open(parent, os.O_RDONLY)
    try:
        fcntl.flock(making, fcntl.LOCK_SH)
        sweep_folders()
        assert unlocked.exists()
    finally:
        os.close(making)
    sweep_folders()
    assert not unlocked.exists()


def test_who_has_no_folder_of_state_has_one_where_all_have_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").write_text("no folder")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with temporary_folder() as folder:
        assert folder.parent == tmp_path
    assert not folder.exists()
