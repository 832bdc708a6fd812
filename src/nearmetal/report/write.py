"""Write a run's report, or render it in one format: the only part of the report that touches files."""

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from nearmetal.report import formats, page
from nearmetal.report.blocks import Chart, Section, Table
from nearmetal.report.chapters import describe_charts, make_sections, without_charts
from nearmetal.report.data_files import DataFilesFork, render_analysis
from nearmetal.report.drawing import (
    Begun,
    Drawers,
    Picture,
    Undrawn,
    collect_drawn,
    has_engine,
)
from nearmetal.report.page import PictureKey
from nearmetal.report.reading import ReportInput, read, without_collection
from nearmetal.say import Say
from nearmetal.store.folder import RunFolder
from nearmetal.system.files import write_whole

Format = Literal["html", "md", "json", "csv"]

_VERDICTS = "verdicts"
"""The chart and the table of what was judged."""


def _list_charts(sections: Iterable[Section]) -> list[Chart]:
    return [block for section in sections for block in section.blocks if isinstance(block, Chart)]


def _list_tables(sections: Iterable[Section]) -> list[Table]:
    return [block for section in sections for block in section.blocks if isinstance(block, Table)]


def write(folder: RunFolder, say: Say | None = None) -> Path:
    """Write report.html and report/ (tables as CSV, charts as SVG and Vega-Lite, analysis.json); the page's path.

    The chart of verdicts is there as PNG too, unless it is large. Page and folder are replaced as a whole: a reader
    sees the old report or the new one. BadInput when the folder is unreadable.
    `say` is told of sections that break; where nobody listens, what they raise goes on.
    """
    with without_collection():
        return _write(folder, say)


def _write(folder: RunFolder, say: Say | None) -> Path:
    with _open_drawers() as drawers:
        report = read(folder)
        with DataFilesFork(report) as data_files:
            drawn = _draw_charts(report, drawers, say, also_png=True)
            files = data_files.collect() | _make_files(drawn)
    replace_with_files(folder.report, files)
    write_whole(folder.page, drawn.page.encode())
    return folder.page


def render(folder: RunFolder, format: Format, say: Say | None = None) -> str:
    """The report in one format: the page, Markdown, the analysis, the table of contrasts.

    `say` is told of sections that break; where nobody listens, what they raise goes on.
    """
    with without_collection():
        return _render(folder, format, say)


def _render(folder: RunFolder, format: Format, say: Say | None) -> str:
    if format == "json":
        return render_analysis(read(folder))
    if format == "html":
        with _open_drawers() as drawers:
            return _draw_charts(read(folder), drawers, say, also_png=False).page
    report = read(folder)
    sections = make_sections(report, say)
    if not has_engine():
        sections = describe_charts(sections)
    match format:
        case "md":
            study = report.manifest.study
            return formats.render_markdown(study.name, study.question, sections)
        case "csv":
            verdicts = (table for table in _list_tables(sections) if table.name == _VERDICTS)
            return next(map(formats.comma_separated, verdicts), "")


@dataclass(frozen=True)
class _Drawn:
    """The chapters of a report with their pictures, and the page."""

    sections: Sequence[Section]
    pictures: Mapping[PictureKey, Picture]
    page: str


def _open_drawers() -> AbstractContextManager[Drawers | None]:
    """Those that draw, which get ready while a run is read; None without an engine."""
    return Drawers() if has_engine() else nullcontext()


def _draw_charts(report: ReportInput, drawers: Drawers | None, say: Say | None, also_png: bool) -> _Drawn:
    """Every picture of every chart, and the chapters with a notice for each chart that cannot be drawn.

    Without an engine there are no pictures, and the chapters describe them. A PNG is for slides: the verdicts alone
    have it. The page is rendered while other processes draw, and gets its pictures at the end.
    """
    if drawers is None:
        sections = describe_charts(make_sections(report, say), say)
        return _Drawn(sections, {}, page.render_html(report, sections, ()))
    begun: dict[PictureKey, Begun] = {}

    def begin_charts(section: Section) -> None:
        for chart in _list_charts([section]):
            is_png_wanted = also_png and chart.name == _VERDICTS
            for panel in chart.panels:
                begun[chart.name, panel.name, False] = drawers.begin_drawing(panel.spec, is_png_wanted)
                if panel.narrow is not None:
                    begun[chart.name, panel.name, True] = drawers.begin_drawing(panel.narrow, png=False)

    sections = make_sections(report, say, begin_charts)
    rendered = page.render_html(report, sections, begun)
    all_drawn = dict(zip(begun, collect_drawn(begun.values()), strict=True))
    pictures = {key: one for key, one in all_drawn.items() if isinstance(one, Picture)}
    if why := {key[0]: one.why for key, one in all_drawn.items() if isinstance(one, Undrawn)}:
        sections = without_charts(sections, why, say)
        rendered = page.render_html(report, sections, pictures)
    return _Drawn(sections, pictures, page.put_pictures(rendered, pictures))


def _make_files(drawn: _Drawn) -> dict[str, bytes]:
    content: dict[str, bytes] = {}
    for table in (one for one in _list_tables(drawn.sections) if one.where != "page"):
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
    folder = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name, content in files.items():
            with open(name, "xb", opener=partial(os.open, mode=0o666, dir_fd=folder)) as file:
                file.write(content)
    finally:
        os.close(folder)


def _replace_folder(fresh: Path, place: Path) -> None:
    """Put a folder in another's place. A crash in between leaves one of the two, and the next report mends it."""
    old = place.with_name(f".{place.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.replace(old)
    fresh.replace(place)
    shutil.rmtree(old, ignore_errors=True)
