"""The slowest requests as a table for people: each by what it asked for, and by the number that shows its events."""

from collections.abc import Sequence

from nearmetal.report import figures
from nearmetal.trace.chosen import Chosen
from nearmetal.trace.events import asked, took
from nearmetal.trace.summary import Summary


def table(requests: Sequence[Chosen]) -> Summary:
    """Of requests that were answered, in their order."""
    rows = tuple(
        (
            asked(one.line),
            str(one.number),
            str(one.line["status"] or "–"),
            figures.quantity(took(one.line) or 0.0, "s"),
        )
        for one in requests
    )
    return Summary("The slowest requests", ("", "--request", "status", "time"), rows)
