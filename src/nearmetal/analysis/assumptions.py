"""What a verdict assumes of blocks, and whether a difference would still be found without it: sensitivity p's. Pure.

docs/validity.md says how both are made. *Independence*: p if a block resembled the one before. It is p itself if
differences vary no more than independent ones do, it holds for failures and bounds as p does, and a difference that is
large beside the scatter of its blocks is found whatever their order. *Symmetry*: p by the jackknife of a U-statistic
(P. K. Sen, "On some convergence properties of U-statistics", Calcutta Statistical Association Bulletin 10, 1960). Of
symmetric differences it nearly always agrees.
"""

import math
from collections.abc import Iterator

import numpy as np

from nearmetal.analysis.differences import Differences
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.analysis.signed_rank import Centre, Floats, approximate_p
from nearmetal.analysis.student_t import student_p
from nearmetal.model import Warned

ON_INDEPENDENCE, ON_SYMMETRY = "depends-on-independence", "depends-on-symmetry"
"""Codes of the warnings, and of the conditions in a verdict's small print."""

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


def find_lopsided_p(differences: Floats, p: float | None, resolution: float) -> float | None:
    """p of no effect that needs no symmetry, and at least the test's own `p`; None if there is none."""
    blocks = len(differences)
    if p is None or blocks < 3:
        return p
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = np.round(differences / resolution)
    ordered = np.sort(rounded)
    above = blocks - np.searchsorted(ordered, -rounded, side="right")
    below = np.searchsorted(ordered, -rounded, side="left")
    shares = (above - below - np.sign(rounded)) / (blocks - 1)  # of the others, those with which it adds up to > 0
    spread = 2 * float(shares.std(ddof=1)) / math.sqrt(blocks)
    return max(student_p(abs(float(shares.mean())) / spread, blocks - 1), p) if spread else p


def is_dependent(contrast: Contrast) -> bool:
    """Whether a difference is found only if blocks are independent."""
    return _rests_on_assumption(contrast, contrast.p_dependent)


def is_lopsided(contrast: Contrast) -> bool:
    """Whether a difference is found only if block differences are symmetric."""
    return _rests_on_assumption(contrast, contrast.p_lopsided)


def _rests_on_assumption(contrast: Contrast, p: float | None) -> bool:
    """Whether a difference is found by the plain test, and not by the p that does without the assumption."""
    return contrast.verdict is Verdict.DIFFERENT and p is not None and p > contrast.tested_at


def warn_of_assumptions(contrast: Contrast) -> Iterator[Warned]:
    if is_dependent(contrast):
        text = (
            "found if blocks are independent: if a block's difference resembled that of the block before as much as "
            f"these blocks allow, p would be {contrast.p_dependent:.2g}; more blocks would tell"
        )
        yield Warned(code=ON_INDEPENDENCE, text=text)
    if is_lopsided(contrast):
        text = (
            "found if the differences of blocks are symmetric about their centre: by a test that does not ask for it "
            f"p is {contrast.p_lopsided:.2g}; the blocks of one side have a longer tail than the other's, or two modes"
        )
        yield Warned(code=ON_SYMMETRY, text=text)
