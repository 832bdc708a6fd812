"""One request out of many: the typical one, or the n-th; the slowest; and the first, for a picture."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nearmetal.errors import BadInput
from nearmetal.trace.events import Line, measure_total, parse_lines

_NOT_ANSWERED = -1.0


@dataclass(frozen=True)
class ChosenRequest:
    number: int
    """From 1, in the order in which requests were done."""
    line: Line


def list_totals(file: Path) -> array[float]:
    """Seconds of each request; less than 0 for one without a whole reply."""
    found = array("d")
    with file.open("rb") as text:
        for line in parse_lines(text):
            time = measure_total(line)
            found.append(_NOT_ANSWERED if time is None else time)
    return found


def choose_request(file: Path, times: Sequence[float], number: int | None) -> ChosenRequest | None:
    """The request of this number, or the one that took as long as the middle one; None where none was answered.

    `times` are their `list_totals`.

    BadInput when there is none of that number.
    """
    if number is None:
        order = sorted((time, index) for index, time in enumerate(times) if time >= 0)
        if not order:
            return None
        index = order[(len(order) - 1) // 2][1]
    elif 1 <= number <= len(times):
        index = number - 1
    else:
        remedy = f"choose from 1 to {len(times)}" if times else "see the summary: nearmetal trace without --request"
        raise BadInput(f"there is no request {number}", "--request", remedy)
    return next(_read(file, [index]))


def list_slowest(file: Path, times: Sequence[float], most: int) -> list[ChosenRequest]:
    """So many of those that were answered, the slowest first. `times` are their `list_totals`."""
    answered = (index for index, time in enumerate(times) if time >= 0)
    wanted = heapq.nlargest(most, answered, key=times.__getitem__)
    found = {one.number: one for one in _read(file, wanted)}
    return [found[index + 1] for index in wanted]


def _read(file: Path, wanted: Iterable[int]) -> Iterator[ChosenRequest]:
    """Requests at these places, from 0, by their places."""
    last = -1
    with file.open("rb") as text:
        for index in sorted(wanted):
            (line,) = parse_lines(islice(text, index - last - 1, index - last))
            yield ChosenRequest(index + 1, line)
            last = index


def list_first(file: Path, most: int) -> list[Line]:
    """So many requests, from the first."""
    with file.open("rb") as text:
        return list(parse_lines(islice(text, most)))
