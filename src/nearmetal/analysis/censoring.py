"""Values of which no more than a bound is known, and what that leaves of numbers that are made of them. Pure."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

Bound = Literal["left", "right", "both"]
"""What is known of a censored number: that it is at most what stands there ("left", as `Response.censored` has it), at
least that ("right"), or, as of a mean of such and such, neither ("both")."""


def join_bounds(bounds: Iterable[Bound | None]) -> Bound | None:
    """What is known of a sum or mean of numbers of which so much is known; None where all were measured."""
    found = {bound for bound in bounds if bound}
    return next(iter(found)) if len(found) == 1 else "both" if found else None


def find_open_sides(
    statistic: Callable[[Sequence[float]], float], values: Sequence[float], bounds: Sequence[Bound | None]
) -> Bound | None:
    """To which sides a statistic that grows with each of its values may lie beyond what it is of the bounds.

    A median may well be known where some values are not: it is, if those lie on one side of it wherever they lie.
    """
    known = statistic(values)
    open_to: list[Bound] = []
    for side, end in (("left", -math.inf), ("right", math.inf)):
        farthest = [end if bound in (side, "both") else value for value, bound in zip(values, bounds, strict=True)]
        if statistic(farthest) != known:
            open_to.append("left" if side == "left" else "right")
    return join_bounds(open_to)
