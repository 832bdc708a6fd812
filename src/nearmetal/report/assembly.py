"""A report put together: its chapters with their pictures, the page, the content of its files. Touches no file."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nearmetal.report import formats, page
from nearmetal.report.blocks import Chart, Section, Table
from nearmetal.report.chapters import describe_charts, make_sections, without_charts
from nearmetal.report.drawing import Begun, Drawers, Picture, Undrawn, collect_drawn
from nearmetal.report.page import PictureKey
from nearmetal.report.report_input import ReportInput
from nearmetal.say import Say

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
