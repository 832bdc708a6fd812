"""Whether a difference would still be found if a block resembled the one before: a sensitivity p. Pure.

docs/validity.md says how it is made. It is p itself if differences vary no more than independent ones do, it holds for
failures and bounds as p does, and a difference that is large beside the scatter of its blocks is found whatever their
order.
"""

import math

import numpy as np

from nearmetal.analysis.differences import Differences
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.analysis.signed_rank import Centre, Floats, approximate_p
from nearmetal.model import Warned

DEPENDS = "depends-on-independence"
"""The code of the warning, and of the caveat in the verdict's word."""

FEWEST = 6
"""Blocks below which a series says nothing of its order."""

_WIDENED = 0.6
"""How many standard errors, 1 / sqrt(n) each, the autocorrelation is taken to be higher than it looks: few blocks show
little of it. More cost independent blocks their plain word more often (`validation/dependence.py`)."""

_EXACT = 500
"""Blocks up to which p is exact; beyond, its normal approximation serves as well."""

_MOST = 0.9
"""A higher autocorrelation cannot be told from a drift."""


def find_dependent_p(differences: Differences, found: Centre, level: float, resolution: float) -> float | None:
    """p of no effect that allows for the autocorrelation of the differences, which are in the order of their blocks.

    `found` is what the plain test says of them. None if it has no p, or if there are too few blocks to tell an order.
    """
    blocks = len(differences.told)
    if found.p is None or blocks < FEWEST:
        return None
    if not math.isfinite(found.estimate):  # failures have no size, so there is no centre nearer to the estimate
        return found.p
    inflation = find_inflation(estimate_autocorrelation(differences.told), blocks)
    nearer = np.full(blocks, found.estimate * (1 - 1 / math.sqrt(inflation)))
    shifted = differences.shift(-nearer)
    is_long = blocks > _EXACT and not differences.are_bounded
    p = approximate_p(shifted.told, resolution) if is_long else shifted.rank(level, resolution).p
    return None if p is None else max(p, found.p)


def estimate_autocorrelation(differences: Floats) -> float:
    """At lag 1, corrected for its bias and raised by `_WIDENED` standard errors; 0 to `_MOST`.

    The bias is -(1 + 3 rho) / n: F. H. C. Marriott and J. A. Pope, "Bias in the estimation of autocorrelations",
    Biometrika 41, 1954. Infinite differences count as far out as the others are apart.
    """
    blocks = len(differences)
    finite = differences[np.isfinite(differences)]
    values = differences / (float(np.abs(finite).max(initial=0.0)) or 1.0)  # squares of what is huge overflow
    low, high = (float(end) for end in np.quantile(values[np.isfinite(values)], (0, 1))) if len(finite) else (0.0, 0.0)
    out = (high - low) or 1.0
    values = np.clip(values, low - out, high + out)
    centred = values - values.mean()
    total = float((centred**2).sum())
    seen = float((centred[1:] * centred[:-1]).sum()) / total if total else 0.0
    corrected = (blocks * seen + 1) / (blocks - 3)
    return min(max(corrected + _WIDENED / math.sqrt(blocks), 0.0), _MOST)


def find_inflation(autocorrelation: float, blocks: int) -> float:
    """By how much the variance of a mean exceeds what its values' scatter says, in a first-order autoregression; >= 1.

    The values resemble each other, so that their scatter about their own mean is too small, which counts too.
    """
    lags = np.arange(1, blocks)
    inflation = 1 + 2 * float(((1 - lags / blocks) * autocorrelation**lags).sum())
    return inflation * (blocks - 1) / (blocks - inflation)


def is_dependent(contrast: Contrast) -> bool:
    """Whether a difference is found only if blocks are independent."""
    p = contrast.p_dependent
    return contrast.verdict is Verdict.DIFFERENT and p is not None and p > contrast.tested_at


def warn_of_dependence(contrast: Contrast) -> Contrast:
    """The contrast, with a warning if its difference might not be found of blocks that resemble each other."""
    if not is_dependent(contrast):
        return contrast
    text = (
        "found if blocks are independent: if a block's difference resembled that of the block before as much as these "
        f"blocks allow, p would be {contrast.p_dependent:.2g}; more blocks would tell"
    )
    return contrast.model_copy(update={"warnings": (*contrast.warnings, Warned(code=DEPENDS, text=text))})
