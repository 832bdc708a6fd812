"""What so many blocks find, by noise that was measured: the smallest difference, the width of an interval, and how many
blocks a wish takes. Pure, and the same each time.

Noise is known as differences between boots that were alike, some in each block. A simulated study draws its block
differences from them, either sign as likely as the other, since which of two alike boots came first is chance. To such
differences a true one is added. The project's own test tells it from none, whatever the margin, when the interval's
near end lies beyond 0: when it is larger than what the noise alone puts between 0 and that end. So no search is
needed: the smallest difference told from none in 80 % of studies is the 80th percentile of that distance. The half
width of intervals is simulated alike.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nearmetal.analysis import portable_math
from nearmetal.analysis.signed_rank import Floats, two_sided_distinct
from nearmetal.analysis.student_t import find_student_quantile

POWER = 0.8
"""How often a difference is to be found, if a study does not say."""
CONFIDENCE = 0.95
"""Of the range in which the smallest difference lies, since noise seen in a few blocks is not known exactly. With long
tails it is less, as a few blocks do not tell how often a boot is far off; `validation/calibrating.py` says how much."""
FEWEST = 4
"""Blocks below which of the noise nothing is said."""

_STUDIES = 2_000
"""That are simulated. The percentile then has a standard error of one to two percent of itself."""
_SIMULATED = 64
"""Blocks up to which studies are simulated; beyond, noise falls with the square root of their number."""
_FAILED = 1e15
"""A difference in which one side failed, far beyond all that is measured."""
_AT_ONCE = 2_000_000
"""Numbers that are in memory at once."""


@dataclass(frozen=True)
class BootNoise:
    """Differences between alike boots, of logarithms on a ratio scale: a row for each block, a column for each pair.

    With a single pair of alike boots in each block there is one column; rows are of one length.
    """

    differences: Floats
    arms: int
    """Boots in each block that were alike."""
    failing: float = 0.0
    """The share of blocks in which a boot of two that are compared fails: its difference is beyond all others."""

    @classmethod
    def of(cls, values: Floats) -> "BootNoise":
        """From values of alike boots: blocks x boots, at least two boots."""
        first, second = np.triu_indices(values.shape[1], 1)
        return cls(values[:, first] - values[:, second], values.shape[1])

    @property
    def spread(self) -> float:
        """Standard deviation of one boot's value about its block's, which all boots of a block share."""
        return math.sqrt(float(np.mean(self.differences**2)) / 2)

    @property
    def doubt(self) -> float:
        """By what factor, at most, the spread may be larger or smaller than it seems: at CONFIDENCE.

        Leaving out each block in turn tells how far the logarithm of the variance is known (jackknife), whatever the
        noise looks like; but no better than if it were normal.
        """
        squares = np.mean(self.differences**2, axis=1)
        blocks = len(squares)
        left = squares.sum() - squares
        if not left.min() > 0:
            return math.inf
        without = portable_math.log(left / (blocks - 1))
        seen = (blocks - 1) / blocks * float(((without - without.mean()) ** 2).sum())
        normal = 2 / (blocks * (self.arms - 1))
        quantile = find_student_quantile((1 + CONFIDENCE) / 2, blocks - 1)
        return math.exp(quantile * math.sqrt(max(seen, normal)) / 2)


def smallest(noises: Sequence[BootNoise], blocks: int, level: float, power: float = POWER) -> float | None:
    """The smallest true difference that `blocks` blocks find in a share `power` of studies, on the scale of the noise.

    `noises` holds one, or that of each of the two sides compared. None where so few blocks find nothing at all.
    """
    ends = _find_ends(noises, blocks, level)
    return None if ends is None else _keep_bounded(max(0.0, float(np.quantile(-ends[0], power, method="higher"))))


def half_width(noises: Sequence[BootNoise], blocks: int, level: float, power: float = POWER) -> float | None:
    """Half the width that intervals of `blocks` blocks keep to in a share `power` of studies.

    On the scale of the noise. None where so few blocks have no interval.
    """
    ends = _find_ends(noises, blocks, level)
    return None if ends is None else _keep_bounded(float(np.quantile((ends[1] - ends[0]) / 2, power, method="higher")))


def _keep_bounded(found: float) -> float | None:
    """None where failures leave the end of an interval open in too many studies."""
    return found if found < _FAILED / 8 else None


Measure = Callable[[Sequence[BootNoise], int, float, float], float | None]
"""`smallest` or `half_width`."""


def count_blocks(
    measure: Measure, wanted: float, noises: Sequence[BootNoise], level: float, power: float = POWER
) -> int | None:
    """The fewest blocks with which a measure is at most `wanted` (> 0, on the scale of the noise). None beyond 10^6."""

    def is_enough(blocks: int) -> bool:
        found = measure(noises, blocks, level, power)
        return found is not None and found <= wanted

    upto = 8
    while upto <= _SIMULATED:
        if is_enough(upto):
            return bisect_left(range(upto), True, key=is_enough)
        upto *= 2
    least = measure(noises, _SIMULATED, level, power)
    if least is None:
        return None
    blocks = math.ceil(_SIMULATED * min((least / wanted) ** 2, 1e9))
    return blocks if blocks <= 10**6 else None


def _find_ends(noises: Sequence[BootNoise], blocks: int, level: float) -> tuple[Floats, Floats] | None:
    """Both ends of the interval of each simulated study in which nothing differs. None where there is no interval."""
    # How many of the smallest rank sums, from 0 on, are significant.
    rejected = int(np.searchsorted(two_sided_distinct(blocks), level, side="right"))
    if not rejected:
        return None
    generator = np.random.default_rng([blocks, _STUDIES])
    drawn = [_drawn(noise, blocks, generator) for noise in noises]
    # A difference holds the noise of both its sides: half of the variance of an A/A of either.
    differences = np.sum(drawn, axis=0) / math.sqrt(len(drawn))
    first, second = np.triu_indices(blocks)
    near, far = rejected - 1, len(first) - rejected
    lows: list[Floats] = []
    highs: list[Floats] = []
    for some in np.array_split(differences, max(1, _STUDIES * len(first) // _AT_ONCE)):
        for ends, place, side in ((lows, near, -1), (highs, far, 1)):
            # A failure of either side, together, is 0 whatever the true difference: it speaks against each end.
            unmoved = np.where(side * some > _FAILED / 2, 2 * some, some)
            averages = np.partition((unmoved[:, first] + unmoved[:, second]) / 2, place, axis=1)
            ends.append(averages[:, place])
    return np.concatenate(lows), np.concatenate(highs)


def _drawn(noise: BootNoise, blocks: int, generator: np.random.Generator) -> Floats:
    """Studies x blocks."""
    chosen = generator.choice(noise.differences.ravel(), size=(_STUDIES, blocks))
    if noise.failing:
        chosen[generator.random(chosen.shape) < noise.failing] = _FAILED
    return np.asarray(chosen * np.where(generator.random(chosen.shape) < 0.5, 1.0, -1.0))


def doubt(noises: Sequence[BootNoise]) -> float:
    """As of one noise; of two sides, as of the one that is known less."""
    return max(noise.doubt for noise in noises)
