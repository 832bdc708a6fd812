"""Write a run's report, or render it in one format: the only part of the report that touches files.

What a report is made with takes half a second to import. The engine that draws starts meanwhile.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nearmetal.progress_messages import Say
from nearmetal.report.drawing import Drawers, has_engine
from nearmetal.system.files import closing_descriptor, write_whole
from nearmetal.system.garbage_collection import without_collection

if TYPE_CHECKING:
    from nearmetal.store.run_folder import RunFolder

Format = Literal["html", "md", "json", "csv"]


def write(folder: "RunFolder", say: Say | None = None) -> Path:
    """Write report.html and report/ (tables as CSV, charts as SVG and Vega-Lite, analysis.json); the page's path.

    The chart of verdicts is there as PNG too, unless it is large. Page and folder are replaced as a whole: a reader
    sees the old report or the new one. BadInput when the folder is unreadable.
    `say` is told of sections that break; where nobody listens, what they raise goes on.
    """
    with without_collection():
        return _write(folder, say)


def _write(folder: "RunFolder", say: Say | None) -> Path:
    with _open_drawers() as drawers:
        from nearmetal.report.assembly import DataFilesFork, draw_charts, make_files
        from nearmetal.report.report_input import read_run_input

        report = read_run_input(folder)
        with DataFilesFork(report) as data_files:
            drawn = draw_charts(report, drawers, say, True, data_files.start)
            files = data_files.collect() | make_files(drawn)
    replace_with_files(folder.report, files)
    write_whole(folder.page, drawn.page.encode())
    return folder.page


def render(folder: "RunFolder", format: Format, say: Say | None = None) -> str:
    """The report in one format: the page, Markdown, the analysis, the table of contrasts.

    `say` is told of sections that break; where nobody listens, what they raise goes on.
    """
    with without_collection():
        return _render(folder, format, say)


def _render(folder: "RunFolder", format: Format, say: Say | None) -> str:
    with _open_drawers(format == "html") as drawers:
        from nearmetal.report import assembly, formats
        from nearmetal.report.assembly import render_analysis
        from nearmetal.report.chapters import describe_charts, make_sections
        from nearmetal.report.report_input import read_run_input

        report = read_run_input(folder)
        if format == "html":
            return assembly.draw_charts(report, drawers, say, False).page
    if format == "json":
        return render_analysis(report)
    sections = make_sections(report, say)
    if not has_engine():
        sections = describe_charts(sections)
    match format:
        case "md":
            study = report.manifest.study
            return formats.render_markdown(study.name, study.question, sections)
        case "csv":
            verdicts = (table for table in assembly.list_tables(sections) if table.name == assembly.VERDICTS)
            return next(map(formats.comma_separated, verdicts), "")


def _open_drawers(are_wanted: bool = True) -> AbstractContextManager[Drawers | None]:
    """Those that draw, which get ready while a run is read; None if nothing is to be drawn, or without an engine."""
    return Drawers() if are_wanted and has_engine() else nullcontext()


def replace_with_files(place: Path, files: Mapping[str, bytes]) -> None:
    """Put a folder of these files in a folder's place as a whole: a reader sees the old or the new one. OSError."""
    fresh = place.with_name(f".{place.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        _write_new(fresh, files)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        error.filename = str(place)
        raise
    _replace_folder(fresh, place)


def _write_new(fresh: Path, files: Mapping[str, bytes]) -> None:
    """A folder of files. Whoever owns the run may put others in their places meanwhile: no link is followed."""
    fresh.mkdir()
    with closing_descriptor(os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)) as folder:
        for name, content in files.items():
            with open(name, "xb", opener=partial(os.open, mode=0o666, dir_fd=folder)) as file:
                file.write(content)


def _replace_folder(fresh: Path, place: Path) -> None:
    """Put a folder in another's place. A crash in between leaves one of the two, and the next report mends it."""
    old = place.with_name(f".{place.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.replace(old)
    fresh.replace(place)
    shutil.rmtree(old, ignore_errors=True)
