"""What looks do to an estimate, and whether the looks left can decide anything. Pure.

`adjust_for_looks` takes off what looks add on average, by Whitehead's correction: docs/validity.md; C. Jennison and
B. W. Turnbull, Group Sequential Methods, 2000, 8.3. `is_futile` goes by the predictive power of the last look (ibid.,
10.3). It only ends runs. Boundaries stay as they are, so that the level holds whatever it says.

Both take estimates to be normal about the truth, with the spread that the look's own interval shows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from nearmetal.analysis.results import Contrast
from nearmetal.analysis.signed_rank import Floats
from nearmetal.analysis.student_t import find_student_quantile
from nearmetal.analysis.verdict_rules import find_half_margin
from nearmetal.model import Look

_NORMAL = NormalDist()
_NODES = 24
"""Of Gauss and Legendre in each range of estimates at which a study goes on. More find the same."""

_HARDLY = 0.05
"""With less of a chance, the blocks left are not worth their time."""

_STEPS = 60
_SETTLED = 1e-6
"""In spreads of one block's difference."""
_DIGITS = 9
"""More than are settled. The last ones of all would differ between CPUs, by whose instructions sums are made."""


def adjust_for_looks(contrast: Contrast, planned: Sequence[Look]) -> float | None:
    """The estimate of a contrast at the look that decided it or the last one, corrected for the looks before.

    None if the interval has no finite width to go by.
    """
    found = _LookEstimate.of(contrast, planned)
    if found is None:
        return None
    truth = found.estimate
    if found.spread:
        path = _EstimatePath.of(planned, None if found.margin is None else found.margin / found.spread)
        truth = found.spread * _find_truth(path, found.estimate / found.spread)
    corrected = math.exp(truth) if contrast.scale == "ratio" else truth
    return float(f"{corrected:.{_DIGITS}g}")


def is_futile(contrast: Contrast, planned: Sequence[Look]) -> bool:
    """Whether the last look will hardly find a difference or equivalence, by what an open contrast has found so far."""
    found, last = _LookEstimate.of(contrast, planned), planned[-1]
    if found is None or last.boundary is None or not found.spread:
        return False
    half = _find_quantile(last) * found.spread / math.sqrt(last.blocks)
    at_last = NormalDist(found.estimate, found.spread * math.sqrt(1 / found.blocks - 1 / last.blocks))
    chance = at_last.cdf(-half) + 1 - at_last.cdf(half)
    if found.margin is not None and found.margin > half:
        chance += at_last.cdf(found.margin - half) - at_last.cdf(half - found.margin)
    return chance < _HARDLY


@dataclass(frozen=True, slots=True)
class _LookEstimate:
    """What a look has found, centred on no effect: logarithms on a ratio scale."""

    blocks: int
    estimate: float
    spread: float
    """The standard deviation of one block's difference, as the interval has it."""
    margin: float | None

    @classmethod
    def of(cls, contrast: Contrast, planned: Sequence[Look]) -> "_LookEstimate | None":
        """None if the interval or the estimate is unbounded, or there is none."""
        estimate = contrast.difference if contrast.ratio is None else contrast.ratio
        if contrast.look is None or contrast.interval is None or estimate is None:
            return None
        look = planned[contrast.look - 1]
        places = [estimate, *contrast.interval]
        if contrast.scale == "ratio":
            places = [math.log(place) if place > 0 else -math.inf for place in places]
        if not all(map(math.isfinite, places)):
            return None
        quantile = find_student_quantile(1 - look.level / 2, look.blocks - 1)
        spread = (places[2] - places[1]) / 2 / quantile * math.sqrt(look.blocks)
        if not math.isfinite(spread):
            return None
        return cls(look.blocks, places[0], spread, find_half_margin(contrast.equivalence, contrast.scale))


def _find_truth(path: "_EstimatePath", seen: float) -> float:
    truth = seen
    for _ in range(_STEPS):
        before, truth = truth, seen - path.find_bias(truth)
        if abs(truth - before) < _SETTLED:
            break
    return truth


def _find_quantile(look: Look) -> float:
    return -_NORMAL.inv_cdf(look.level / 2)


@dataclass(frozen=True, slots=True)
class _EstimatePath:
    """Where the estimate may be if no look has stopped the study, with a spread of one block's difference of 1."""

    blocks: tuple[int, ...]
    """After which looks are."""
    nodes: tuple[tuple[Floats, Floats], ...]
    """Of each look but the last: estimates with which a study goes on, and their weights in an integral."""

    @classmethod
    def of(cls, planned: Sequence[Look], margin: float | None) -> "_EstimatePath":
        looks = [look for look in planned if look.boundary is not None]
        return cls(tuple(look.blocks for look in looks), tuple(_place_nodes(look, margin) for look in looks[:-1]))

    def find_bias(self, truth: float) -> float:
        """By how much the estimate of a study is expected to exceed this truth.

        Of n2 blocks the estimate is expected to be n1 / n2 of what it was with n1, and the truth for the rest. So each
        look at which a study goes on moves it by the share 1 - n1 / n2 of how far it then lies below the truth.
        """
        bias, before = 0.0, 0
        at, mass = np.zeros(1), np.ones(1)
        for (estimates, weights), blocks, later in zip(self.nodes, self.blocks, self.blocks[1:], strict=False):
            share = before / blocks
            centres = share * at + (1 - share) * truth
            spread = math.sqrt((1 - share) / blocks)
            density = np.exp(-(((estimates[:, None] - centres) / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))
            at, mass, before = estimates, weights * (density @ mass), blocks
            bias += (1 - blocks / later) * float((truth - at) @ mass)
        return bias


def _place_nodes(look: Look, margin: float | None) -> tuple[Floats, Floats]:
    """A study goes on unless the interval excludes no effect or lies within the margin."""
    half = _find_quantile(look) / math.sqrt(look.blocks)
    inner = min(max((margin or 0.0) - half, 0.0), half)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    middle, reach = (half + inner) / 2, (half - inner) / 2
    upper = middle + reach * nodes
    return np.concatenate([-upper[::-1], upper]), np.tile(reach * weights, 2)
