"""What `nearmetal calibrate` says of the differences that can be seen: do studies find them as often as it says?

    python validation/calibrating.py [--quick] [--json]

Simulated machines with the noises of the other validations. Each is calibrated with 16 blocks, in which two or three
boots were alike, and says by nearmetal's own code how small a difference N blocks find in 80 % of studies, and in what
range that lies. Then the same machine's studies are simulated: how often they do find a difference of that size, and
whether the one that they find in exactly 80 % lies in the range. Goals: of all calibrations' figures taken together 70
to 85 % of studies find it, and the range holds the true one in at least 80 % of calibrations (with normal noise 90 %).
Exit status 1 when a row misses them.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import simulated

from nearmetal.analysis import power
from nearmetal.analysis.contrasts import LOG_RESOLUTION
from nearmetal.analysis.signed_rank import signed_rank

LEVEL = 0.05
CALIBRATED = 16
BLOCKS = (8, 12, 40)
ARMS = (2, 3)
STUDIES = 2_000
"""Simulated of each noise, to learn how often a difference is found."""
FOUND = (0.7, 0.85)
HELD = {"normal": 0.9, "skewed": 0.8, "stalling": 0.8}


def boots(noise: str, runs: int, arms: int, generator: np.random.Generator) -> simulated.Floats:
    """Values of alike boots: runs x blocks x arms."""
    shape = (runs, CALIBRATED, arms)
    drawn: Mapping[str, simulated.Floats] = {
        "normal": generator.normal(size=shape),
        "skewed": generator.lognormal(0, 1, size=shape),
        "stalling": generator.normal(size=shape) - 8.0 * (generator.random(shape) < 0.1),
    }
    return drawn[noise]


@dataclass(frozen=True)
class Row:
    noise: str
    arms: int
    blocks: int
    true: float
    """What is found in 80 % of studies, in spreads of a boot."""
    median: float
    """Of what calibrations say."""
    found: float
    """Share of studies that find what a calibration says, over all calibrations."""
    held: float
    """Share of calibrations whose range holds the true one."""
    kept: bool


def needed(noise: str, blocks: int, generator: np.random.Generator) -> simulated.Floats:
    """How large a difference each of many studies needs to find it: ascending."""
    values = np.concatenate([boots(noise, STUDIES, 2, generator) for _ in range(-(-blocks // CALIBRATED))], axis=1)
    differences = (values[:, :, 0] - values[:, :, 1])[:, :blocks]
    found = [signed_rank(one, LEVEL, LOG_RESOLUTION).interval for one in differences]
    return np.sort([-one[0] for one in found if one is not None])


def measure(noise: str, arms: int, blocks: int, runs: int) -> Row:
    generator = np.random.default_rng([runs, arms, blocks, *noise.encode()])
    need = needed(noise, blocks, generator)
    true = float(np.quantile(need, power.POWER))
    said, found, held = [], [], 0
    for values in boots(noise, runs, arms, generator):
        one = power.BootNoise.of(values)
        smallest = power.smallest([one], blocks, LEVEL)
        assert smallest is not None
        said.append(smallest)
        found.append(np.searchsorted(need, smallest, side="right") / len(need))
        held += smallest / one.doubt <= true <= smallest * one.doubt
    share, mean = held / runs, float(np.mean(found))
    kept = FOUND[0] <= mean <= FOUND[1] and share >= HELD[noise]
    return Row(noise, arms, blocks, true, float(np.median(said)), mean, share, kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 calibrations each instead of 1,000")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    arguments = parser.parse_args()
    runs = 100 if arguments.quick else 1_000
    rows = [measure(noise, arms, blocks, runs) for noise in HELD for arms in ARMS for blocks in BLOCKS]
    if arguments.json:
        print(json.dumps({"schema": "validation.v1", "runs": runs, "rows": [asdict(row) for row in rows]}))
    else:
        print(
            f"{runs} simulated machines each, calibrated with {CALIBRATED} blocks; differences in spreads of a boot\n"
        )
        print(
            f"{'noise':<10}{'alike boots':>12}{'blocks':>8}{'true':>8}{'said':>8}{'found':>8}{'range holds':>13}  kept"
        )
        for row in rows:
            print(
                f"{row.noise:<10}{row.arms:>12}{row.blocks:>8}{row.true:>8.2f}{row.median:>8.2f}{row.found:>8.1%}"
                f"{row.held:>13.1%}  {'yes' if row.kept else 'NO'}"
            )
    return 0 if arguments.quick or all(row.kept for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
