"""A/A by simulation: how often are two systems that do not differ called different, and does the interval hold them?

    python validation/aa_simulation.py [--quick] [--json]

Fixed blocks, level 0.05, nearmetal's own code from block differences to p and interval. Each row is held against the
same bounds: at most 5.5 % of false verdicts, and coverage of 94 to 97 %, give or take the simulation's own error. Of
noise that is not symmetric the first is asked of verdicts without a caveat, and coverage is not promised. Then
how often the warnings of drift, autocorrelation and position come where there is nothing to be warned of, of which
nothing is promised. Exit status 1 when a row misses the bounds for which they are promised.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np
import simulated

from nearmetal.analysis.assumptions import find_dependent_p, find_lopsided_p
from nearmetal.analysis.contrasts import LOG_RESOLUTION
from nearmetal.analysis.diagnostics import (
    ALARM_EXPLORATORY,
    ALARM_PRIMARY,
    about_series,
    autocorrelation,
    position_p,
    trend_p,
)
from nearmetal.analysis.differences import Differences
from nearmetal.analysis.signed_rank import enough, signed_rank

LEVEL = 0.05
BLOCKS = (6, 8, 10, 12, 20, 40)
TRUTH = 0.3
"""The effect in the runs that measure coverage."""

MOST_FALSE = 0.055
COVERAGE = (0.94, 0.97)

FAMILY = 4
"""Treatments that share one reference; a run is false when any of them is called different."""


TREATMENTS = (2, 3, 6)
"""Of a workload, whose places within a block are looked at together."""


@dataclass(frozen=True)
class Row:
    noise: str
    blocks: int
    false_different: float
    plain: float
    """The same without a caveat: if blocks are independent, if they are symmetric."""
    coverage: float | None
    warned: float
    """Share of the false verdicts that carry a warning of drift or autocorrelation."""
    promised: bool
    kept: bool
    """Whether the bounds hold, promised or not."""


def measure(noise: str, model: simulated.Model, blocks: int, runs: int, promised: bool) -> Row:
    generator = np.random.default_rng([runs, blocks, *noise.encode()])
    false = plain = covered = warned = 0
    for differences in model(runs, blocks, generator):
        result = signed_rank(differences, LEVEL, LOG_RESOLUTION)
        if result.p is not None and result.p <= LEVEL:
            false += 1
            dependent = find_dependent_p(Differences(*[differences] * 3), result, LEVEL, LOG_RESOLUTION) or 0.0
            lopsided = find_lopsided_p(differences, result.p, LOG_RESOLUTION) or 0.0
            plain += max(dependent, lopsided) <= LEVEL
            warned += bool(about_series(differences, primary=True))
        shifted = signed_rank(differences + TRUTH, LEVEL, LOG_RESOLUTION).interval
        covered += shifted is not None and shifted[0] <= TRUTH <= shifted[1]
    share, coverage = false / runs, covered / runs
    error = 2 * math.sqrt(coverage * (1 - coverage) / runs)
    kept = share <= MOST_FALSE and COVERAGE[0] - error <= coverage <= COVERAGE[1] + error
    if noise in simulated.GUARDED:
        kept = plain / runs <= MOST_FALSE
    return Row(noise, blocks, share, plain / runs, coverage, warned / max(false, 1), promised, kept)


def measure_family(blocks: int, runs: int) -> Row:
    """False verdicts of a whole study: m contrasts at alpha / m."""
    arms = np.random.default_rng([runs, blocks]).normal(size=(runs, blocks, FAMILY + 1))
    false = 0
    for run in arms:
        found = [signed_rank(run[:, arm] - run[:, 0], LEVEL / FAMILY, LOG_RESOLUTION).p for arm in range(1, FAMILY + 1)]
        false += any(p is not None and p <= LEVEL / FAMILY for p in found)
    share = false / runs
    return Row(f"normal, any of {FAMILY} contrasts", blocks, share, share, None, 0.0, True, share <= MOST_FALSE)


@dataclass(frozen=True)
class Alarm:
    """How often a warning comes where there is nothing to be warned of."""

    warning: str
    noise: str
    blocks: int
    primary: float
    exploratory: float

    @classmethod
    def of(cls, warning: str, noise: str, blocks: int, found: Iterable[float]) -> "Alarm":
        """`found`: a p for each run."""
        p = np.fromiter(found, float)
        primary, exploratory = (float((p <= alarm).mean()) for alarm in (ALARM_PRIMARY, ALARM_EXPLORATORY))
        return cls(warning, noise, blocks, primary, exploratory)


def alarms(runs: int) -> list[Alarm]:
    found = []
    for noise, model in simulated.MODELS.items():
        for blocks in BLOCKS:
            series = model(runs, blocks, np.random.default_rng([runs, blocks, *noise.encode(), 1]))
            found.append(Alarm.of("drift", noise, blocks, map(trend_p, series)))
            found.append(Alarm.of("autocorrelation", noise, blocks, (autocorrelation(one)[1] for one in series)))
    for treatments in TREATMENTS:
        for blocks in BLOCKS:
            generator = np.random.default_rng([runs, blocks, treatments])
            shape = (runs, treatments, blocks)
            values, places = generator.normal(size=shape), generator.random(shape).argsort(axis=1).astype(float)
            noise = f"normal, {treatments} treatments"
            found.append(Alarm.of("position", noise, blocks, map(position_p, values, places)))
    return found


def table(runs: int) -> list[Row]:
    rows = [measure(*model, blocks, runs, True) for model in simulated.OF_ONE_RUN.items() for blocks in BLOCKS]
    rows += [measure_family(blocks, runs) for blocks in BLOCKS if enough(blocks, LEVEL / FAMILY)]
    rows += [
        measure(*model, blocks, runs, blocks >= simulated.GUARDED_FROM)
        for model in simulated.GUARDED.items()
        for blocks in BLOCKS
    ]
    return rows + [
        measure(*model, blocks, runs, False) for model in simulated.NOT_PROMISED.items() for blocks in BLOCKS
    ]


def show(rows: list[Row], runs: int) -> None:
    print(f"Two systems that do not differ, {runs} simulated runs each, level {LEVEL}\n")
    print(
        f"{'noise':<30}{'blocks':>7}{'false different':>17}{'no caveat':>11}{'coverage':>10}"
        f"{'warned of false':>17}  kept"
    )
    for row in rows:
        kept = ("yes" if row.kept else "NO") + ("" if row.promised else ", and not promised")
        coverage = "" if row.coverage is None else f"{row.coverage:.1%}"
        warned = "" if row.coverage is None else f"{row.warned:.0%}"
        print(
            f"{row.noise:<30}{row.blocks:>7}{row.false_different:>17.2%}{row.plain:>11.2%}{coverage:>10}"
            f"{warned:>17}  {kept}"
        )


def show_alarms(found: list[Alarm]) -> None:
    print(f"\n{'warned of':<17}{'noise':<26}{'blocks':>7}{'primary':>10}{'exploratory':>13}")
    for alarm in found:
        shares = f"{alarm.primary:>10.2%}{alarm.exploratory:>13.2%}"
        print(f"{alarm.warning:<17}{alarm.noise:<26}{alarm.blocks:>7}{shares}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1,000 runs each instead of 10,000: a glance, not a proof")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    arguments = parser.parse_args()
    runs = 1_000 if arguments.quick else 10_000
    rows, warned = table(runs), alarms(runs)
    if arguments.json:
        lists = {"rows": [asdict(row) for row in rows], "alarms": [asdict(alarm) for alarm in warned]}
        print(json.dumps({"schema": "validation.v1", "runs": runs, **lists}))
    else:
        show(rows, runs)
        show_alarms(warned)
    # A thousand runs cannot tell 5.5 % from 6.5 %.
    return 0 if arguments.quick or all(row.kept or not row.promised for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
