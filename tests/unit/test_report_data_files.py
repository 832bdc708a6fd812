"""The fork that makes a report's data files: what it makes, and what becomes of it if something fails."""

import os
import threading
from pathlib import Path

import pytest

from nearmetal.report import assembly
from nearmetal.report.assembly import DataFilesFork, make_data_files
from nearmetal.report.report_input import ReportInput, read_run_input
from tests import plausible_run


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportInput:
    return read_run_input(plausible_run.make(tmp_path_factory.mktemp("run") / "quickstart-1"))


def list_children() -> set[int]:
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def test_a_fork_makes_the_same_files(report: ReportInput) -> None:
    before = list_children()
    with DataFilesFork(report) as fork:
        fork.start()
        assert len(list_children() - before) == 1
        assert fork.collect() == make_data_files(report)
    assert list_children() == before


def test_what_fails_in_the_fork_is_raised_here(report: ReportInput, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: ReportInput) -> dict[str, bytes]:
        raise ZeroDivisionError

    monkeypatch.setattr(assembly, "make_data_files", fail)
    with DataFilesFork(report) as fork:
        fork.start()
        with pytest.raises(ZeroDivisionError):
            fork.collect()


def test_a_fork_that_is_not_waited_for_is_ended(report: ReportInput) -> None:
    before = list_children()
    with DataFilesFork(report) as fork:
        fork.start()
    assert list_children() == before


def test_a_process_with_threads_does_not_fork(report: ReportInput) -> None:
    before, is_done = list_children(), threading.Event()
    thread = threading.Thread(target=is_done.wait)
    thread.start()
    try:
        with DataFilesFork(report) as fork:
            fork.start()
            assert list_children() == before
            assert fork.collect() == make_data_files(report)
    finally:
        is_done.set()
        thread.join()
