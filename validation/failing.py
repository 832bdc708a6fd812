"""A treatment that fails in some of its boots, and is as fast as its reference in the others: what is it called?

    python validation/failing.py [--quick]

nearmetal's own code from outcomes to verdicts, level 0.05, margin 2 %, boots that vary by 0.2 %, so that only failures
stand against `equivalent`. Beside it the rule of version 1, which repeats a block until both sides have worked. Then
two systems that both fail in a tenth of their boots: how often are they called different? Exit status 1 if a bound is
missed: 2 % of `equivalent` from 10 blocks on, 5.5 % of false `different`.
"""

import argparse
import sys

import numpy as np
from simulated import ON_ONE_SITE

from nearmetal.analysis import contrasts
from nearmetal.analysis.contrasts import Criterion
from nearmetal.analysis.responses import Replicate, Value, kind_of
from nearmetal.analysis.results import Verdict
from nearmetal.model import ContrastPlan

BLOCKS = (6, 8, 9, 10, 12, 16, 30, 40)
SPREAD = 0.002
PLANNED = ContrastPlan(workload="web", treatment={"environment": "docker"}, reference={"environment": "host"})
KIND = kind_of("1/s", "higher", "ratio")
MOST_EQUIVALENT, MOST_FALSE = 0.02, 0.055


def conclude(values: np.ndarray, failed: np.ndarray) -> Verdict:
    """`values` and `failed`: blocks x sides."""
    outcomes = [
        Replicate(block, 0, 0.0, (ON_ONE_SITE,), {} if bad else {"throughput": Value(value, KIND)}, bad)
        for block, (of, bads) in enumerate(zip(values.tolist(), failed.tolist(), strict=True))
        for value, bad in zip(of, bads, strict=True)
    ]
    pairs = tuple(zip(outcomes[::2], outcomes[1::2], strict=True))
    return contrasts._contrast(PLANNED, "throughput", KIND, pairs, Criterion(0.05, 0.02, True)).contrast.verdict


def shares(blocks: int, chances: tuple[float, float], spread: float, studies: int) -> dict[Verdict, float]:
    generator = np.random.default_rng([blocks, studies, round(1000 * sum(chances))])
    found = [
        conclude(
            np.exp(generator.normal(0, spread, (blocks, 2))), generator.random((blocks, 2)) < np.array(chances)[None, :]
        )
        for _ in range(studies)
    ]
    return {verdict: found.count(verdict) / studies for verdict in Verdict}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 studies each instead of 2,000")
    studies = 200 if parser.parse_args().quick else 2000
    kept = True
    print(f"A treatment that fails in a third of its boots, {studies:,} simulated studies each\n")
    print(
        f"{'blocks':>6}{'equivalent':>12}{'different':>12}{'undecided':>12}{'equivalent, repeated until both work':>40}"
    )
    for blocks in BLOCKS:
        one = shares(blocks, (1 / 3, 0.0), SPREAD, studies)
        until = shares(blocks, (0.0, 0.0), SPREAD, studies // 10)
        kept &= blocks < 10 or one[Verdict.EQUIVALENT] <= MOST_EQUIVALENT
        print(
            f"{blocks:>6}{one[Verdict.EQUIVALENT]:>12.2%}{one[Verdict.DIFFERENT]:>12.1%}"
            f"{one[Verdict.UNDECIDED]:>12.1%}{until[Verdict.EQUIVALENT]:>40.1%}"
        )
    print("\nTwo systems that fail in a tenth of their boots each, and vary by 5 %\n")
    print(f"{'blocks':>6}{'different':>12}{'equivalent':>12}")
    for blocks in BLOCKS:
        one = shares(blocks, (0.1, 0.1), 0.05, studies)
        kept &= one[Verdict.DIFFERENT] <= MOST_FALSE + 2 * (0.05 * 0.95 / studies) ** 0.5
        print(f"{blocks:>6}{one[Verdict.DIFFERENT]:>12.2%}{one[Verdict.EQUIVALENT]:>12.1%}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
