"""Logarithms and powers of e with the same last digit on every CPU, so that a run has the same report everywhere.

Those of numpy 2 differ: where a CPU has AVX-512, other instructions compute them (`numpy.show_runtime()`). `math` calls
the C library's, which are alike wherever multiplication and addition are fused: on x86-64 of the last ten years.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def log(values: Floats) -> Floats:
    """Natural logarithms, in the same shape: -inf of 0, NaN of what is below it."""
    each = math.log if (values > 0).all() else _log
    return np.fromiter(map(each, values.ravel().tolist()), np.float64, values.size).reshape(values.shape)


def _log(value: float) -> float:
    if value > 0:
        return math.log(value)
    return -math.inf if value == 0 else math.nan


def exp(value: float) -> float:
    """e to this power, infinite where no float holds it."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
