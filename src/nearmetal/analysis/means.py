"""What the typical boot leaves out: arithmetic means, the worst boots, and how much boots scatter. Pure.

A pseudomedian hardly moves if one boot in ten runs at half speed, and who pays for the machines pays for that boot too.
So the ratio of both sides' arithmetic means stands beside it. Its interval is a jackknife over blocks of the logarithm,
with Student's t for n - 1 degrees of freedom: R. G. Miller, "The jackknife - a review", Biometrika 61, 1974.
"""

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from nearmetal.analysis import portable_math
from nearmetal.analysis.differences import Sides
from nearmetal.analysis.results import Contrast, Means
from nearmetal.analysis.signed_rank import Floats
from nearmetal.analysis.student_t import find_student_quantile
from nearmetal.model import ResponseKind, Warned

UNLIKE = "mean-unlike-typical"

_FEWEST = 3
"""Blocks below which there is no interval."""

_FEWEST_TO_TELL = 6
"""Blocks below which no boot is seen to be far from the others, and there is no verdict either."""

_ALIKE = 1e-12
"""Relative. Boots that scatter less are all alike."""


def compare_means(sides: Sides, kind: ResponseKind, level: float) -> Means | None:
    """Of the blocks in which both sides worked, treatment by reference.

    None on the difference scale, where a value is no more than a bound, and where no number holds the ratio. The
    interval has confidence 1 - level, each contrast for itself.
    """
    pairs = [(one, other) for one, other in sides if one is not None and other is not None]
    if kind.scale != "ratio" or not pairs or {value.censored for pair in pairs for value in pair} != {None}:
        return None
    by_block = np.empty((len(pairs), 2))
    by_block[:, 0] = [one.value for one, _ in pairs]
    by_block[:, 1] = [other.value for _, other in pairs]
    values = by_block.T
    if not np.isfinite(values).all() or (values < 0).any() or not (values.max(axis=1) > 0).all():
        return None
    scaled = values / values.max(axis=1, keepdims=True)
    share = float(values[0].max() / values[1].max()) if _is_in_numbers(values) else 0.0
    ratio = share * float(scaled[0].mean() / scaled[1].mean())
    if not 0 < ratio < math.inf:
        return None
    worst = values[1].min() if kind.better == "higher" else values[1].max()
    worse = values[0] < worst if kind.better == "higher" else values[0] > worst
    spreads = scaled.std(axis=1, ddof=1) / scaled.mean(axis=1) if len(pairs) > 1 else np.zeros(2)
    return Means(
        blocks=len(pairs),
        ratio=ratio,
        interval=_find_interval(scaled, ratio, level),
        worse=int(worse.sum()),
        spread=float(spreads[0] / spreads[1]) if spreads[1] > _ALIKE else None,
    )


def _is_in_numbers(values: Floats) -> bool:
    """Whether floats hold the ratio of both largest values."""
    logs = np.log2(values.max(axis=1))
    return abs(float(logs[0] - logs[1])) < 1000


def _find_interval(scaled: Floats, ratio: float, level: float) -> tuple[float, float] | None:
    blocks = scaled.shape[1]
    if blocks < _FEWEST or not 0 < level < 1:
        return None
    without = (scaled.sum(axis=1, keepdims=True) - scaled).clip(0.0)
    if not (without > 0).all():
        return None
    logs = portable_math.log(without[0]) - portable_math.log(without[1])
    error = math.sqrt((blocks - 1) / blocks * float(((logs - logs.mean()) ** 2).sum()))
    half = _find_quantile(level, blocks - 1) * error
    return ratio * portable_math.exp(-half), ratio * portable_math.exp(half)


@lru_cache(maxsize=64)
def _find_quantile(level: float, freedom: int) -> float:
    return find_student_quantile(1 - level / 2, freedom)


def is_unlike_typical(contrast: Contrast) -> bool:
    """Whether the ratio of means and the pseudomedian are further apart than the margin. Of boots that worked."""
    if contrast.means is None or contrast.equivalence is None or contrast.means.blocks < _FEWEST_TO_TELL:
        return False
    typical = contrast.worked.estimate if contrast.worked else contrast.ratio
    if typical is None or not 0 < typical < math.inf:
        return False
    return abs(math.log(contrast.means.ratio) - math.log(typical)) > math.log(contrast.equivalence[1])


def warn_of_means(contrast: Contrast) -> Iterator[Warned]:
    """Of a primary contrast whose verdict is about a boot that the mean is unlike."""
    if contrast.primary and is_unlike_typical(contrast):
        text = (
            "the arithmetic means say otherwise than the typical boot, by more than the margin: some boots are far "
            "from the others, and the verdict is about the typical one"
        )
        yield Warned(code=UNLIKE, text=text)
