"""The slowest requests as a table for people: each by what it asked for, and by the number that shows its events."""

from collections.abc import Sequence

from nearmetal.report import figures
from nearmetal.trace.chosen import ChosenRequest
from nearmetal.trace.events import measure_total, name_request
from nearmetal.trace.summary import TraceTable


def make_table(requests: Sequence[ChosenRequest]) -> TraceTable:
    """Of requests that were answered, in their order."""
    rows = tuple(
        (
            name_request(one.line),
            str(one.number),
            str(one.line["status"] or "–"),
            figures.format_quantity(measure_total(one.line) or 0.0, "s"),
        )
        for one in requests
    )
    return TraceTable("The slowest requests", ("", "--request", "status", "time"), rows)
