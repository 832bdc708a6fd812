"""One boot in ten at half speed: what do verdict, arithmetic means and their warning say?

    python validation/means.py [--quick]

Boots vary by 2 %, the margin is 2 %, the level 0.05. The reference never stalls. Told are how often the verdict is
`equivalent`, how often it is so without the warning `mean-unlike-typical`, how often it is warned of at all, and how
often the interval of the ratio of means holds the true one. The last rows have wide or skewed boots and no stalls.
"""

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from simulated import ON_ONE_SITE

from nearmetal.analysis import contrasts
from nearmetal.analysis.contrasts import Criterion
from nearmetal.analysis.means import is_unlike_typical
from nearmetal.analysis.responses import Replicate, Value, kind_of
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.model import ContrastPlan

LEVEL = 0.05
MARGIN = 0.02
BLOCKS = (8, 12, 20, 40)
KIND = kind_of("1/s", "higher", "ratio")
PLANNED = ContrastPlan(workload="web", treatment={"environment": "docker"}, reference={"environment": "host"})

Boots = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Case:
    treatment: Boots
    reference: Boots
    true: float
    """The ratio of means."""


def vary(by: float) -> Boots:
    return lambda generator, blocks: 100 * np.exp(generator.normal(0, by, blocks))


def stall(share: float) -> Boots:
    """That share of boots at half speed; the others vary by 2 %."""

    def make(generator: np.random.Generator, blocks: int) -> np.ndarray:
        return vary(0.02)(generator, blocks) * np.where(generator.random(blocks) < share, 0.5, 1.0)

    return make


CASES = {
    "alike, vary by 2 %": Case(vary(0.02), vary(0.02), 1.0),
    "one in ten at half": Case(stall(0.1), vary(0.02), 0.95),
    "one in twenty at half": Case(stall(0.05), vary(0.02), 0.975),
    "both, one in ten": Case(stall(0.1), stall(0.1), 1.0),
    "alike, vary by 10 %": Case(vary(0.1), vary(0.1), 1.0),
    "log-normal, sigma 0.5": Case(vary(0.5), vary(0.02), math.exp(0.125 - 0.0002)),
}


def conclude(treatment: np.ndarray, reference: np.ndarray) -> Contrast:
    pairs = tuple(
        (_replicate(block, one), _replicate(block, other))
        for block, (one, other) in enumerate(zip(treatment.tolist(), reference.tolist(), strict=True))
    )
    return contrasts._contrast(PLANNED, "throughput", KIND, pairs, Criterion(LEVEL, MARGIN, True)).contrast


def _replicate(block: int, value: float) -> Replicate:
    return Replicate(block, 0, 0.0, (ON_ONE_SITE,), {"throughput": Value(value, KIND)})


def describe(name: str, case: Case, blocks: int, studies: int) -> str:
    generator = np.random.default_rng([studies, blocks, *name.encode()])
    equivalent = silent = warned = covered = 0
    for _ in range(studies):
        found = conclude(case.treatment(generator, blocks), case.reference(generator, blocks))
        is_warned = is_unlike_typical(found)
        warned += is_warned
        equivalent += found.verdict is Verdict.EQUIVALENT
        silent += found.verdict is Verdict.EQUIVALENT and not is_warned
        assert found.means is not None and found.means.interval is not None
        low, high = found.means.interval
        covered += low <= case.true <= high
    shares = "".join(f"{number / studies:>14.1%}" for number in (equivalent, silent, warned, covered))
    return f"{name:<24}{blocks:>8}{shares}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 studies each instead of 2,000")
    studies = 200 if parser.parse_args().quick else 2_000
    print(f"Level {LEVEL}, margin {MARGIN:.0%}, {studies:,} simulated studies each\n")
    print(f"{'boots':<24}{'blocks':>8}{'equivalent':>14}{'not warned':>14}{'warned':>14}{'covered':>14}")
    for name, case in CASES.items():
        for blocks in BLOCKS:
            print(describe(name, case, blocks, studies), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
