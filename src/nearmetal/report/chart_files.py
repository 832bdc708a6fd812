"""The charts of a run's report as files of one format, for papers, slides and other programs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from nearmetal.errors import BadInput
from nearmetal.progress_messages import Say
from nearmetal.report import formats
from nearmetal.report.blocks import Chart
from nearmetal.report.chapters import make_sections
from nearmetal.report.drawing import Spec, draw_picture, draw_svg, require_engine
from nearmetal.report.report_input import read_run_input
from nearmetal.report.write import replace_with_files
from nearmetal.store.run_folder import RunFolder
from nearmetal.system.garbage_collection import without_collection

ChartFormat = Literal["svg", "png", "vega"]

_ENDINGS: Final = {"svg": "svg", "png": "png", "vega": "vl.json"}
_VERDICTS = "verdicts"


def save_charts(folder: RunFolder, to: Path, format: ChartFormat, say: Say) -> list[Path]:
    """Write each picture of each chart into a folder of their own, which is replaced as a whole; the files' paths.

    They have the names that the report gives them. `say` is told of a chart that cannot be drawn, and of sections that
    break. HostCannot without the engine that draws; Vega-Lite needs none.
    """
    files: dict[str, bytes] = {}
    for name, spec in _list_specs(folder, format, say):
        try:
            files[f"{name}.{_ENDINGS[format]}"] = _render_spec(spec, format)
        except ValueError as error:  # of a section from elsewhere
            say(f"the chart {name!r} cannot be drawn: {next(iter(str(error).splitlines()), '')}")
    if to.parent == folder.report and folder.report.is_symlink():
        folder.report.unlink()  # or whoever wrote the run's folder would say where these files go
    to.parent.mkdir(exist_ok=True)
    replace_with_files(to, files)
    return [to / name for name in files]


def render_verdicts(folder: RunFolder, format: ChartFormat, say: Say) -> bytes:
    """The picture of the verdicts, or the first of them. BadInput if the run has none; HostCannot as `save_charts`."""
    for name, spec in _list_specs(folder, format, say):
        if name.startswith(_VERDICTS):
            return _render_spec(spec, format)
    raise BadInput("no contrast of this run can be drawn", str(folder.path), "read why: nearmetal report --format md")


def _list_specs(folder: RunFolder, format: ChartFormat, say: Say) -> Iterator[tuple[str, Spec]]:
    """Each picture's name, as that of a file without its ending, and its specification."""
    if format != "vega":
        require_engine()
    with without_collection():
        sections = make_sections(read_run_input(folder), say)
    for chart in (block for section in sections for block in section.blocks if isinstance(block, Chart)):
        for panel in chart.panels:
            yield formats.picture_name(chart, panel.name), panel.spec


def _render_spec(spec: Spec, format: ChartFormat) -> bytes:
    match format:
        case "svg":
            return draw_svg(spec).encode()
        case "png":
            return draw_picture(spec).png
        case "vega":
            return json.dumps(spec).encode()
