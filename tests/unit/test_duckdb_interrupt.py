"""Ctrl-C ends what DuckDB does, wherever it does it."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from nearmetal.store import query
from nearmetal.system.duckdb_interrupt import run_interruptibly

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Ctrl-C, whatever tests before these made of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before or signal.default_int_handler)


def be_interrupted(database: duckdb.DuckDBPyConnection) -> None:
    """Ctrl-C, and then a question of minutes. DuckDB takes one CPU for it: other tests want some too."""
    time.sleep(0.2)  # until the main thread waits
    os.kill(os.getpid(), signal.SIGINT)
    database.execute("SET threads = 1")
    database.execute("SELECT count(*) FROM range(10000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3")


def test_work_is_ended_as_by_ctrl_c() -> None:
    with duckdb.connect() as database, pytest.raises(KeyboardInterrupt):
        run_interruptibly(database, lambda: be_interrupted(database))


def test_so_are_the_tables_of_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "_make_tables", lambda database, kept: be_interrupted(database))
    with pytest.raises(KeyboardInterrupt):
        query.answer_query("SELECT 1", [], tmp_path, print)
