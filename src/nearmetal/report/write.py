"""Write a run's report, or render it in one format: the only part of the report that touches files."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nearmetal.report import drawing, formats, page
from nearmetal.report.blocks import Chart, Section, Table
from nearmetal.report.drawing import Picture
from nearmetal.report.reading import ReportInput, read, sections
from nearmetal.store.folder import RunFolder, write_whole

Format = Literal["html", "md", "json", "csv", "png"]


@dataclass(frozen=True)
class _Made:
    """A report with its chapters and pictures, before it takes a form."""

    report: ReportInput
    sections: Sequence[Section]
    pictures: Mapping[tuple[str, str], Picture]

    @property
    def charts(self) -> list[Chart]:
        return [block for section in self.sections for block in section.blocks if isinstance(block, Chart)]

    @property
    def tables(self) -> list[Table]:
        return [block for section in self.sections for block in section.blocks if isinstance(block, Table)]


def write(folder: RunFolder) -> Path:
    """Write report.html and report/ (tables as CSV, charts as SVG and PNG, analysis.json); the page's path.

    Both are replaced as a whole: a reader sees the old report or the new one. BadInput when the folder is unreadable.
    """
    made = _make(folder, with_pictures=True)
    fresh = folder.path / ".report.new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    for name, content in _files(made).items():
        (fresh / name).write_bytes(content)
    _replace(fresh, folder.report)
    write_whole(folder.page, _html(made).encode())
    return folder.page


def render(folder: RunFolder, format: Format) -> str | bytes:
    """The report in one format: the page, Markdown, the analysis, the table of contrasts, the picture of verdicts."""
    if format == "html":
        return _html(_make(folder, with_pictures=True))
    made = _make(folder, with_pictures=False)
    if format == "md":
        study = made.report.manifest.study
        return formats.markdown(study.name, study.question, made.sections)
    if format == "json":
        return _json(made.report)
    if format == "csv":
        return "".join(formats.comma_separated(table) for table in made.tables if table.name == "verdicts")
    return next(
        (drawing.png(drawing.svg(chart.panels[0].spec)) for chart in made.charts if chart.name == "verdicts"), b""
    )


def _make(folder: RunFolder, *, with_pictures: bool) -> _Made:
    report = read(folder)
    chapters = sections(report)
    made = _Made(report, chapters, {})
    if not with_pictures:
        return made
    pictures = {
        (chart.name, panel.name): Picture(drawing.svg(panel.spec), drawing.svg(panel.narrow) if panel.narrow else None)
        for chart in made.charts
        for panel in chart.panels
    }
    return _Made(report, chapters, pictures)


def _html(made: _Made) -> str:
    return page.html(made.report, made.sections, made.pictures)


def _json(report: ReportInput) -> str:
    return report.analysis.model_dump_json(indent=1) + "\n"


def _files(made: _Made) -> dict[str, bytes]:
    content = {"analysis.json": _json(made.report).encode()}
    for table in made.tables:
        content[f"{formats.file_name(table.name)}.csv"] = formats.comma_separated(table).encode()
    for chart in made.charts:
        for panel in chart.panels:
            name = formats.picture_name(chart, panel.name)
            drawn = made.pictures[chart.name, panel.name].svg
            content[f"{name}.svg"] = drawn.encode()
            content[f"{name}.png"] = drawing.png(drawn)
    return content


def _replace(fresh: Path, place: Path) -> None:
    """Put a folder in another's place. A crash in between leaves one of the two, and the next report mends it."""
    old = place.with_name(f".{place.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.replace(old)
    fresh.replace(place)
    shutil.rmtree(old, ignore_errors=True)
