"""Ramps: what went out, came back and failed at each offered rate, and the rate at which the server was saturated."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nearmetal.analysis.responses import key_of
from nearmetal.analysis.results import Cell
from nearmetal.model import Assignment, TrialRecord
from nearmetal.report import censored_values, figures, words
from nearmetal.report.blocks import LONG, Block, Chart, Notice, Panel, Quantity, Table, Value
from nearmetal.report.charts.client_counts import draw_by_count
from nearmetal.report.charts.ramps import RampLine, Rates, draw_ramp, draw_ramps
from nearmetal.report.client_lines import label_without_clients, make_courses, of_each
from nearmetal.report.report_input import BuiltInSection, Contents, ReportInput
from nearmetal.report.table_parts import list_arm, list_centre, make_columns
from nearmetal.report.table_values import align_decimals

_RESPONSE = "saturation"
_DRAWN = 12
"""More ramps than this are told by the table alone."""

_LEAD = (
    "The rate of requests was raised step by step until the server did not keep up. The highest rate that it kept up "
    "with is its saturation point."
)


_Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Step(BaseModel):
    """One step of a `load.v1` document; per second, of one client."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    offered: _Rate
    request_rate: _Rate
    reply_rate: _Rate
    error_rate: _Rate
    generator_failed: bool = False
    """Whether the generator was the limit, so that the rates are its own."""


class _RampDocument(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    steps: tuple[_Step, ...] = ()


@dataclass(frozen=True)
class Rung(Rates):
    """What one offered rate gave: means over all clients and blocks whose generators got so far."""

    steps: int
    """How many steps at this rate the means are of."""


@dataclass(frozen=True)
class Ramp:
    """One treatment's ramp of one workload, rates ascending."""

    workload: str
    treatment: Assignment
    rungs: tuple[Rung, ...]
    left_out: int
    """Steps in which the generator was the limit, which are in no mean."""
    missing: int
    """Documents that the run's folder should hold and does not, or that cannot be read."""


def list_ramps(report: ReportInput, workloads: Sequence[str]) -> list[Ramp]:
    """The ramps of these workloads, in the order of the study; of trials that count, as in the analysis."""
    return [
        _make_ramp(workload, treatment, records, report)
        for workload in workloads
        for treatment in report.manifest.plan.treatments
        if (records := report.trials(workload, treatment))
    ]


def _make_ramp(workload: str, treatment: Assignment, records: Iterable[TrialRecord], report: ReportInput) -> Ramp:
    at: dict[float, list[_Step]] = defaultdict(list)
    left_out = missing = 0
    for record in records:
        for content in report.artifacts(record, "load-*.json"):
            steps = _read_steps(content)
            if steps is None:
                missing += 1
            for step in steps or ():
                if step.generator_failed:
                    left_out += 1
                else:
                    at[step.offered].append(step)
    return Ramp(workload, treatment, tuple(_list_rungs(at)), left_out, missing)


def _read_steps(content: bytes | None) -> tuple[_Step, ...] | None:
    """None of a document that cannot be read."""
    try:
        return _RampDocument.model_validate_json(content or b"").steps
    except ValidationError:
        return None


def _list_rungs(at: Mapping[float, Sequence[_Step]]) -> Iterable[Rung]:
    for offered, steps in sorted(at.items()):
        yield Rung(
            offered=offered,
            requests=statistics.fmean(step.request_rate for step in steps),
            replies=statistics.fmean(step.reply_rate for step in steps),
            errors=statistics.fmean(step.error_rate for step in steps),
            steps=len(steps),
        )


def _render(report: ReportInput) -> Contents | None:
    cells = [cell for cell in report.analysis.cells if cell.response == _RESPONSE]
    if not cells:
        return None
    climbed = list_ramps(report, list(dict.fromkeys(cell.workload for cell in cells)))
    blocks: list[Block] = []
    missing = sum(ramp.missing for ramp in climbed)
    if missing:
        text = f"Of {figures.format_count(missing, 'ramp')} the steps cannot be read from the run's folder."
        blocks.append(Notice(text, "warning"))
    blocks += _against_clients(cells, report)
    study = report.manifest.study
    columns = (
        *make_columns("workload", "treatment"),
        *make_columns("blocks", "mean", "each client", "centre", "from", "to", "only a bound", numeric=True),
        *censored_values.COLUMNS,
    )
    rows: list[tuple[Value, ...]] = [
        (
            *list_arm(cell.workload, cell.treatment, report),
            len(cell.values),
            censored_values.make_quantity(cell, "mean"),
            censored_values.make_quantity(cell, "mean", report.asked(cell.treatment).clients.count),
            *((None, None, None) if any(cell.censored) else list_centre(cell, report)),
            sum(censored_values.list_counts(cell)),
            *censored_values.list_counts(cell),
        )
        for cell in cells
    ]
    caption = (
        "Saturation of all clients together: mean over blocks, in all and of each client, and the centre of the blocks "
        f"with its {words.describe_own_interval(study.design.alpha)}; “only a bound” counts blocks in which the "
        "ramp's first rate was too much (≤) or its last was not (≥), and with such a block there is no centre"
    )
    blocks.append(Table("saturation", caption, columns, align_decimals(rows), folded=len(rows) > LONG))
    left_out = sum(ramp.left_out for ramp in climbed)
    if left_out:
        text = (
            f"In {figures.format_count(left_out, 'step')} the load generator was the limit, and not the server. "
            "No mean over steps has them."
        )
        blocks.append(Notice(text))
    blocks += _show_climbs(climbed, cells, report)
    return _LEAD, blocks


def _against_clients(cells: Sequence[Cell], report: ReportInput) -> list[Block]:
    """Saturation over the number of clients, of all together and of each; nothing where the number is always one."""
    study = report.manifest.study
    if len({report.asked(cell.treatment).clients.count for cell in cells}) < 2:
        return []
    together = make_courses(cells, report)
    if not together:
        return []
    better = words.name_direction(cells[0].better)
    panels = (
        Panel("together", draw_by_count("Saturation, all clients together", better, "clients", "1/s", together)),
        Panel("each", draw_by_count("Saturation, each client", better, "clients", "1/s", of_each(together))),
    )
    caption = (
        f"Each point is the centre of the blocks on its {words.describe_own_interval(study.design.alpha)}. "
        "A server that only its own work limits answers as much in total however many clients share it."
    )
    if any(bound for cell in cells for bound in cell.censored):
        caption += " Where of some blocks only a bound is known there is no point; the table has those bounds."
    return [Chart("saturation", caption, "Saturation against the number of clients; the table has it.", panels)]


def _show_climbs(climbed: Sequence[Ramp], cells: Sequence[Cell], report: ReportInput) -> list[Block]:
    seen = [ramp for ramp in climbed if ramp.rungs]
    if not seen:
        return []
    columns = (
        *make_columns("workload", "treatment"),
        *make_columns("offered", "requests", "replies", "errors", "steps", numeric=True),
    )
    rows: list[tuple[Value, ...]] = [
        (
            *list_arm(ramp.workload, ramp.treatment, report),
            *(Quantity(rate, "1/s") for rate in (rung.offered, rung.requests, rung.replies, rung.errors)),
            rung.steps,
        )
        for ramp in seen
        for rung in ramp.rungs
    ]
    caption = "Requests, replies and errors per second and client at each offered rate, mean of so many steps"
    steps = Table("ramps", caption, columns, align_decimals(rows), folded=True)
    if len({report.asked(ramp.treatment).clients.count for ramp in seen}) > 1:
        return [_pictures_by_number(seen, report), steps]
    return [_draw_ramps(seen, cells, report), steps] if len(seen) <= _DRAWN else [steps]


def _pictures_by_number(climbed: Sequence[Ramp], report: ReportInput) -> Chart:
    """All numbers of clients in one picture, as many pictures as there is else that differs."""
    alike: dict[tuple[str, str], list[Ramp]] = {}
    for ramp in climbed:
        alike.setdefault((ramp.workload, label_without_clients(ramp.treatment, report)), []).append(ramp)
    workloads = {ramp.workload for ramp in climbed}
    panels = []
    for (workload, name), ramps_of in alike.items():
        placed = sorted(ramps_of, key=lambda ramp: report.asked(ramp.treatment).clients.count)
        for what in ("requests", "replies", "errors"):
            lines = [
                RampLine(
                    figures.format_count(report.asked(ramp.treatment).clients.count, "client"),
                    tuple((rung.offered, getattr(rung, what)) for rung in ramp.rungs),
                )
                for ramp in placed
            ]
            beneath = words.strip_controls(workload) if len(workloads) > 1 else ""
            picture = draw_ramps(f"{what.capitalize()}, {name}", beneath, lines, report.colour(placed[0].treatment))
            panels.append(Panel(f"{workload}-{name}-{what}", picture))
    caption = (
        "Requests that went out, replies that came back and requests that failed at each offered rate, for each number "
        "of clients: averaged over clients and blocks. Beyond a server's limit only those ramps are averaged that got "
        "so far."
    )
    description = "Request, reply and error rate against the offered rate; the table below has the same figures."
    return Chart("ramps", caption, description, tuple(panels))


def _draw_ramps(climbed: Sequence[Ramp], cells: Sequence[Cell], report: ReportInput) -> Chart:
    means = {(key_of(cell.treatment), cell.workload): cell.mean for cell in cells if not any(cell.censored)}
    workloads = {ramp.workload for ramp in climbed}
    panels = []
    for ramp in climbed:
        name = report.labels.name_treatment(ramp.treatment)
        total = means.get((key_of(ramp.treatment), ramp.workload))
        mean = None if total is None else total / report.asked(ramp.treatment).clients.count
        beneath = words.strip_controls(ramp.workload) if len(workloads) > 1 else ""
        picture = draw_ramp(name, beneath, ramp.rungs, report.colour(ramp.treatment), mean)
        panels.append(Panel(f"{ramp.workload}-{name}", picture))
    caption = (
        "Requests that went out, replies that came back and requests that failed at each offered rate, averaged over "
        f"clients and blocks. {_describe_stroke(cells)}"
    )
    description = "Request, reply and error rate against the offered rate; the table below has the same figures."
    return Chart("ramps", caption, description, tuple(panels))


def _describe_stroke(cells: Sequence[Cell]) -> str:
    stroke = (
        "The vertical stroke is the mean saturation point of one client. Beyond it only those ramps are averaged that "
        "got so far."
    )
    with_bounds = [any(cell.censored) for cell in cells]
    if all(with_bounds):
        return "No stroke marks a saturation point: of each some block has only a bound."
    return stroke + (" There is none where of some blocks only a bound is known." if any(with_bounds) else "")


plugin = BuiltInSection("saturation", "Saturation", 18, _render)
