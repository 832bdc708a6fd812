"""Why blocks: three ways to compare two systems that do not differ, and how often each calls them different.

    python validation/why_blocks.py [--quick] [--json]

Every way measures 60 values of each system. A value varies by 1 % (standard deviation); each boot has a speed of its
own; the host wanders while all is measured (a random walk). What differs is how the values are taken and judged:

- pyperf's rule: one boot of each system, all of A, then all of B; Student's two-sample t-test with pooled variance on
  the 60 + 60 values, significant at 95 % (pyperf's `compare_to`; its defaults give 20 processes x 3 values).
- one boot and permutation: one boot of each, values of A and B interleaved at random, and a permutation test of the
  means. The order is sound and the test assumes nothing of the distribution; the unit is wrong.
- ten blocks: ten boots of each in randomised blocks, the six values of a boot averaged to one, nearmetal's test.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from nearmetal.analysis.contrasts import LOG_RESOLUTION
from nearmetal.analysis.signed_rank import signed_rank

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

VALUES = 60
BLOCKS = 10
LEVEL = 0.05
PERMUTATIONS = 999
CHUNK = 500


@dataclass(frozen=True)
class Noise:
    """In percent. `wander` is the step of the random walk from one value to the next."""

    boot: float
    wander: float
    value: float = 1.0


SCENARIOS = (
    Noise(boot=0.0, wander=0.0),
    Noise(boot=0.5, wander=0.0),
    Noise(boot=0.0, wander=0.125),
    Noise(boot=0.25, wander=0.06),
    Noise(boot=0.5, wander=0.125),
    Noise(boot=1.0, wander=0.25),
)


Method = Callable[[Noise, int, np.random.Generator], Flags]
"""To one verdict for each simulated run: whether the systems are called different."""


@dataclass(frozen=True)
class Row:
    noise: Noise
    pyperf_rule: float
    one_boot_permutation: float
    ten_blocks: float


def values(noise: Noise, boots: Floats, generator: np.random.Generator) -> Floats:
    """Runs x slots in the order of time; `boots` numbers the boot of each slot."""
    runs, slots = boots.shape
    walk = generator.normal(0, noise.wander, size=(runs, slots)).cumsum(axis=1)
    speeds = generator.normal(0, noise.boot, size=(runs, int(boots.max()) + 1))
    return np.asarray(
        walk
        + np.take_along_axis(speeds, boots.astype(np.int64), axis=1)
        + generator.normal(0, noise.value, size=(runs, slots))
    )


def pyperf_rule(noise: Noise, runs: int, generator: np.random.Generator) -> Flags:
    boots = np.tile(np.repeat([0.0, 1.0], VALUES), (runs, 1))
    taken = values(noise, boots, generator)
    t = stats.ttest_ind(taken[:, :VALUES], taken[:, VALUES:], axis=1, equal_var=True).statistic
    return np.asarray(np.abs(t) >= stats.t.ppf(1 - LEVEL / 2, 2 * VALUES - 2))


def one_boot_permutation(noise: Noise, runs: int, generator: np.random.Generator) -> Flags:
    order = np.argsort(generator.random((runs, 2 * VALUES)), axis=1)
    system = (order < VALUES).astype(np.float64)  # which slots are A's
    taken = values(noise, system, generator)
    shuffled = np.argsort(generator.random((PERMUTATIONS, 2 * VALUES)), axis=1) < VALUES
    sign = np.where(shuffled, 1.0, -1.0)
    observed = np.abs((taken * (2 * system - 1)).sum(axis=1))
    as_extreme = (np.abs(taken @ sign.T) >= observed[:, None]).sum(axis=1)
    return np.asarray((1 + as_extreme) / (1 + PERMUTATIONS) <= LEVEL)


def ten_blocks(noise: Noise, runs: int, generator: np.random.Generator) -> Flags:
    each = VALUES // BLOCKS
    boots = np.tile(np.repeat(np.arange(2.0 * BLOCKS), each), (runs, 1))
    taken = values(noise, boots, generator).reshape(runs, BLOCKS, 2, each).mean(axis=3)
    first = np.where(generator.random((runs, BLOCKS)) < 0.5, 1.0, -1.0)
    differences = first * (taken[:, :, 0] - taken[:, :, 1]) / 100
    found = [signed_rank(row, LEVEL, LOG_RESOLUTION).p for row in differences]
    return np.array([p is not None and p <= LEVEL for p in found])


def share(method: Method, noise: Noise, runs: int) -> float:
    generator = np.random.default_rng(1)
    return float(np.mean([method(noise, CHUNK, generator).mean() for _ in range(runs // CHUNK)]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1,000 runs each instead of 10,000")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    arguments = parser.parse_args()
    runs = 1_000 if arguments.quick else 10_000
    rows = [
        Row(noise, *(share(method, noise, runs) for method in (pyperf_rule, one_boot_permutation, ten_blocks)))
        for noise in SCENARIOS
    ]
    if arguments.json:
        print(json.dumps({"schema": "validation.v1", "runs": runs, "rows": [asdict(row) for row in rows]}))
        return 0
    print(f"Two systems that do not differ: how often each rule calls them different ({runs} simulated runs)\n")
    print("spread of boots   wander per value   pyperf's rule   one boot, permutation   ten blocks")
    for row in rows:
        print(
            f"{row.noise.boot:>13.2f} %{row.noise.wander:>17.3f} %{row.pyperf_rule:>16.1%}"
            f"{row.one_boot_permutation:>24.1%}{row.ten_blocks:>13.1%}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
