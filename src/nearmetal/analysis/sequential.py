"""When a run may look at its verdicts before its last block, and what a look must see: fixed before anything ran.

Looks are taken after so many planned blocks each. The level is spent linearly: by a look after n of N blocks, at most
n / N of it. Each look's boundary is the largest rank sum that keeps to that, given that no earlier look has rejected:
`blocks`, the whole number that |W+ - W-| must reach, and the probability that it does at that look alone. Tested at
that level each, all looks together are wrong no more often than the study's level says, and the intervals of all looks
cover the truth together (repeated intervals: C. Jennison and B. W. Turnbull, Group Sequential Methods, 2000, ch. 9).
How looks depend on each other, and why a twentieth of the level is held back: docs/adr/looks-before-the-end.md.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np

from nearmetal.analysis.signed_rank import Floats, two_sided_distinct
from nearmetal.model import Look

USUAL = (8, 12, 16, 24, 32, 40)
SPENT = 0.95
"""Of the level, by the last look; the rest is held back for what the normal approximation leaves out."""
_NODES = 160
"""Of Gauss and Legendre between a look's boundaries: enough for twelve digits."""
_NORMAL = NormalDist()


def looks(first: int, last: int, level: float) -> tuple[Look, ...]:
    """The looks of a run of `first` to `last` blocks (1 <= first < last), whose verdicts are tested at `level` in all.

    A look at which nothing could be seen is none, but for the last one: with too few blocks that has no boundary.
    """
    planned: list[Look] = []
    path = _Path()
    for blocks in _schedule(first, last):
        two_sided = two_sided_distinct(blocks)
        most = SPENT * level * blocks / last
        # The rank sum of one sign: the smaller it is, the more extreme.
        allowed = bisect_right(range(len(two_sided)), most, key=lambda t: path.spent_with(blocks, float(two_sided[t])))
        if allowed:
            smaller = allowed - 1
            chance = float(two_sided[smaller])
            path.go_on(blocks, chance)
            boundary = blocks * (blocks + 1) // 2 - 2 * smaller
            planned.append(Look(blocks=blocks, level=chance, boundary=boundary))
        elif blocks == last:
            planned.append(Look(blocks=blocks, level=0.0, boundary=None))
    return tuple(planned)


def _schedule(first: int, last: int) -> Iterator[int]:
    yield first
    yield from (blocks for blocks in USUAL if first < blocks < last)
    blocks = max(first, USUAL[-1])
    while (blocks := blocks + max(8, blocks // 4)) <= last - 8:
        yield blocks
    yield last


class _Path:
    """Where the statistic, standardised, may be when no look has rejected so far: how likely at which places."""

    def __init__(self) -> None:
        self._blocks = 0
        self._spent = 0.0
        self._at: Floats = np.zeros(1)
        self._mass: Floats = np.ones(1)

    def spent_with(self, blocks: int, chance: float) -> float:
        """The level spent by all looks, should the next one reject with this probability by itself."""
        boundary = -_NORMAL.inv_cdf(chance / 2)
        centres, spread = self._onward(blocks)
        beyond = _tails((boundary - centres) / spread) + _tails((boundary + centres) / spread)
        return self._spent + float(beyond @ self._mass)

    def go_on(self, blocks: int, chance: float) -> None:
        """The next look rejects with this probability by itself, and did not."""
        self._spent = self.spent_with(blocks, chance)
        boundary = -_NORMAL.inv_cdf(chance / 2)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        at = boundary * nodes
        centres, spread = self._onward(blocks)
        density = np.exp(-(((at[:, None] - centres) / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))
        self._mass = boundary * weights * (density @ self._mass)
        self._at, self._blocks = at, blocks

    def _onward(self, blocks: int) -> tuple[Floats, float]:
        """Where the statistic is expected after so many blocks, from each place that it may be at, and its spread."""
        correlation = correlation_of(self._blocks, blocks)
        return correlation * self._at, math.sqrt(1 - correlation**2)


def _tails(values: Floats) -> Floats:
    """How often a standard normal value exceeds each of these. `NormalDist.cdf` loses the digits of small tails."""
    return np.array([math.erfc(value / math.sqrt(2)) / 2 for value in values.tolist()])


def correlation_of(fewer: int, more: int) -> float:
    """Of the signed-rank statistics of the first `fewer` differences and of `more`, if nothing differs; 0 for none.

    A difference whose size is exceeded by none but a share 1 - u of all has rank 1 + Bin(fewer - 1, u) among the first
    and Bin(more - fewer, u) more among all; signs are independent of ranks, so that only products of ranks remain.
    """
    if not fewer:
        return 0.0
    of_ranks = (fewer + 1) * (2 * fewer + 1) / 6 + (more - fewer) * (1 / 2 + (fewer - 1) / 3)
    return fewer * of_ranks / math.sqrt(_variance(fewer) * _variance(more))


def _variance(blocks: int) -> float:
    return blocks * (blocks + 1) * (2 * blocks + 1) / 6
