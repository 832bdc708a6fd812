"""Several comparisons with one reference: how often is any of them called different that is not, and what is found?

    python validation/families.py [--quick]

Studies of fixed blocks, level 0.05 for the family, nearmetal's own test and Holm's steps, beside the same test at
alpha / m alone. Some of the treatments differ by one spread of a boot, the others do not. Exit status 1 when any false
`different` is found in more than 5.5 % of studies.
"""

import argparse
import sys
from collections.abc import Callable

import numpy as np
import simulated

from nearmetal.analysis.analyse import find_steps
from nearmetal.analysis.contrasts import LOG_RESOLUTION
from nearmetal.analysis.signed_rank import signed_rank

LEVEL = 0.05
MOST_FALSE = 0.055
FAMILIES = ((4, 10), (4, 20), (4, 40), (30, 12), (30, 20), (30, 40))
"""Comparisons, and blocks."""

NOISES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], simulated.Floats]] = {
    "normal": lambda generator, shape: generator.normal(size=shape),
    "skewed": lambda generator, shape: generator.lognormal(0, 1, size=shape),
    "two modes": lambda generator, shape: generator.normal(size=shape) - 8.0 * (generator.random(shape) < 0.1),
}
"""Of a boot; the spread of what is not far out is 1."""


def count(noise: str, comparisons: int, blocks: int, differing: int, runs: int) -> tuple[float, float, float]:
    """Shares of studies with a false `different`, and of true differences that are found, by steps and without them."""
    generator = np.random.default_rng([runs, comparisons, blocks, differing, *noise.encode()])
    false = found = at_once = 0
    for _ in range(runs):
        boots = NOISES[noise](generator, (blocks, comparisons + 1))
        boots[:, 1 : differing + 1] += 1.0
        tested = {
            arm: p
            for arm in range(1, comparisons + 1)
            if (p := signed_rank(boots[:, arm] - boots[:, 0], LEVEL / comparisons, LOG_RESOLUTION).p) is not None
        }
        steps = find_steps(tested, comparisons, LEVEL)
        false += any(arm > differing for arm in steps)
        found += sum(arm <= differing for arm in steps)
        at_once += sum(tested[arm] <= LEVEL / comparisons for arm in range(1, differing + 1) if arm in tested)
    return false / runs, found / runs / max(differing, 1), at_once / runs / max(differing, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the studies: a glance, no proof")
    is_quick = parser.parse_args().quick
    print(f"{'noise':<12}{'comparisons':>12}{'blocks':>8}{'differ':>8}{'studies':>9}{'any false':>11}", end="")
    print(f"{'found by steps':>16}{'at alpha / m':>14}  kept")
    is_kept = True
    for noise in NOISES:
        for comparisons, blocks in FAMILIES:
            runs = (8_000 if comparisons < 10 else 4_000) // (10 if is_quick else 1)
            for differing in (0, comparisons // 2, comparisons - 1):
                false, found, at_once = count(noise, comparisons, blocks, differing, runs)
                kept = false <= MOST_FALSE
                is_kept = is_kept and kept
                shares = f"{found:>16.1%}{at_once:>14.1%}" if differing else f"{'':>30}"
                print(
                    f"{noise:<12}{comparisons:>12}{blocks:>8}{differing:>8}{runs:>9,}{false:>11.2%}{shares}  "
                    f"{'yes' if kept else 'NO'}",
                    flush=True,
                )
    return 0 if is_quick or is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
