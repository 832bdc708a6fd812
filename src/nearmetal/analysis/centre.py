"""Where the values of one treatment lie, with an interval: the same statistic that compares treatments. Pure."""

import numpy as np

from nearmetal.analysis.results import Cell
from nearmetal.analysis.signed_rank import signed_rank

_RESOLUTION = 1e-9
"""Values closer than this, relative to the largest, are one value."""


def interval(cell: Cell, level: float) -> tuple[float, float] | None:
    """Interval of confidence 1 - level for the centre of a treatment's blocks, in the response's unit.

    It tells how well this treatment alone is known. None with too few blocks. Two treatments are compared by their
    contrast, never by whether two such intervals overlap: blocks are what they share.
    """
    values = np.asarray(cell.values, dtype=np.float64)
    if not len(values) or not np.isfinite(values).all():
        return None
    if cell.scale == "ratio" and values.min() > 0:
        found = signed_rank(np.log(values), level, _RESOLUTION).interval
        return None if found is None else (float(np.exp(found[0])), float(np.exp(found[1])))
    largest = float(np.abs(values).max()) or 1.0
    return signed_rank(values, level, largest * _RESOLUTION).interval
