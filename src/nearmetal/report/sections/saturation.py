"""Ramps: what went out, came back and failed at each offered rate, and the rate at which the server was saturated."""

from collections.abc import Sequence

from nearmetal.analysis import centre
from nearmetal.analysis.responses import key_of
from nearmetal.analysis.results import Cell
from nearmetal.report import bounds, figures, words
from nearmetal.report.blocks import LONG, Block, Chart, Column, Notice, Panel, Quantity, Section, Table, Value
from nearmetal.report.cells import alike
from nearmetal.report.charts.by_number import by_number
from nearmetal.report.charts.climb import Climb, Rates, climb, climbs
from nearmetal.report.courses import courses, label_without_clients, of_each
from nearmetal.report.ramps import Ramp, ramps
from nearmetal.report.reading import ReportInput
from nearmetal.studies import published
from nearmetal.studies.published import Published

_RESPONSE = "saturation"
_DRAWN = 12
"""More ramps than this are told by the table alone."""

_LEAD = (
    "The rate of requests was raised step by step until the server did not keep up. The highest rate that it kept up "
    "with is its saturation point."
)


class Saturation:
    name = "saturation"
    title = "Where the server is saturated"
    order = 18

    def render(self, report: ReportInput) -> Section | None:
        cells = [cell for cell in report.analysis.cells if cell.response == _RESPONSE]
        if not cells:
            return None
        climbed = ramps(report, list(dict.fromkeys(cell.workload for cell in cells)))
        blocks: list[Block] = []
        missing = sum(ramp.missing for ramp in climbed)
        if missing:
            text = f"Of {figures.count(missing, 'ramp')} the steps cannot be read from the run's folder."
            blocks.append(Notice(text, "warning"))
        blocks += _against_clients(cells, report)
        blocks.append(_points(cells, report))
        left_out = sum(ramp.left_out for ramp in climbed)
        if left_out:
            text = (
                f"In {figures.count(left_out, 'step')} the load generator was the limit, and not the server. "
                "No mean over steps has them."
            )
            blocks.append(Notice(text))
        blocks += _climbs(climbed, cells, report)
        return Section(self.name, self.title, _LEAD, tuple(blocks))


def _against_clients(cells: Sequence[Cell], report: ReportInput) -> list[Block]:
    """Saturation over the number of clients, of all together and of each; nothing where the number is always one."""
    study = report.manifest.study
    if len({report.asked(cell.treatment).clients.count for cell in cells}) < 2:
        return []
    together = courses(cells, report)
    if not together:
        return []
    better = words.direction(cells[0].better)
    panels = (
        Panel("together", by_number("Saturation, all clients together", better, "clients", "1/s", together)),
        Panel("each", by_number("Saturation, each client", better, "clients", "1/s", of_each(together))),
    )
    caption = (
        f"Each point is the centre of the blocks on its {figures.percent(1 - study.design.alpha)} interval. "
        "A server that only its own work limits answers as much in total however many clients share it."
    )
    if any(bound for cell in cells for bound in cell.censored):
        caption += " Where of some blocks only a bound is known there is no point; the table has those bounds."
    return [Chart("saturation", caption, "Saturation against the number of clients; the table has it.", panels)]


def _points(cells: Sequence[Cell], report: ReportInput) -> Table:
    study = report.manifest.study
    found = published.of(study.name)
    columns = (
        Column("workload"),
        Column("treatment"),
        Column("blocks", numeric=True),
        Column("mean", numeric=True),
        Column("each client", numeric=True),
        Column("centre", numeric=True),
        Column("from", numeric=True),
        Column("to", numeric=True),
        Column("only a bound", numeric=True),
        *bounds.COLUMNS,
        *([Column("published for each")] if found else []),
    )
    rows: list[tuple[Value, ...]] = []
    for cell in cells:
        middle = centre.of(cell, study.design.alpha)
        low, high = middle.interval or (None, None)
        clients = report.asked(cell.treatment).clients.count
        rows.append(
            (
                words.workload(cell.workload),
                report.labels.treatment(cell.treatment),
                len(cell.values),
                bounds.quantity(cell, "mean"),
                bounds.quantity(cell, "mean", clients),
                None if any(cell.censored) else Quantity(middle.estimate, cell.unit),
                None if low is None else Quantity(low, cell.unit),
                None if high is None else Quantity(high, cell.unit),
                sum(bounds.counts(cell)),
                *bounds.counts(cell),
                *([_published(found, cell, report)] if found else []),
            )
        )
    caption = (
        "Saturation of all clients together: mean over blocks, in all and of each client, and the centre of the blocks "
        f"with its {figures.percent(1 - study.design.alpha)} interval; “only a bound” counts blocks in which the "
        "ramp's first rate was too much (≤) or its last was not (≥), and with such a block there is no centre"
    )
    return Table("saturation", caption, columns, alike(rows), folded=len(rows) > LONG)


def _published(found: Published, cell: Cell, report: ReportInput) -> str | None:
    """The published saturation of as many clients in the same environment: "17 to 20 requests/s"."""
    asked = report.asked(cell.treatment)
    at = {"environment": found.named(asked.environment.kind, asked.server.nic), "clients": asked.clients.count}
    for statement in found.statements:
        if statement.what.startswith(_RESPONSE) and dict(statement.at) == at:
            return f"{statement.low:g} to {statement.high:g} {statement.unit}"
    return None


# ── The ramps themselves ──────────────────────────────────────────────────────────────────────────────────────────


def _climbs(climbed: Sequence[Ramp], cells: Sequence[Cell], report: ReportInput) -> list[Block]:
    seen = [ramp for ramp in climbed if ramp.rungs]
    if not seen:
        return []
    blocks: list[Block] = [_steps(seen, report)]
    if len({report.asked(ramp.treatment).clients.count for ramp in seen}) > 1:
        blocks.insert(0, _pictures_by_number(seen, report))
    elif len(seen) <= _DRAWN:
        blocks.insert(0, _pictures(seen, cells, report))
    return blocks


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
                Climb(
                    figures.count(report.asked(ramp.treatment).clients.count, "client"),
                    tuple((rung.offered, getattr(rung, what)) for rung in ramp.rungs),
                )
                for ramp in placed
            ]
            beneath = words.plain(workload) if len(workloads) > 1 else ""
            picture = climbs(f"{what.capitalize()}, {name}", beneath, lines, report.colour(placed[0].treatment))
            panels.append(Panel(f"{workload}-{name}-{what}", picture))
    caption = (
        "Requests that went out, replies that came back and requests that failed at each offered rate, for each number "
        "of clients: averaged over clients and blocks. Beyond a server's limit only those ramps are averaged that got "
        "so far."
    )
    description = "Request, reply and error rate against the offered rate; the table below has the same figures."
    return Chart("ramps", caption, description, tuple(panels))


def _pictures(climbed: Sequence[Ramp], cells: Sequence[Cell], report: ReportInput) -> Chart:
    means = {(key_of(cell.treatment), cell.workload): cell.mean for cell in cells if not any(cell.censored)}
    workloads = {ramp.workload for ramp in climbed}
    panels = []
    for ramp in climbed:
        name = report.labels.treatment(ramp.treatment)
        total = means.get((key_of(ramp.treatment), ramp.workload))
        rates = [Rates(rung.offered, rung.requests, rung.replies, rung.errors) for rung in ramp.rungs]
        panels.append(
            Panel(
                f"{ramp.workload}-{name}",
                climb(
                    name,
                    words.plain(ramp.workload) if len(workloads) > 1 else "",
                    rates,
                    report.colour(ramp.treatment),
                    None if total is None else total / report.asked(ramp.treatment).clients.count,
                ),
            )
        )
    caption = (
        "Requests that went out, replies that came back and requests that failed at each offered rate, averaged over "
        f"clients and blocks. {_stroke(cells)}"
    )
    description = "Request, reply and error rate against the offered rate; the table below has the same figures."
    return Chart("ramps", caption, description, tuple(panels))


def _stroke(cells: Sequence[Cell]) -> str:
    """What the vertical strokes are, and where there is none."""
    stroke = (
        "The vertical stroke is the mean saturation point of one client. Beyond it only those ramps are averaged that "
        "got so far."
    )
    with_bounds = [any(cell.censored) for cell in cells]
    if all(with_bounds):
        return "No stroke marks a saturation point: of each some block has only a bound."
    return stroke + (" There is none where of some blocks only a bound is known." if any(with_bounds) else "")


def _steps(climbed: Sequence[Ramp], report: ReportInput) -> Table:
    columns = (
        Column("workload"),
        Column("treatment"),
        Column("offered", numeric=True),
        Column("requests", numeric=True),
        Column("replies", numeric=True),
        Column("errors", numeric=True),
        Column("steps", numeric=True),
    )
    rows: list[tuple[Value, ...]] = [
        (
            words.workload(ramp.workload),
            report.labels.treatment(ramp.treatment),
            *(Quantity(rate, "1/s") for rate in (rung.offered, rung.requests, rung.replies, rung.errors)),
            rung.steps,
        )
        for ramp in climbed
        for rung in ramp.rungs
    ]
    caption = "Requests, replies and errors per second and client at each offered rate, mean of so many steps"
    return Table("ramps", caption, columns, alike(rows), folded=True)


plugin = Saturation()
