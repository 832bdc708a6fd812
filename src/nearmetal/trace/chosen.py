"""One request out of many: the typical one, or the n-th. And many of them, thinned for a picture."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nearmetal.errors import BadInput
from nearmetal.trace.events import Line, lines

_NOT_ANSWERED = -1.0


@dataclass(frozen=True)
class Chosen:
    number: int
    """From 1, in the order in which requests were done."""
    line: Line


def totals(file: Path) -> array[float]:
    """Seconds of each request; less than 0 for one without a whole reply."""
    found = array("d")
    with file.open("rb") as text:
        for line in lines(text):
            began, ended = line["request_first"], line["response_last"]
            found.append(_NOT_ANSWERED if began is None or ended is None else (ended - began) / 1e9)
    return found


def choose(file: Path, number: int | None) -> Chosen | None:
    """The request of this number, or the one that took as long as the middle one; None where none was answered.

    BadInput when there is none of that number.
    """
    took = totals(file)
    if number is None:
        order = sorted((time, index) for index, time in enumerate(took) if time >= 0)
        if not order:
            return None
        index = order[(len(order) - 1) // 2][1]
    elif 1 <= number <= len(took):
        index = number - 1
    else:
        remedy = f"choose from 1 to {len(took)}" if took else "see the summary: nearmetal trace without --request"
        raise BadInput(f"there is no request {number}", "--request", remedy)
    with file.open("rb") as text:
        return Chosen(index + 1, next(lines(islice(text, index, None))))


def first(file: Path, most: int) -> list[Line]:
    """So many requests, from the first."""
    with file.open("rb") as text:
        return list(lines(islice(text, most)))
