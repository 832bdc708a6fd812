"""Blocks that resemble the one before: how often is a difference called found that is none?

    python validation/dependence.py [--quick]

Each arm follows a first-order autoregression from block to block, so that the differences do. nearmetal's own test at
level 0.05, and its guard: how often two equal systems are `different`, how often without the condition "if blocks are
independent", and of independent blocks how many of the true differences carry the caveat all the same, for differences
that are found in about half, four fifths and 95 % of studies, and for one of three spreads of a block's difference.
Beside it how many of these carry the condition "if blocks are symmetric", though they are.
"""

import argparse
import math
import sys

import numpy as np

from nearmetal.analysis.assumptions import find_dependent_p, find_lopsided_p
from nearmetal.analysis.differences import Differences
from nearmetal.analysis.signed_rank import signed_rank

LEVEL = 0.05
BLOCKS = (8, 12, 20, 40)
AUTOCORRELATIONS = (0.0, 0.2, 0.3, 0.5)
RESOLUTION = 1e-12


def effects(blocks: int) -> tuple[float, ...]:
    """In spreads of a block's difference."""
    return (*(size / math.sqrt(blocks) for size in (2.2, 3.1, 4.0)), 3.0)


def simulate(generator: np.random.Generator, blocks: int, autocorrelation: float) -> np.ndarray:
    """Differences with a spread of 1."""
    shocks = generator.normal(size=blocks)
    for block in range(1, blocks):
        shocks[block] = autocorrelation * shocks[block - 1] + math.sqrt(1 - autocorrelation**2) * shocks[block]
    return shocks


def count(studies: int, blocks: int, autocorrelation: float, effect: float) -> tuple[float, float, float]:
    """The shares of studies that find a difference, and that find one without either caveat."""
    generator = np.random.default_rng([studies, blocks, round(10 * autocorrelation), round(100 * effect)])
    found = plain = symmetric = 0
    for _ in range(studies):
        values = simulate(generator, blocks, autocorrelation) + effect
        centre = signed_rank(values, LEVEL, RESOLUTION)
        if centre.p is None or centre.p > LEVEL:
            continue
        found += 1
        p = find_dependent_p(Differences(values, values, values), centre, LEVEL, RESOLUTION)
        plain += p is not None and p <= LEVEL
        symmetric += (find_lopsided_p(values, centre.p, RESOLUTION) or 0.0) <= LEVEL
    return found / studies, plain / studies, symmetric / studies


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="300 studies each instead of 3,000")
    studies = 300 if parser.parse_args().quick else 3_000
    print(f"Two equal systems, level {LEVEL}, {studies:,} simulated studies each\n")
    print(f"{'autocorrelation':<18}{'blocks':>8}{'different':>12}{'without the caveat':>22}")
    for autocorrelation in AUTOCORRELATIONS:
        for blocks in BLOCKS:
            found, plain, _ = count(studies, blocks, autocorrelation, 0.0)
            print(f"{autocorrelation:<18}{blocks:>8}{found:>12.1%}{plain:>22.1%}")
    print("\nTrue differences of independent blocks\n")
    print(f"{'in spreads':<18}{'blocks':>8}{'different':>12}{'of these caveated':>22}{'if symmetric':>16}")
    for blocks in BLOCKS:
        for effect in effects(blocks):
            found, *without = count(studies, blocks, 0.0, effect)
            dependent, lopsided = (1 - plain / max(found, 1e-9) for plain in without)
            print(f"{effect:<18.2f}{blocks:>8}{found:>12.1%}{dependent:>22.1%}{lopsided:>16.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
