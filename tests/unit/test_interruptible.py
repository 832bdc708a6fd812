"""Ctrl-C ends what DuckDB does, wherever it does it."""

import os
import signal
import threading
from pathlib import Path

import duckdb
import pytest

from nearmetal.store import query
from nearmetal.system.interruptible import run_interruptibly

LONG = "SELECT count(*) FROM range(10000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"


@pytest.fixture
def interruption() -> None:
    """Ctrl-C, in half a second. DuckDB takes one CPU meanwhile: other tests want some too."""
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()


@pytest.mark.timeout(60)
def test_work_is_ended_as_by_ctrl_c(interruption: None) -> None:
    with duckdb.connect(config={"threads": 1}) as database, pytest.raises(KeyboardInterrupt):
        run_interruptibly(database, lambda: database.sql(LONG).fetchall())


@pytest.mark.timeout(60)
def test_so_are_the_tables_of_a_question(interruption: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make_tables(database: duckdb.DuckDBPyConnection, kept: object) -> list[str]:
        database.execute("SET threads = 1").execute(LONG)
        return []

    monkeypatch.setattr(query, "_make_tables", make_tables)
    with pytest.raises(KeyboardInterrupt):
        query.answer_query("SELECT 1", [], tmp_path, print)
