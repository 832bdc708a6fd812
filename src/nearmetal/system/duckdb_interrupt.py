"""Work of DuckDB that Ctrl-C ends at once."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Database

_Answer = TypeVar("_Answer")


def run_interruptibly(database: "Database", work: Callable[[], _Answer]) -> _Answer:
    """Run it in a thread of its own: in the main thread DuckDB hears Ctrl-C late, or makes a RuntimeError of it."""
    with ThreadPoolExecutor(1) as thread:
        answer: Future[_Answer] | None = None
        try:
            answer = thread.submit(work)
            return answer.result()
        except BaseException:
            while answer and not answer.done():  # again, if it was between two steps
                database.interrupt()
                wait([answer], 0.1)
            raise
