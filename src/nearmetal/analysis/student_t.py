"""Student's t: its tail and its quantile. Pure.

The finite series of M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4. The
libraries that have these functions are larger than everything else that nearmetal needs, and take longer to load than a
whole analysis does.
"""

import math

import numpy as np

from nearmetal.analysis.signed_rank import Floats, Integers


def student_p(t: float, freedom: int) -> float:
    """Two-sided p of Student's t, to about 1e-13; t >= 0."""
    return min(1.0, max(0.0, 1.0 - _within(math.atan2(t, math.sqrt(freedom)), freedom)))


def student_ps(t: Floats, freedom: Integers) -> Floats:
    """Two-sided p of many t >= 0, each with degrees of freedom of its own."""
    angle = np.fromiter(map(math.atan2, t.tolist(), np.sqrt(freedom).tolist()), np.float64, len(t))
    sine, square = np.sin(angle), np.cos(angle) ** 2
    is_odd = freedom % 2 == 1
    total, term = np.zeros(len(t)), np.where(is_odd, np.cos(angle), 1.0)
    step = np.where(is_odd, 3, 2)
    for _ in range(int(freedom.max(initial=0)) // 2):
        total += np.where(step <= freedom, term, 0.0)
        term *= square * (step - 1) / step
        step += 2
    within = np.where(is_odd, 2 / math.pi * (angle + sine * total), sine * total)
    return np.asarray(np.clip(1.0 - within, 0.0, 1.0))


def find_student_quantile(probability: float, freedom: int) -> float:
    """The value that Student's t does not exceed with this probability, 0.5 <= probability < 1.

    To a relative 1e-9 up to a probability of 1 - 1e-6.
    """
    wanted = 2 * probability - 1
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        if _within(middle, freedom) < wanted:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """The probability that |t| <= sqrt(freedom) tan(angle), for 0 <= angle <= pi / 2."""
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = freedom % 2
    total, term = 0.0, math.cos(angle) if odd else 1.0
    for step in range(2 + odd, freedom + 1, 2):
        total += term
        term *= square * (step - 1) / step
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
