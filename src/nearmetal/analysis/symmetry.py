"""Whether a difference would still be found if block differences are not symmetric: a sensitivity p. Pure.

docs/validity.md says how it is made, by the jackknife of a U-statistic (P. K. Sen, "On some convergence properties of
U-statistics", Calcutta Statistical Association Bulletin 10, 1960). Of symmetric differences it nearly always agrees.
"""

import math

import numpy as np

from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.analysis.signed_rank import Floats
from nearmetal.analysis.student import student_p
from nearmetal.model import Warned

DEPENDS = "depends-on-symmetry"
"""The code of the warning, and of the caveat in the verdict's word."""


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


def is_lopsided(contrast: Contrast) -> bool:
    """Whether a difference is found only if block differences are symmetric."""
    p = contrast.p_lopsided
    return contrast.verdict is Verdict.DIFFERENT and p is not None and p > contrast.tested_at


def warn_of_lopsidedness(contrast: Contrast) -> Contrast:
    """The contrast, with a warning if its difference might not be found of blocks that are not symmetric."""
    if not is_lopsided(contrast):
        return contrast
    text = (
        "found if the differences of blocks are symmetric about their centre: by a test that does not ask for it p is "
        f"{contrast.p_lopsided:.2g}; the blocks of one side have a longer tail than the other's, or two modes"
    )
    return contrast.model_copy(update={"warnings": (*contrast.warnings, Warned(code=DEPENDS, text=text))})
