"""Who measures a run now is seen by all who may read its journal, and by looking nobody takes it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.store.journal_lock import hold_journal, is_locked

_HOLD = """
import sys, time
from pathlib import Path
from nearmetal.store.journal_lock import hold_journal
with hold_journal(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_what_is_held_is_seen_however_often_and_is_free_afterwards(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    with hold_journal(journal):
        assert all(is_locked(journal) for _ in range(3))
        with pytest.raises(HostCannot, match="another process"), hold_journal(journal):
            pass
        assert is_locked(journal)
    assert not is_locked(journal)
    with hold_journal(journal):
        assert is_locked(journal)


def test_a_reader_and_writer_of_the_same_process_do_not_let_go_of_it(tmp_path: Path) -> None:
    """As locks by process would: the runner reads its own journal."""
    journal = tmp_path / "journal.jsonl"
    with hold_journal(journal):
        journal.write_text("a line\n")
        assert journal.read_text() == "a line\n"
        assert is_locked(journal)


def test_it_is_free_when_its_holder_was_killed(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(journal)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert is_locked(journal)
        holder.kill()
    assert not is_locked(journal)


def test_a_journal_that_is_not_there_is_not_made_by_looking(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        is_locked(tmp_path / "journal.jsonl")
    assert not (tmp_path / "journal.jsonl").exists()
