"""Simulated systems for the validation of verdicts: what a response does besides the effect that is looked for.

Everything is on the log scale, in units of the spread of one boot's value, and seeded.
"""

from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from nearmetal.model import TrialRecord

Floats = NDArray[np.float64]
Model = Callable[[int, int, np.random.Generator], Floats]
"""(runs, blocks, generator) to block differences between two systems that do not differ: runs x blocks."""


ON_ONE_SITE = cast(TrialRecord, SimpleNamespace(site="local"))
"""A boot's record: all that is asked of it."""


def normal(runs: int, blocks: int, generator: np.random.Generator) -> Floats:
    return _difference(generator.normal(size=(runs, blocks, 2)), generator)


def skewed(runs: int, blocks: int, generator: np.random.Generator) -> Floats:
    """Each boot's value has a long upper tail (log-normal, sigma 1)."""
    return _difference(generator.lognormal(0, 1, size=(runs, blocks, 2)), generator)


def drifting(runs: int, blocks: int, generator: np.random.Generator) -> Floats:
    """The host slows down by one spread a block, and wanders at random besides."""
    slots = 2 * blocks
    wander = generator.normal(0, 0.5, size=(runs, slots)).cumsum(axis=1)
    level = (0.5 * np.arange(slots) + wander).reshape(runs, blocks, 2)
    return _difference(level + generator.normal(size=(runs, blocks, 2)), generator)


def stalling(runs: int, blocks: int, generator: np.random.Generator) -> Floats:
    """One boot in ten begins a stall of eight spreads, which goes on into the next boot half of the time."""
    slots = 2 * blocks
    begins = generator.random((runs, slots)) < 0.1
    goes_on = np.zeros_like(begins)
    goes_on[:, 1:] = begins[:, :-1] & (generator.random((runs, slots - 1)) < 0.5)
    stalled = (begins | goes_on).reshape(runs, blocks, 2)
    return _difference(generator.normal(size=(runs, blocks, 2)) - 8.0 * stalled, generator)


def two_modes(runs: int, blocks: int, generator: np.random.Generator) -> Floats:
    """Three boots in ten of either system land elsewhere, ten spreads off."""
    slots = generator.normal(size=(runs, blocks, 2)) + 10.0 * (generator.random((runs, blocks, 2)) < 0.3)
    return _difference(slots, generator)


def two_modes_of_one(runs: int, blocks: int, generator: np.random.Generator) -> Floats:
    """The same of one system alone, the other varies a tenth as much; centred on pseudomedian 0."""
    return np.asarray(_two_modes_of_one((runs, blocks), generator) - _centre_of_two_modes())


def _two_modes_of_one(shape: tuple[int, ...], generator: np.random.Generator) -> Floats:
    treatment = generator.normal(size=shape) + 10.0 * (generator.random(shape) < 0.3)
    return np.asarray(treatment - generator.normal(0, 0.1, size=shape))


@lru_cache
def _centre_of_two_modes() -> float:
    """The pseudomedian, of four million simulated pairs."""
    pairs = _two_modes_of_one((4_000_000, 2), np.random.default_rng(1))
    return float(np.median(pairs.mean(axis=1)))


def unequal_tails(runs: int, blocks: int, generator: np.random.Generator) -> Floats:
    """As unequal as tails can be: one system is exponential, the other does not vary. Centred on pseudomedian 0."""
    return np.asarray(generator.exponential(size=(runs, blocks)) - _pseudomedian(0.0))


def unequal_tails_of_two(runs: int, blocks: int, generator: np.random.Generator) -> Floats:
    """One system has a long tail (exponential), the other a normal spread half as large; centred on pseudomedian 0."""
    treatment = generator.exponential(size=(runs, blocks))
    reference = generator.normal(0, 0.5, size=(runs, blocks))
    return np.asarray(treatment - reference - _pseudomedian(0.5))


@lru_cache
def _pseudomedian(spread: float) -> float:
    """Of an Exp(1) value less a normal one: where the mean of two such differences is as often above as below.

    Without the normal one that is half the median of Gamma(2), 0.8392.
    """

    def below(centre: float) -> float:
        """The two exponentials add up to Gamma(2), the two normals to one with sqrt(2) times the spread."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(80)
        shares = stats.gamma(2).cdf(2 * centre + np.sqrt(2) * spread * nodes)
        return float((weights * shares).sum() / weights.sum()) - 0.5

    return float(optimize.brentq(below, 0.0, 3.0))


def bound_to_treatment(runs: int, blocks: int, generator: np.random.Generator) -> Floats:
    """Each system carries a state of its own from block to block (first-order autoregression, 0.9)."""
    arms = np.empty((runs, blocks, 2))
    arms[:, 0] = generator.normal(size=(runs, 2))
    for block in range(1, blocks):
        arms[:, block] = 0.9 * arms[:, block - 1] + np.sqrt(1 - 0.9**2) * generator.normal(size=(runs, 2))
    return np.asarray(arms[:, :, 0] - arms[:, :, 1])


def _difference(slots: Floats, generator: np.random.Generator) -> Floats:
    """Treatment minus reference, where a coin decides for each block which of them takes the first slot."""
    treatment_first = generator.random(slots.shape[:2]) < 0.5
    difference = slots[:, :, 0] - slots[:, :, 1]
    return np.asarray(np.where(treatment_first, difference, -difference))


MODELS: dict[str, Model] = {
    "normal": normal,
    "skewed": skewed,
    "drifting": drifting,
    "stalling": stalling,
    "unequal tails, both vary": unequal_tails_of_two,
}
"""Noise under which the level of a verdict is promised."""

OF_ONE_RUN: dict[str, Model] = {**MODELS, "two modes": two_modes}
"""The same, and more that is asked of one run alone."""

GUARDED: dict[str, Model] = {"unequal tails": unequal_tails, "two modes of one side": two_modes_of_one}
"""Noise that is not symmetric: the level is promised of verdicts without a caveat, from `GUARDED_FROM` blocks on."""

GUARDED_FROM = 12

NOT_PROMISED: dict[str, Model] = {"state bound to the treatment": bound_to_treatment}
"""Noise under which the level is measured all the same, so that a reader knows how far off it is."""
