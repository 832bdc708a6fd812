"""What a table shows of one treatment's values where of some of them only a bound is known: "≥ 60/s"."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from nearmetal.analysis.censoring import Bound, find_open_sides
from nearmetal.analysis.responses import mean
from nearmetal.analysis.results import Cell
from nearmetal.report import figures
from nearmetal.report.blocks import Column, Quantity

Statistic = Literal["mean", "minimum", "median", "maximum"]

_STATISTICS: Final[Mapping[Statistic, Callable[[Sequence[float]], float]]] = {
    "mean": mean,
    "minimum": min,
    "median": statistics.median,
    "maximum": max,
}

_COUNTED: Final[Mapping[str, Bound]] = {"at_least": "right", "at_most": "left", "unbounded": "both"}

COLUMNS: Final = tuple(Column(title, numeric=True, where="data") for title in _COUNTED)
"""For programs: in how many blocks no more is known than such a bound."""


def list_counts(cell: Cell) -> tuple[int, ...]:
    """What stands in `COLUMNS`."""
    return tuple(cell.censored.count(bound) for bound in _COUNTED.values())


def find_bound(cell: Cell, statistic: Statistic) -> Bound | None:
    """What is known of it; None where that is the number itself."""
    return find_open_sides(_STATISTICS[statistic], cell.values, cell.censored) if any(cell.censored) else None


def make_quantity(cell: Cell, statistic: Statistic, of_each: int = 1) -> Quantity | None:
    """It, or one of so many clients' share of it, in the response's unit; None where it lies nobody knows where."""
    bound = find_bound(cell, statistic)
    if bound == "both":
        return None
    return Quantity(getattr(cell, statistic) / of_each, cell.unit, bound=bound, place=_find_place(cell, of_each))


def _find_place(cell: Cell, of_each: int = 1) -> float | None:
    """How finely its values are known; see `figures.find_known_place`."""
    if any(cell.censored):
        return None
    largest = max(abs(cell.minimum), abs(cell.maximum))
    place = figures.find_known_place(cell.stddev, largest, len(cell.values))
    return place and place / of_each


def make_deviation(cell: Cell) -> Quantity | None:
    """The sample's standard deviation; None where there is none."""
    return Quantity(cell.stddev, cell.unit, place=_find_place(cell)) if has_deviation(cell) else None


def has_deviation(cell: Cell) -> bool:
    """Whether it has a standard deviation: of bounds that says nothing, and one value alone does not scatter."""
    return len(cell.values) > 1 and not any(cell.censored)
