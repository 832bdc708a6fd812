"""Blocks of a fleet: how often is a difference called found that is none, and how often are sites said to differ?

    python validation/sites.py [--quick]

Block differences of two systems on several sites, with normal noise of spread 1. The sites' own effects add up to 0,
evenly spread over the given range. "Verdict" is nearmetal's: signed ranks of all blocks. "Stratified" is told beside
it: the site is a fixed effect. Both at level 0.05. "Told" is how often sites are said to differ (p <= 0.05). Then the
same with noise that is three times as large on the last site, and with a true effect of one spread. Last, hosts in
general: each run draws its sites from a population whose effects have a spread of 1 about 0, and the statement is wrong
if its interval leaves out 0; beside it how often the verdict of all blocks would be, were it taken for one.
"""

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from nearmetal.analysis.signed_rank import signed_rank
from nearmetal.analysis.sites import ALARM, find_agreement_p, stratify

LEVEL = 0.05
RESOLUTION = 1e-12
SHAPES = ((2, 8), (2, 12), (2, 40), (4, 12), (4, 20), (4, 40), (8, 24))
"""Sites and blocks."""
APART = (0.0, 1.0, 4.0)


def place_blocks(generator: np.random.Generator, sites: int, blocks: int) -> np.ndarray:
    """Every so many blocks have each site once."""
    rounds = -(-blocks // sites)
    return np.concatenate([generator.permutation(sites) for _ in range(rounds)])[:blocks]


def simulate(
    generator: np.random.Generator, placed: np.ndarray, effects: np.ndarray, noise: Sequence[float]
) -> np.ndarray:
    values: np.ndarray = effects[placed] + np.asarray(noise)[placed] * generator.normal(size=len(placed))
    return values


def count(
    studies: int, sites: int, blocks: int, apart: float, unequal: float = 1.0, effect: float = 0.0
) -> tuple[float, float, float, float, float]:
    """Shares of studies whose verdict finds a difference, whose stratified interval does, and that tell sites apart;
    mean widths."""
    generator = np.random.default_rng([studies, sites, blocks, round(10 * apart), round(unequal), round(10 * effect)])
    effects = effect + np.linspace(-apart / 2, apart / 2, sites)
    noise = [1.0] * (sites - 1) + [unequal]
    found = np.zeros(3)
    widths = np.zeros(2)
    for _ in range(studies):
        placed = place_blocks(generator, sites, blocks)
        values = simulate(generator, placed, generator.permutation(effects), noise)
        groups = [values[placed == site] for site in range(sites)]
        agreement = find_agreement_p(groups, RESOLUTION)
        both = signed_rank(values, LEVEL, RESOLUTION).interval, stratify(groups, LEVEL)[1]
        found += [*(_leaves_out_0(one) for one in both), agreement is not None and agreement <= ALARM]
        widths += [one[1] - one[0] for one in both if one is not None]
    verdict, stratified, told = (found / studies).tolist()
    return verdict, stratified, told, float(widths[0] / studies), float(widths[1] / studies)


def _leaves_out_0(interval: tuple[float, float] | None) -> bool:
    return interval is not None and not interval[0] <= 0 <= interval[1]


def count_in_general(studies: int, sites: int, blocks: int) -> tuple[float, float]:
    """The shares of runs whose statement about hosts in general leaves out the truth, and whose verdict does."""
    generator = np.random.default_rng([studies, sites, blocks])
    wrong = np.zeros(2)
    for _ in range(studies):
        placed = place_blocks(generator, sites, blocks)
        values = simulate(generator, placed, generator.normal(size=sites), [1.0] * sites)
        each = [signed_rank(values[placed == site], LEVEL, RESOLUTION).estimate for site in range(sites)]
        ps = signed_rank(np.array(each), LEVEL, RESOLUTION).p, signed_rank(values, LEVEL, RESOLUTION).p
        wrong += [p is not None and p <= LEVEL for p in ps]
    general, verdict = (wrong / studies).tolist()
    return general, verdict


def show(title: str, studies: int, apart: Sequence[float], unequal: float = 1.0, effect: float = 0.0) -> None:
    print(f"\n{title}\n")
    print(f"{'apart':<8}{'sites':>6}{'blocks':>8}{'verdict':>10}{'stratified':>12}{'told':>8}{'widths':>16}")
    for far in apart:
        for sites, blocks in SHAPES:
            verdict, stratified, told, width, width_stratified = count(studies, sites, blocks, far, unequal, effect)
            widths = f"{width:.2f} and {width_stratified:.2f}"
            print(f"{far:<8}{sites:>6}{blocks:>8}{verdict:>10.1%}{stratified:>12.1%}{told:>8.1%}{widths:>16}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 studies each instead of 1,000")
    studies = 200 if parser.parse_args().quick else 1_000
    print(f"{studies:,} simulated studies a row, level {LEVEL}")
    show("Two equal systems on average: `different`", studies, APART)
    show("The same, the last site three times as noisy", studies, (0.0,), unequal=3.0)
    show("A true effect of one spread", studies, APART, effect=1.0)
    print("\nHosts in general, sites drawn anew for each run: 0 is left out\n")
    for sites, blocks in ((6, 12), (6, 24), (8, 24), (12, 36)):
        general, verdict = count_in_general(studies, sites, blocks)
        print(f"{sites} sites, {blocks} blocks: {general:.1%}; by the verdict of all blocks {verdict:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
