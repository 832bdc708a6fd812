"""Several runs a side: what the runs of one side give and those of the other, with the run as the unit. Pure.

Whatever a run has of its own (where its images lie, what was built anew, the hour) is in all its blocks, so that blocks
of two runs lie apart though nothing has changed. Runs do not: each counts as one value, the pseudomedian of its blocks,
and Student's t holds its level with two runs a side. Where the typical boot of a run failed there is no such value but
a rank, and the exact rank sum takes its place.
"""

import math
from collections.abc import Sequence

import numpy as np

from nearmetal.analysis.rank_sum import BoundedValues, are_enough, rank_sum_of_bounds
from nearmetal.analysis.signed_rank import Centre, Floats, signed_rank
from nearmetal.analysis.student_t import find_student_quantile, student_p

FEWEST = 2
"""Runs a side that tell how much runs vary."""


def find_typical(run: BoundedValues, resolution: float) -> tuple[float, float, float]:
    """The pseudomedian of a run's blocks with its bounds; infinite where that of their ranks is."""
    value = _pseudomedian(run.values, resolution)
    if run.is_known:
        return value, value, value
    return value, _pseudomedian(run.low, resolution), _pseudomedian(run.high, resolution)


def _pseudomedian(values: Floats, resolution: float) -> float:
    return signed_rank(values, 0.0, resolution).estimate


def compare_runs(
    before: Sequence[BoundedValues], after: Sequence[BoundedValues], level: float, resolution: float
) -> Centre:
    """By how much runs after lie above runs before: estimate, interval of confidence 1 - level, and two-sided p.

    Interval and p are None with too few runs. ValueError where a side has none.
    """
    if not before or not after:
        raise ValueError("no runs")
    sides = _find_typical(before, resolution), _find_typical(after, resolution)
    if not all(map(_is_known, sides)):
        return rank_sum_of_bounds(BoundedValues(*sides[0]), BoundedValues(*sides[1]), level, resolution)
    first, second = sides[0][0], sides[1][0]
    estimate = float(second.mean() - first.mean())
    if min(len(first), len(second)) < FEWEST:
        return Centre(estimate, None, None)
    freedom = len(first) + len(second) - 2
    squares = float(((first - first.mean()) ** 2).sum() + ((second - second.mean()) ** 2).sum())
    error = math.sqrt(squares / freedom * (1 / len(first) + 1 / len(second)))
    half = find_student_quantile(1 - level / 2, freedom) * error
    if abs(estimate) < resolution:
        return Centre(estimate, (estimate - half, estimate + half), 1.0)
    p = student_p(abs(estimate) / error if error else math.inf, freedom)
    return Centre(estimate, (estimate - half, estimate + half), p)


def find_needed_runs(
    before: Sequence[BoundedValues], after: Sequence[BoundedValues], level: float, resolution: float
) -> int:
    """How many runs a side it takes that anything can be decided at a level, of runs like these."""
    if all(_is_known(_find_typical(runs, resolution)) for runs in (before, after)):
        return FEWEST
    return next(number for number in range(FEWEST, 1_000) if are_enough(number, number, level))


def _find_typical(runs: Sequence[BoundedValues], resolution: float) -> Floats:
    """Value, low and high: a row each, with a column for each run."""
    return np.array([find_typical(run, resolution) for run in runs], dtype=np.float64).T


def _is_known(side: Floats) -> bool:
    """Whether each run has one finite value, and no more than bounds of none."""
    return bool(np.isfinite(side).all() and (side[1] == side[2]).all())
