"""Where the values of one treatment lie, with an interval: the same statistic that compares treatments. Pure."""

import math

import numpy as np

from nearmetal.analysis import portable_math
from nearmetal.analysis.contrasts import as_ratio
from nearmetal.analysis.results import Cell
from nearmetal.analysis.signed_rank import Centre, signed_rank

_RESOLUTION = 1e-9
"""Values closer than this, relative to the largest, are one value."""


def estimate_centre(cell: Cell, level: float) -> Centre:
    """The centre of a treatment's blocks with its interval of confidence 1 - level, in the response's unit: see
    docs/report.md. It tells how well this treatment alone is known at the time of the run, and is outside more often if
    the host wanders (`validation/two_runs.py`). No interval with too few blocks; no centre of values that are not all
    numbers, or of which some are but bounds."""
    values = np.asarray(cell.values, dtype=np.float64)
    if not len(values) or not np.isfinite(values).all() or any(cell.censored):
        return Centre(math.nan, None, None)
    if cell.scale == "ratio" and values.min() > 0:
        return as_ratio(signed_rank(portable_math.log(values), level, _RESOLUTION))
    largest = float(np.abs(values).max()) or 1.0
    return signed_rank(values, level, max(largest * _RESOLUTION, math.ulp(0.0)))
