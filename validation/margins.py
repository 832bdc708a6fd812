"""Margins on the difference scale, which come of what was measured: how often is too much called equivalent?

    python validation/margins.py [--quick] [--json]

The true difference lies exactly at the margin, 5 % of the reference. A margin that was known would let at most 2.5 % of
studies call it equivalent; the share of a measured median has noise of its own, by how much the reference varies from
block to block. nearmetal's own verdict at level 0.05, and beside it what the interval alone would say, held against
that share. Exit status 1 if the verdict is wrong in more than 5 %. Nothing is promised of a skewed reference: what is
true here is a share of its median; signed ranks go by its pseudomedian, larger by a ratio that is measured itself.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from simulated import ON_ONE_SITE

from nearmetal.analysis import contrasts
from nearmetal.analysis.contrasts import Criterion
from nearmetal.analysis.responses import Replicate, Value, kind_of
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.analysis.verdict_rules import judge
from nearmetal.model import ContrastPlan

LEVEL = 0.05
MARGIN = 0.05
TYPICAL = 10.0
NOISE = 0.005 * TYPICAL
"""Of the differences of blocks: small beside the margin, which is where it deceives most."""
BLOCKS = (6, 8, 12, 40)
MOST_FALSE = 0.05
KIND = kind_of("B", "lower", "difference")
PLANNED = ContrastPlan(workload="web", treatment={"environment": "docker"}, reference={"environment": "host"})

Reference = Callable[[np.random.Generator, int], np.ndarray]

SKEWED = "log-normal, sigma 0.8"
REFERENCES: dict[str, Reference] = {
    "varies by 5 %": lambda generator, blocks: TYPICAL * (1 + generator.normal(0, 0.05, blocks)),
    "varies by 30 %": lambda generator, blocks: TYPICAL * (1 + generator.normal(0, 0.3, blocks)),
    SKEWED: lambda generator, blocks: TYPICAL * np.exp(generator.normal(0, 0.8, blocks)),
}


@dataclass(frozen=True)
class Row:
    reference: str
    blocks: int
    false_equivalent: float
    by_interval: float
    """By the interval of the differences and the share of the measured median alone."""


def row(name: str, blocks: int, studies: int) -> Row:
    generator = np.random.default_rng([studies, blocks, *name.encode()])
    found = by_interval = 0
    for _ in range(studies):
        reference = REFERENCES[name](generator, blocks)
        treatment = reference + MARGIN * TYPICAL + generator.normal(0, NOISE, blocks)
        contrast = conclude(treatment, reference)
        found += contrast.verdict is Verdict.EQUIVALENT
        by_interval += judge(contrast.interval, contrast.equivalence, 0.0)[0] is Verdict.EQUIVALENT
    return Row(name, blocks, found / studies, by_interval / studies)


def conclude(treatment: np.ndarray, reference: np.ndarray) -> Contrast:
    pairs = tuple(
        (_replicate(block, one), _replicate(block, other))
        for block, (one, other) in enumerate(zip(treatment.tolist(), reference.tolist(), strict=True))
    )
    return contrasts._contrast(PLANNED, "memory", KIND, pairs, Criterion(LEVEL, MARGIN, True)).contrast


def _replicate(block: int, value: float) -> Replicate:
    return Replicate(block, 0, 0.0, (ON_ONE_SITE,), {"memory": Value(value, KIND)})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 studies each instead of 2,000")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    arguments = parser.parse_args()
    studies = 200 if arguments.quick else 2_000
    rows = [row(name, blocks, studies) for name in REFERENCES for blocks in BLOCKS]
    if arguments.json:
        print(json.dumps({"schema": "validation.v1", "studies": studies, "rows": [asdict(one) for one in rows]}))
        return _status(rows)
    print(f"True differences at the margin of {MARGIN:.0%}, {studies:,} simulated studies each, level {LEVEL}\n")
    print(f"{'the reference':<24}{'blocks':>8}{'called equivalent':>20}{'by the interval alone':>24}")
    for one in rows:
        print(f"{one.reference:<24}{one.blocks:>8}{one.false_equivalent:>20.2%}{one.by_interval:>24.2%}")
    return _status(rows)


def _status(rows: list[Row]) -> int:
    return 1 if any(one.false_equivalent > MOST_FALSE and one.reference != SKEWED for one in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
