"""Two runs in which nothing changed: how often does `nearmetal compare` call something different?

    python validation/two_runs.py [--quick] [--json]

nearmetal's own rank-sum test at level 0.05. How a treatment stands to its reference, of runs with as many blocks and
with unlike numbers, under the noises of the other validations, and where one of the runs scatters more; and what a
treatment gives by itself, when the host is alike in both runs, when it wanders while each is made, and when it was
slower by one spread of a boot at one of them.
Exit status 1 when a promised row lies above 5.5 %.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass

import numpy as np
import simulated

from nearmetal.analysis.contrasts import LOG_RESOLUTION
from nearmetal.analysis.rank_sum import rank_sum

LEVEL = 0.05
MOST_FALSE = 0.055
BLOCKS = ((8, 8), (8, 20), (20, 20))
UNLIKE = ((8, 8), (20, 8), (40, 8))
SCATTER = ((1.0, 2.0), (1.0, 3.0), (3.0, 1.0))


@dataclass(frozen=True)
class Row:
    what: str
    noise: str
    blocks: tuple[int, int]
    false_different: float
    kept: bool | None
    """None where nothing is promised."""


def share(before: simulated.Floats, after: simulated.Floats) -> float:
    found = [rank_sum(one, other, LEVEL, LOG_RESOLUTION).p for one, other in zip(before, after, strict=True)]
    return float(np.mean([p is not None and p <= LEVEL for p in found]))


def against_reference(noise: str, blocks: tuple[int, int], runs: int) -> Row:
    generator = np.random.default_rng([runs, *blocks, *noise.encode()])
    model = simulated.MODELS[noise]
    found = share(*(model(runs, number, generator) for number in blocks))
    return Row("against its reference", noise, blocks, found, found <= MOST_FALSE)


def unlike(blocks: tuple[int, int], scatter: tuple[float, float], runs: int) -> Row:
    """One of the runs scatters more: its host was busier, or what was changed made it noisier."""
    generator = np.random.default_rng([runs, *blocks, *map(int, scatter), 2])
    sides = (generator.normal(0, of, size=(runs, number)) for of, number in zip(scatter, blocks, strict=True))
    found = share(*sides)
    return Row("against its reference", f"scatters {scatter[0]:g} and {scatter[1]:g}", blocks, found, None)


def by_itself(noise: str, blocks: tuple[int, int], runs: int) -> Row:
    generator = np.random.default_rng([runs, *blocks, *noise.encode(), 1])
    before, after = (_host(noise, runs, number, generator) for number in blocks)
    if noise == "one spread slower":
        after = after - 1.0
    found = share(before, after)
    return Row("by itself", noise, blocks, found, found <= MOST_FALSE if noise == "host alike" else None)


def _host(noise: str, runs: int, blocks: int, generator: np.random.Generator) -> simulated.Floats:
    values = generator.normal(size=(runs, blocks))
    if noise == "host wanders":
        values = values + generator.normal(0, 0.5, size=(runs, blocks)).cumsum(axis=1)
    return np.asarray(values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1,000 pairs of runs each instead of 10,000")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    arguments = parser.parse_args()
    runs = 1_000 if arguments.quick else 10_000
    rows = [against_reference(noise, blocks, runs) for noise in simulated.MODELS for blocks in BLOCKS]
    rows += [unlike(blocks, scatter, runs) for blocks in UNLIKE for scatter in SCATTER]
    for noise in ("host alike", "host wanders", "one spread slower"):
        rows += [by_itself(noise, blocks, runs) for blocks in BLOCKS]
    if arguments.json:
        print(json.dumps({"schema": "validation.v1", "runs": runs, "rows": [asdict(row) for row in rows]}))
    else:
        print(f"Two runs in which the treatment is the same, {runs} simulated pairs each, level {LEVEL}\n")
        print(f"{'a treatment':<24}{'noise':<26}{'blocks':>10}{'false different':>17}  kept")
        for row in rows:
            kept = "not promised" if row.kept is None else "yes" if row.kept else "NO"
            numbers = f"{row.blocks[0]} and {row.blocks[1]}"
            print(f"{row.what:<24}{row.noise:<26}{numbers:>10}{row.false_different:>17.2%}  {kept}")
    return 0 if arguments.quick or all(row.kept is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
