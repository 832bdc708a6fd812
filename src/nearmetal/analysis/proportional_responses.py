"""Responses that say what the primary one says, in another unit: a constant multiple of it in every trial. Pure.

A count beside its rate has the rate's ratio in every block. As an exploratory response it would tell the primary
contrast once more, with an interval at another level.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from nearmetal.analysis.responses import Key, key_of
from nearmetal.analysis.results import Cell

SAME = 1e-9
"""Relative. What is computed from one count lies closer together; what is printed in a few digits does not."""


def find_proportional(cells: Iterable[Cell], primaries: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """(workload, response) of what is in every good trial a positive constant times its workload's primary response.

    It is of the same scale and direction, and is there where the primary is and nowhere else. Of a primary that is the
    same in all trials nothing is told: two constants are multiples of each other whatever they mean.
    """
    of: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        of[cell.workload, cell.response].append(cell)
    return frozenset(
        (workload, response)
        for (workload, response), found in of.items()
        if response != (primary := primaries.get(workload, response))
        and (workload, primary) in of
        and _is_multiple(found, of[workload, primary])
    )


def _is_multiple(cells: Sequence[Cell], of: Sequence[Cell]) -> bool:
    every = (*cells, *of)
    if len({(cell.scale, cell.better) for cell in every}) > 1 or any(any(cell.censored) for cell in every):
        return False
    mine, theirs = _values(cells), _values(of)
    if mine.keys() != theirs.keys() or not all(map(math.isfinite, theirs.values())) or len(set(theirs.values())) < 2:
        return False
    largest = max(theirs, key=lambda place: abs(theirs[place]))
    factor = mine[largest] / theirs[largest]
    return factor > 0 and all(math.isclose(mine[place], factor * theirs[place], rel_tol=SAME) for place in theirs)


def _values(cells: Iterable[Cell]) -> dict[tuple[Key, int], float]:
    """By treatment and block."""
    return {
        (key_of(cell.treatment), block): value
        for cell in cells
        for block, value in zip(cell.blocks, cell.values, strict=True)
    }
