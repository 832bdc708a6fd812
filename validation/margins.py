"""Margins on the difference scale, which come of what was measured: how often is too much called equivalent?

    python validation/margins.py [--quick] [--json]

The true difference lies exactly at the margin, 5 % of the reference. A margin that was known would let at most 2.5 % of
studies call it equivalent; the share of a measured median has noise of its own, by how much the reference varies from
block to block. nearmetal's own test at level 0.05, and its own margin. Nothing is promised here.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from nearmetal.analysis.contrasts import LOG_RESOLUTION, equivalence_of_differences, judge
from nearmetal.analysis.results import Verdict
from nearmetal.analysis.signed_rank import signed_rank

LEVEL = 0.05
MARGIN = 0.05
TYPICAL = 10.0
NOISE = 0.005 * TYPICAL
"""Of the differences of blocks: small beside the margin, which is where it deceives most."""
BLOCKS = (6, 8, 12, 40)

Reference = Callable[[np.random.Generator, int], np.ndarray]

REFERENCES: dict[str, Reference] = {
    "varies by 5 %": lambda generator, blocks: TYPICAL * (1 + generator.normal(0, 0.05, blocks)),
    "varies by 30 %": lambda generator, blocks: TYPICAL * (1 + generator.normal(0, 0.3, blocks)),
    "log-normal, sigma 0.8": lambda generator, blocks: TYPICAL * np.exp(generator.normal(0, 0.8, blocks)),
}


@dataclass(frozen=True)
class Row:
    reference: str
    blocks: int
    false_equivalent: float


def row(name: str, blocks: int, studies: int) -> Row:
    generator = np.random.default_rng([studies, blocks, *name.encode()])
    found = 0
    for _ in range(studies):
        base = float(np.median(REFERENCES[name](generator, blocks)))
        differences = MARGIN * TYPICAL + generator.normal(0, NOISE, blocks)
        interval = signed_rank(differences, LEVEL, TYPICAL * LOG_RESOLUTION).interval
        found += judge(interval, equivalence_of_differences(MARGIN, base), 0.0)[0] is Verdict.EQUIVALENT
    return Row(name, blocks, found / studies)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1,000 studies each instead of 10,000")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    arguments = parser.parse_args()
    studies = 1_000 if arguments.quick else 10_000
    rows = [row(name, blocks, studies) for name in REFERENCES for blocks in BLOCKS]
    if arguments.json:
        print(json.dumps({"schema": "validation.v1", "studies": studies, "rows": [asdict(one) for one in rows]}))
        return 0
    print(f"True differences at the margin of {MARGIN:.0%}, {studies:,} simulated studies each, level {LEVEL}\n")
    print(f"{'the reference':<24}{'blocks':>8}{'called equivalent':>20}")
    for one in rows:
        print(f"{one.reference:<24}{one.blocks:>8}{one.false_equivalent:>20.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
