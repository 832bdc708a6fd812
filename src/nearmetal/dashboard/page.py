"""A run and the list of runs as pages: what has been made out of them, written as HTML."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shlex import quote

from jinja2 import Environment
from markupsafe import Markup, escape

from nearmetal.dashboard import run_overview
from nearmetal.dashboard.current_step import CurrentStep, list_values
from nearmetal.dashboard.host import HostState
from nearmetal.dashboard.live_updates import Parts
from nearmetal.dashboard.run_history import Fate, RunHistory
from nearmetal.dashboard.run_overview import GridRow, Problem
from nearmetal.errors import NearmetalError
from nearmetal.report import page as report_page
from nearmetal.report import words
from nearmetal.report.blocks import LONG, Chart, Section
from nearmetal.report.drawing import Spec
from nearmetal.report.report_input import ReportInput
from nearmetal.report.words import Labels
from nearmetal.store import runs as known
from nearmetal.store.manifest import Manifest

_FATES = (Fate.OK, Fate.RUNNING, Fate.TO_COME, Fate.INVALID, Fate.FAILED, Fate.LOST, Fate.WITHDRAWN)
_FEW = 20
"""Blocks up to which a row has room for all of them on any screen, each with its number above."""
_AT_A_GLANCE = 1000
"""More squares than this are folded."""
_ABOVE = b'<p class="kicker">'
"""What a report begins with."""
_SLOT = re.compile("<!--(strip-[0-9]+-[0-9]+)-->")


@dataclass(frozen=True)
class RunSnapshot:
    path: Path
    number: str
    """What stands for it in addresses."""
    course: RunHistory
    labels: Labels
    state: str
    time_left: str
    has_report: bool
    warned: Sequence[Problem]
    """By the latest analysis."""
    has_note: bool = False
    """Whether the run notes its steps: then they are told in a part of their own."""


@dataclass(frozen=True)
class Item:
    number: str
    name: str
    folder: str
    state: str
    why: str = ""
    """Of one that cannot be read: which of its files, and what about it."""
    study: str = ""
    created: str = ""
    bar: tuple[run_overview.BarPart, ...] = ()
    how_far: str = ""
    bad: str = ""


def render_parts(seen: RunSnapshot) -> Parts:
    """Everything of a run's page that its journal changes, but for the verdicts."""
    course, is_measured = seen.course, seen.state == "running"
    grid = list(run_overview.make_strips(course, seen.labels, is_measured))
    now, planned = course.now if is_measured else None, course.plan.blocks
    how_far = run_overview.how_far(course)
    return {
        "title": _make_title(f"{seen.state}, {how_far}", _name_run(course.study.name, seen.path)),
        "state": _render(
            "state.html.j2",
            seen=seen,
            quoted=quote(str(seen.path)),
            bar=run_overview.make_bar(course),
            how_far=how_far,
            bad=run_overview.describe_bad(course),
            doing=run_overview.describe_activity(course, seen.labels) if now else "",
            since=0.0 if now is None else max(0.0, (time.time_ns() - now.since_ns) / 1e9),
        ),
        **render_troubles(course, seen.labels, seen.warned),
        "values": _render_values(course, seen.labels) if is_measured else "",
        "grid": _render(
            "grid.html.j2",
            grid=grid,
            fates=_FATES,
            signs=run_overview.SIGNS,
            blocks=planned,
            size="few" if planned <= _FEW else "many",
            is_long=len(course.list_rows()) > LONG or len(course.list_rows()) * planned > _AT_A_GLANCE,
        ),
        **{
            f"strip-{row}-{place}": render_squares(strip)
            for row, (_, strips) in enumerate(grid)
            for place, strip in enumerate(strips)
        },
    }


def render_live(going: CurrentStep | None, path: Path) -> Parts:
    """The step that goes on, and what can be asked of the run; nothing of a run that notes no steps."""
    return {"live": "" if going is None else _render("live.html.j2", going=going, quoted=quote(str(path)))}


def _render_values(course: RunHistory, labels: Labels) -> str:
    workloads = list(list_values(course, labels))
    is_long = sum(len(rows) for _, rows in workloads) > LONG
    return _render("values.html.j2", workloads=workloads, is_long=is_long) if workloads else ""


def render_troubles(course: RunHistory, labels: Labels, warned: Sequence[Problem]) -> Parts:
    """Everything that is wrong, whoever found it."""
    troubles, more = run_overview.list_troubles(course, labels, warned)
    is_bad = any(one.tone == "worse" for one in troubles)
    return {
        "troubles": _render("troubles.html.j2", troubles=troubles, more=more, is_bad=is_bad, is_over=course.is_over)
    }


def render_squares(strip: GridRow) -> str:
    """Its squares. By hand: there may be ten thousand of them, and a template takes its time with each."""
    shown = (
        f'<li class="{square.fate.value.replace(" ", "-")}{" again" if square.again else ""}" aria-hidden="true"'
        f' title="{escape(square.said)}">{square.sign}</li>'
        for square in strip.squares
    )
    return f'<li class="unseen">{escape(strip.summary)}</li>{"".join(shown)}'


def render_verdicts(section: Section, report: ReportInput, draw: Callable[[Spec], str]) -> Parts:
    """The chapter of verdicts, and the colours that stand for environments."""
    drawings = {
        (chart.name, panel.name, narrow): Markup(draw(spec))  # ours, and escaped when drawn
        for chart in section.blocks
        if isinstance(chart, Chart)
        for panel in chart.panels
        for narrow, spec in ((False, panel.spec), (True, panel.narrow))
        if spec is not None
    }
    return {"verdicts": _render("verdicts.html.j2", section=section, drawings=drawings, legend=report.colours)}


def without_verdicts(path: Path) -> Parts:
    return {"verdicts": _render("no_verdicts.html.j2", path=quote(str(path)))}


def render_unreadable(path: Path, error: NearmetalError | OSError) -> Parts:
    """What is left to say of a run that cannot be read: which of its files, what about it, and what mends it."""
    what, remedy = known.describe_unreadable(error, path), "restore it from a copy of the run's folder"
    if not path.is_dir():
        what, remedy = "The run's folder is not there any more.", ""
    elif isinstance(error, NearmetalError):
        remedy = error.remedy
    elif isinstance(error, PermissionError):
        remedy = "start the dashboard as a user who may read it"
    text = _render("unreadable.html.j2", what=what, remedy=remedy, path=str(path))
    nothing = dict.fromkeys(("live", "values", "troubles", "grid", "verdicts"), "")
    return {"title": _make_title("cannot be read", path.name), "state": text, **nothing}


def _make_title(state: str, name: str) -> str:
    """What a browser's tab says: its beginning is what there is room for."""
    return escape(words.strip_controls(f"{state}: {name}"))


def _name_run(study: str, path: Path) -> str:
    """ "quickstart · q9": a study has many runs, each with a folder of its own."""
    return study if path.name == study else f"{study} · {path.name}"


def render_list(items: Sequence[Item]) -> Parts:
    return {"runs": _render("runs.html.j2", items=items)}


_ANSWERS = {
    "sound": "answers can be trusted",
    "unsound": "an answer was wrong",
    "unknown": "not known whether answers can be trusted",
}


def render_host(host: HostState) -> Parts:
    return {"host": _render("host.html.j2", host=host, answers=_ANSWERS)}


def run(manifest: Manifest | None, path: Path, version: int, parts: Parts, *, is_one_of_many: bool) -> str:
    """A run's page, with its parts as they are now."""
    name = path.name if manifest is None else _name_run(manifest.study.name, path)
    question = "" if manifest is None else manifest.study.question
    return _render(
        "run.html.j2",
        title=name,
        question=question,
        path=str(path),
        parts=_fill_slots(parts),
        version=version,
        is_one_of_many=is_one_of_many,
    )


def render_runs(version: int, parts: Parts) -> str:
    return _render("list.html.j2", parts=_fill_slots(parts), version=version)


def report(content: bytes, number: str) -> bytes:
    """A report as its file has it, with a way back to the run that it was opened from, above its name."""
    back = f'<a href="/runs/{number}">To the run</a> · '.encode()
    return content.replace(_ABOVE, _ABOVE + back, 1)


def render_missing() -> str:
    return _render("missing.html.j2")


def read_style() -> str:
    """The report's style sheet, and what the dashboard has besides."""
    return f"{report_page.render_style()}\n{report_page.read_template('nearmetal.dashboard', 'dashboard.css')}"


def read_script() -> str:
    return report_page.read_template("nearmetal.dashboard", "live.js")


def _fill_slots(parts: Parts) -> Mapping[str, Markup]:
    """Parts with those that stand in others put into their slots. All of them are markup of ours."""
    return {name: Markup(_SLOT.sub(lambda slot: parts.get(slot[1], ""), text)) for name, text in parts.items()}


def _render(name: str, **what: object) -> str:
    return _make_environment().get_template(name).render(**what)


@cache
def _make_environment() -> Environment:
    return report_page.make_environment("nearmetal.dashboard")
