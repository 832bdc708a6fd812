"""A report put together: its chapters with their pictures, the page, the content of its files. Touches no file."""

import json
import os
import pickle
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from nearmetal.progress_messages import Say
from nearmetal.report import exports, formats, page
from nearmetal.report.blocks import Chart, Section, Table
from nearmetal.report.chapters import describe_charts, make_sections, without_charts
from nearmetal.report.drawing import Begun, Drawers, Picture, Undrawn, collect_drawn
from nearmetal.report.page import PictureKey
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


VERDICTS = "verdicts"
"""The chart and the table of what was judged."""


def _list_charts(sections: Iterable[Section]) -> list[Chart]:
    return [block for section in sections for block in section.blocks if isinstance(block, Chart)]


def list_tables(sections: Iterable[Section]) -> list[Table]:
    return [block for section in sections for block in section.blocks if isinstance(block, Table)]


@dataclass(frozen=True)
class DrawnReport:
    """The chapters of a report with their pictures, and the page."""

    sections: Sequence[Section]
    pictures: Mapping[PictureKey, Picture]
    page: str


def draw_charts(
    report: ReportInput,
    drawers: Drawers | None,
    say: Say | None,
    also_png: bool,
    when_analysed: Callable[[], None] | None = None,
) -> DrawnReport:
    """Every picture of every chart, and the chapters with a notice for each chart that cannot be drawn.

    Without an engine there are no pictures, and the chapters describe them. A PNG is for slides: the verdicts alone
    have it. The page is rendered while other processes draw, and gets its pictures at the end.
    """
    if drawers is None:
        sections = describe_charts(make_sections(report, say, begin_others=when_analysed), say)
        return DrawnReport(sections, {}, page.render_html(report, sections, ()))
    begun: dict[PictureKey, Begun] = {}

    def begin_charts(section: Section) -> None:
        for chart in _list_charts([section]):
            is_png_wanted = also_png and chart.name == VERDICTS
            for panel in chart.panels:
                begun[chart.name, panel.name, False] = drawers.begin_drawing(panel.spec, is_png_wanted)
                if panel.narrow is not None:
                    begun[chart.name, panel.name, True] = drawers.begin_drawing(panel.narrow, png=False)

    sections = make_sections(report, say, begin_charts, when_analysed)
    rendered = page.render_html(report, sections, begun)
    all_drawn = dict(zip(begun, collect_drawn(begun.values()), strict=True))
    pictures = {key: one for key, one in all_drawn.items() if isinstance(one, Picture)}
    if why := {key[0]: one.why for key, one in all_drawn.items() if isinstance(one, Undrawn)}:
        sections = without_charts(sections, why, say)
        rendered = page.render_html(report, sections, pictures)
    return DrawnReport(sections, pictures, page.put_pictures(rendered, pictures))


def make_files(drawn: DrawnReport) -> dict[str, bytes]:
    content: dict[str, bytes] = {}
    for table in (one for one in list_tables(drawn.sections) if one.where != "page"):
        content[f"{formats.file_name(table.name)}.csv"] = formats.comma_separated(table).encode()
    for chart in _list_charts(drawn.sections):
        for panel in chart.panels:
            name = formats.picture_name(chart, panel.name)
            picture = drawn.pictures[chart.name, panel.name, False]
            content[f"{name}.svg"] = picture.svg.encode()
            if picture.png:
                content[f"{name}.png"] = picture.png
            content[f"{name}.vl.json"] = json.dumps(panel.spec).encode()
    return content
