"""The files of a report that programs read: analysis.json, trials.csv and blocks.csv.

They take as long as all chapters, so a fork of this process makes them while it makes the chapters.
"""

import os
import pickle
import signal
import threading
import warnings
from types import TracebackType
from typing import Self

from nearmetal.report import exports
from nearmetal.report.report_input import ReportInput
from nearmetal.report.tidy_tables import make_table


def make_data_files(report: ReportInput) -> dict[str, bytes]:
    """Content by name."""
    return {
        "analysis.json": render_analysis(report).encode(),
        "trials.csv": exports.write_csv(make_table(report, "trials")).encode(),
        "blocks.csv": exports.write_csv(make_table(report, "blocks")).encode(),
    }


def render_analysis(report: ReportInput) -> str:
    """The analysis as JSON, `analysis.v1`."""
    return report.analysis.model_dump_json(indent=1) + "\n"


class DataFilesFork:
    """A fork that makes the files. If it fails, this process makes them, and raises what there is to raise.

    A process with threads does not fork: the fork would wait for ever for a lock that another thread holds.
    """

    def __init__(self, report: ReportInput) -> None:
        self._report = report
        self._made = os.fdopen(os.memfd_create("data-files"), "w+b")  # of memory, since a disk may take none
        self._process: int | None = None

    def start(self) -> None:
        """Fork, once the run is analysed: else both would analyse it."""
        if threading.active_count() == 1:
            self._process = self._fork()

    def _fork(self) -> int:
        with warnings.catch_warnings():
            # Python 3.12 and later warn of threads, and numpy's count: they know forks, and make none of the files.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
        if process:
            return process
        status = 1
        try:
            pickle.dump(make_data_files(self._report), self._made)
            self._made.flush()
            status = 0
        finally:
            os._exit(status)

    def __enter__(self) -> Self:
        return self

    def collect(self) -> dict[str, bytes]:
        """Content by name, once all of it is there."""
        process, self._process = self._process, None
        if process is None or os.waitpid(process, 0)[1]:
            return make_data_files(self._report)
        self._made.seek(0)
        files: dict[str, bytes] = pickle.load(self._made)
        return files

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        self._made.close()
