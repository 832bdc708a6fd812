"""Write a run's report, or render it in one format: the only part of the report that touches files."""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from nearmetal.errors import BadInput
from nearmetal.files import write_whole
from nearmetal.report import exports, formats, page
from nearmetal.report.blocks import Chart, Section, Table
from nearmetal.report.chapters import describe_charts, make_sections, without_charts
from nearmetal.report.drawing import (
    Begun,
    Drawers,
    Picture,
    Undrawn,
    collect_drawn,
    draw_picture,
    has_engine,
    require_engine,
)
from nearmetal.report.reading import ReportInput, read, without_collection
from nearmetal.report.tidy import make_table
from nearmetal.say import Say
from nearmetal.store.folder import RunFolder

Format = Literal["html", "md", "json", "csv", "png"]


Pictures = Mapping[tuple[str, str, bool], Picture]
"""By chart, panel, and whether it is the narrow one."""


@dataclass(frozen=True)
class _Chapters:
    """A report before it takes a form."""

    report: ReportInput
    sections: Sequence[Section]

    @classmethod
    def from_folder(
        cls, folder: RunFolder, say: Say | None, take: Callable[[Section], None] | None = None
    ) -> "_Chapters":
        report = read(folder)
        return cls(report, make_sections(report, say, take))

    @property
    def charts(self) -> list[Chart]:
        return [chart for section in self.sections for chart in _list_charts(section)]

    @property
    def tables(self) -> list[Table]:
        return [block for section in self.sections for block in section.blocks if isinstance(block, Table)]


def _list_charts(section: Section) -> list[Chart]:
    return [block for block in section.blocks if isinstance(block, Chart)]


def write(folder: RunFolder, say: Say | None = None) -> Path:
    """Write report.html and report/ (tables as CSV, charts as SVG, PNG and Vega-Lite, analysis.json); the page's path.

    A large chart has no PNG.
    Both are replaced as a whole: a reader sees the old report or the new one. BadInput when the folder is unreadable.
    `say` is told of sections that break; where nobody listens, what they raise goes on.
    """
    with without_collection():
        return _write(folder, say)


def _write(folder: RunFolder, say: Say | None) -> Path:
    files: dict[str, bytes] = {}
    chapters, pictures = _draw_charts(
        folder, say, also_png=True, meanwhile=lambda report: files.update(_make_data_files(report))
    )
    files |= _make_files(chapters, pictures)
    fresh = folder.path / ".report.new"
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        _write_new(fresh, files)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        error.filename = str(folder.report)
        raise
    _replace_folder(fresh, folder.report)
    write_whole(folder.page, page.render_html(chapters.report, chapters.sections, pictures).encode())
    return folder.page


def render(folder: RunFolder, format: Format, say: Say | None = None) -> str | bytes:
    """The report in one format: the page, Markdown, the analysis, the table of contrasts, the picture of verdicts.

    `say` is told of sections that break; where nobody listens, what they raise goes on.
    """
    with without_collection():
        return _render(folder, format, say)


def _render(folder: RunFolder, format: Format, say: Say | None) -> str | bytes:
    if format == "json":
        return _render_json(read(folder))
    if format == "png":
        require_engine()
    if format == "html":
        chapters, pictures = _draw_charts(folder, say, also_png=False)
        return page.render_html(chapters.report, chapters.sections, pictures)
    chapters = _Chapters.from_folder(folder, say)
    if not has_engine():
        chapters = replace(chapters, sections=describe_charts(chapters.sections))
    match format:
        case "md":
            study = chapters.report.manifest.study
            return formats.render_markdown(study.name, study.question, chapters.sections)
        case "csv":
            return next((formats.comma_separated(table) for table in chapters.tables if table.name == "verdicts"), "")
        case "png":
            return _verdicts_png(chapters, folder)


def _verdicts_png(chapters: _Chapters, folder: RunFolder) -> bytes:
    for chart in chapters.charts:
        if chart.name == "verdicts" and chart.panels:
            return draw_picture(chart.panels[0].spec).png
    raise BadInput("no contrast of this run can be drawn", str(folder.path), "read why: nearmetal report --format md")


def _draw_charts(
    folder: RunFolder, say: Say | None, also_png: bool, meanwhile: Callable[[ReportInput], None] | None = None
) -> tuple[_Chapters, Pictures]:
    """Every picture of every chart, and the chapters with a notice for each chart that cannot be drawn.

    Without an engine there are no pictures, and the chapters describe them.

    A PNG is for files: the narrow ones stand in the page alone and have none. What is to be done `meanwhile` is done
    while other processes draw.
    """
    if not has_engine():
        chapters = _Chapters.from_folder(folder, say)
        if meanwhile:
            meanwhile(chapters.report)
        return replace(chapters, sections=describe_charts(chapters.sections, say)), {}
    begun: dict[tuple[str, str, bool], Begun] = {}
    with Drawers() as drawers:

        def begin_charts(section: Section) -> None:
            for chart in _list_charts(section):
                for panel in chart.panels:
                    for narrow, spec in ((False, panel.spec), (True, panel.narrow)):
                        if spec is not None:
                            begun[chart.name, panel.name, narrow] = drawers.begin_drawing(spec, also_png and not narrow)

        chapters = _Chapters.from_folder(folder, say, begin_charts)
        if meanwhile:
            meanwhile(chapters.report)
        all_drawn = dict(zip(begun, collect_drawn(begun.values()), strict=True))
    pictures = {key: one for key, one in all_drawn.items() if isinstance(one, Picture)}
    why = {key[0]: one.why for key, one in all_drawn.items() if isinstance(one, Undrawn)}
    return replace(chapters, sections=without_charts(chapters.sections, why, say)), pictures


def _render_json(report: ReportInput) -> str:
    return report.analysis.model_dump_json(indent=1) + "\n"


def _make_data_files(report: ReportInput) -> dict[str, bytes]:
    content = {"analysis.json": _render_json(report).encode()}
    for tidy in ("trials", "blocks"):
        content[f"{tidy}.csv"] = exports.write_csv(make_table(report, tidy)).encode()
    return content


def _make_files(chapters: _Chapters, pictures: Pictures) -> dict[str, bytes]:
    content: dict[str, bytes] = {}
    for table in (one for one in chapters.tables if one.where != "page"):
        content[f"{formats.file_name(table.name)}.csv"] = formats.comma_separated(table).encode()
    for chart in chapters.charts:
        for panel in chart.panels:
            name = formats.picture_name(chart, panel.name)
            picture = pictures[chart.name, panel.name, False]
            content[f"{name}.svg"] = picture.svg.encode()
            if picture.png:
                content[f"{name}.png"] = picture.png
            content[f"{name}.vl.json"] = json.dumps(panel.spec).encode()
    return content


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
