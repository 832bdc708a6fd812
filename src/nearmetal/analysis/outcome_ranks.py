"""Where what came of a treatment in each block ranks: a value, a bound, nothing at all, or a failure of its own. Pure.

Unlike the differences of one run's contrasts these are samples of two sides, so that each block has bounds of its own.
"""

import math
import statistics
from collections.abc import Iterable

import numpy as np

from nearmetal.analysis.rank_sum import BoundedValues
from nearmetal.analysis.responses import Replicate
from nearmetal.model import ResponseKind

Pair = tuple[Replicate, Replicate | None]
"""The outcome of a treatment in a block, and of the reference that it is held against, if it is."""


def rank_outcomes(pairs: Iterable[Pair], response: str, kind: ResponseKind) -> BoundedValues:
    """Where each block lies on the response's scale, by logarithms of a ratio: a treatment, or how far it lies above
    its reference. Values must be of one kind, numbers, and on a ratio scale not negative.

    A failure is infinitely bad, and both sides' is no difference. Of a censored value a bound is known. A value of 0 on
    a ratio scale is the worst there is where more is better, and where less is better nothing is known of it: nothing
    takes no time.
    """
    known = [_above(*(None if side is None else _place(side, response, kind) for side in pair)) for pair in pairs]
    values = np.array(known, dtype=np.float64).reshape(-1, 3)
    return BoundedValues(values[:, 0], values[:, 1], values[:, 2])


_Place = tuple[float, float, float]
"""A value, and the bounds within which it lies."""


def _place(side: Replicate, response: str, kind: ResponseKind) -> _Place:
    if side.has_failed:
        end = -math.inf if kind.better == "higher" else math.inf
        return end, end, end
    known = side.values[response]
    if kind.scale == "difference":
        value = known.value
    else:
        values = [record.responses[response].value for record in side.records]
        value = -math.inf if min(values) <= 0 else statistics.fmean(map(math.log, values))
        if value == -math.inf and kind.better == "lower":
            return value, -math.inf, math.inf
    low = -math.inf if known.censored in ("left", "both") else value
    high = math.inf if known.censored in ("right", "both") else value
    return value, low, high


def _above(one: _Place | None, other: _Place | None) -> _Place:
    """How far one lies above another; both infinite to the same side are alike."""
    if one is None or other is None:
        return one or (0.0, 0.0, 0.0)
    return _minus(one[0], other[0]), _minus(one[1], other[2]), _minus(one[2], other[1])


def _minus(one: float, other: float) -> float:
    apart = one - other
    return 0.0 if math.isnan(apart) else apart


def count_failed(pairs: Iterable[Pair]) -> int:
    """Blocks in which the treatment failed, and the reference did not."""
    return sum(one.has_failed and not (other is not None and other.has_failed) for one, other in pairs)
