"""Looking while it runs: is a sequential design as right as it says, and how many blocks does it save?

    python validation/stopping.py [--quick] [--json]

Looks as a study of `blocks = { min = 8, max = 40 }` with one primary contrast has them, nearmetal's own code from block
differences to verdict. Verdicts on two systems that do not differ; what intervals cover where a study stops, for
effects that let it stop sooner and later, with the interval that knows of no looks beside it; and blocks until a true
difference of 3 % is found, against a fixed number of 40, by one comparison and by four. Then what it costs to stop at
what is clear, of which nothing is promised. How far estimates lie from the truth where a look found a difference: as
they are, as corrected for the looks, and as 40 blocks would have them. What becomes of a difference within the margin
with looks and without. Then what futile stops save, and the power that they cost. Then the boundaries alone, for levels
that are shared by several contrasts, and for noise that grows while a study runs, which the boundaries do not allow
for: no promise either. Last, noise of two modes in both systems, and noise that is not symmetric, of which nothing is
promised with looks. Exit status 1 when a promised bound is missed.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import simulated

from nearmetal.analysis.assumptions import find_lopsided_p
from nearmetal.analysis.contrasts import DECIDED, LOG_RESOLUTION, equivalence_of_ratios
from nearmetal.analysis.early_stopping import adjust_for_looks, is_futile
from nearmetal.analysis.results import Contrast, Verdict
from nearmetal.analysis.sequential import looks
from nearmetal.analysis.signed_rank import signed_rank
from nearmetal.analysis.verdict_rules import judge
from nearmetal.model import Look

LEVEL = 0.05
FIRST, LAST = 8, 40
MARGIN = 0.02
SPREAD = 0.02
"""Of a boot's value, relative: what a simulated unit is in the first two tables."""

MOST_FALSE = 0.055
LEAST_COVERAGE = 0.945
MOST_BLOCKS = 0.55
MOST_BLOCKS_OF_FAMILY = 0.6
MOST_POWER_LOST = 0.02
FIXED_POWER = 0.95
"""How often a fixed number of 40 has to find the difference for the two bounds above to be asked."""

EFFECTS = (0.0, 0.25, 0.5, 1.0, 1.5)
"""In spreads of a boot."""
TAILS = ("two modes", *simulated.GUARDED)
SPREADS = (0.01, 0.02, 0.03, 0.04)
DIFFERENCE = 0.03
TRUTH = math.log1p(DIFFERENCE)
COMPARISONS = (1, 4)
FUTILE = ((0.0, 0.02), (0.0, 0.04), (0.0, 0.08), (0.0, 0.16), (0.01, 0.08), (0.03, 0.04), (0.03, 0.08), (0.1, 0.16))
"""True differences and spreads of a boot for which it is simulated what futile stops save."""
WITHIN = (0.005, 0.01, 0.015)
"""Differences that are there, and within the margin."""
NEAR = (0.005, 0.01, 0.02)
"""Spreads of a boot with which these are looked for."""
FAMILIES = (1, 2, 4, 18)
GROWTHS = (0.5, 1.0, 2.0, 3.0, 10.0)
"""How many times wider the last block's noise is than the first's, growing evenly."""
SCHEDULES = ((8, 40), (8, 20), (6, 12), (8, 64))


@dataclass(frozen=True)
class Stop:
    """How one simulated study ended."""

    blocks: int
    verdict: Verdict
    estimate: float
    covered: bool
    naively: bool
    """Whether the interval of a fixed number of blocks would have covered the truth there."""
    plain: bool
    """Whether its difference would be found if differences were not symmetric."""
    told: Contrast
    """What a report needs to know of it to correct the estimate."""
    at_last: float
    """The estimate of all blocks."""


def study(differences: simulated.Floats, truth: float, planned: Sequence[Look], stops_if_futile: bool = False) -> Stop:
    """The first look that decides, or else the last one. Differences and truth are logarithms."""
    stop = None
    at_last = signed_rank(differences, LEVEL, LOG_RESOLUTION).estimate
    for number, look in enumerate(planned, 1):
        seen = differences[: look.blocks]
        found = signed_rank(seen, look.level, LOG_RESOLUTION)
        naive = signed_rank(seen, LEVEL, LOG_RESOLUTION).interval
        verdict = judged(found.interval)
        covered, naively = (one is not None and one[0] <= truth <= one[1] for one in (found.interval, naive))
        ends = None if found.interval is None else (math.exp(found.interval[0]), math.exp(found.interval[1]))
        told = _ANY.model_copy(update={"look": number, "ratio": math.exp(found.estimate), "interval": ends})
        stop = Stop(look.blocks, verdict, found.estimate, covered, naively, True, told, at_last)
        if verdict in DECIDED or (stops_if_futile and look is not planned[-1] and is_futile(told, planned)):
            break
    assert stop is not None
    if stop.verdict is Verdict.DIFFERENT:
        p = find_lopsided_p(differences[: stop.blocks], found.p, LOG_RESOLUTION)
        stop = replace(stop, plain=p is not None and p <= look.level)
    return stop


_ANY = Contrast(
    workload="",
    response="",
    unit="",
    scale="ratio",
    better="higher",
    primary=True,
    treatment={},
    reference={},
    blocks=LAST,
    level=LEVEL,
    equivalence=equivalence_of_ratios(MARGIN),
    verdict=Verdict.UNDECIDED,
)


def judged(interval: tuple[float, float] | None) -> Verdict:
    return judge(interval, (-math.log1p(MARGIN), math.log1p(MARGIN)), neutral=0.0)[0]


@cache
def simulate(noise: str, effect: float, runs: int) -> list[Stop]:
    generator = np.random.default_rng([runs, round(effect * 100), *noise.encode()])
    spread = SPREAD * (10 if noise in TAILS else 1)  # so that none is found within the margin
    differences = ({**simulated.OF_ONE_RUN, **simulated.GUARDED}[noise](runs, LAST, generator) + effect) * spread
    planned = looks(FIRST, LAST, LEVEL)
    return [study(run, effect * spread, planned) for run in differences]


@dataclass(frozen=True)
class AaRow:
    noise: str
    false_different: float
    equivalent: float
    blocks: float
    kept: bool


def aa(noise: str, runs: int) -> AaRow:
    stops = simulate(noise, 0.0, runs)
    false, equivalent = (
        sum(stop.verdict is verdict for stop in stops) / runs for verdict in (Verdict.DIFFERENT, Verdict.EQUIVALENT)
    )
    return AaRow(noise, false, equivalent, float(np.mean([stop.blocks for stop in stops])), false <= MOST_FALSE)


@dataclass(frozen=True)
class TailsRow:
    """Noise of two modes or long tails, without anything within the margin."""

    noise: str
    false_different: float
    plain: float
    """The same without the caveat that differences are symmetric."""


def tails(noise: str, runs: int) -> TailsRow:
    stops = [stop for stop in simulate(noise, 0.0, runs) if stop.verdict is Verdict.DIFFERENT]
    return TailsRow(noise, len(stops) / runs, sum(stop.plain for stop in stops) / runs)


@dataclass(frozen=True)
class CoverageRow:
    noise: str
    effect: float
    coverage: float
    naive: float
    stopped_early: float
    kept: bool


def coverage(noise: str, effect: float, runs: int) -> CoverageRow:
    stops = simulate(noise, effect, runs)
    covered, naive = (sum(getattr(stop, name) for stop in stops) / runs for name in ("covered", "naively"))
    early = sum(stop.blocks < LAST for stop in stops) / runs
    return CoverageRow(noise, effect, covered, naive, early, covered >= LEAST_COVERAGE)


@dataclass(frozen=True)
class SavingRow:
    spread: float
    power: float
    fixed_power: float
    blocks: float
    share: float
    kept: bool | None
    """None where 40 blocks are too few for such a spread anyway."""


def saving(spread: float, runs: int) -> SavingRow:
    truth = math.log1p(DIFFERENCE)
    generator = np.random.default_rng([runs, round(spread * 1000)])
    differences = simulated.normal(runs, LAST, generator) * spread + truth
    planned = looks(FIRST, LAST, LEVEL)
    stops = [study(run, truth, planned) for run in differences]
    fixed = [signed_rank(run, LEVEL, LOG_RESOLUTION).p for run in differences]
    power = sum(stop.verdict is Verdict.DIFFERENT for stop in stops) / runs
    fixed_power = sum(p is not None and p <= LEVEL for p in fixed) / runs
    blocks = float(np.mean([stop.blocks for stop in stops]))
    saves = blocks / LAST <= MOST_BLOCKS and fixed_power - power <= MOST_POWER_LOST
    kept = saves if fixed_power >= FIXED_POWER else None
    return SavingRow(spread, power, fixed_power, blocks, blocks / LAST, kept)


@dataclass(frozen=True)
class FamilyRow:
    """Comparisons with one reference, which the study goes on for until all are decided."""

    comparisons: int
    spread: float
    all_found: float
    blocks: float
    share: float
    kept: bool


def family(comparisons: int, spread: float, runs: int) -> FamilyRow:
    planned = looks(FIRST, LAST, LEVEL / comparisons)
    generator = np.random.default_rng([runs, comparisons, round(spread * 1000), 1])
    blocks, found = [], 0
    for _ in range(runs):
        boots = generator.normal(size=(LAST, comparisons + 1)) * spread
        stops = [study(boots[:, arm] - boots[:, 0] + TRUTH, TRUTH, planned, True) for arm in range(1, comparisons + 1)]
        blocks.append(max(stop.blocks for stop in stops))
        found += all(stop.verdict is Verdict.DIFFERENT for stop in stops)
    share = float(np.mean(blocks)) / LAST
    return FamilyRow(comparisons, spread, found / runs, share * LAST, share, share <= MOST_BLOCKS_OF_FAMILY)


@dataclass(frozen=True)
class EstimateRow:
    """Of the studies that a look, or any of them, found to be different; or of all studies."""

    effect: float
    which: str
    share: float
    """Of all studies."""
    estimate: float
    """Means, over what is true: as they are, as corrected for the looks, and of all blocks."""
    adjusted: float
    at_last: float
    coverage: float


def estimates(effect: float, runs: int) -> list[EstimateRow]:
    stops = simulate("normal", effect, runs)
    planned = looks(FIRST, LAST, LEVEL)
    adjusted = [math.log(adjust_for_looks(stop.told, planned) or math.nan) for stop in stops]
    found = [stop.verdict is Verdict.DIFFERENT for stop in stops]

    def row(which: str, chosen: Sequence[bool]) -> EstimateRow:
        picked = [index for index, is_chosen in enumerate(chosen) if is_chosen]

        def mean(values: Sequence[float]) -> float:
            return float(np.mean([values[index] for index in picked])) / (effect * SPREAD)

        seen, at_last = [stop.estimate for stop in stops], [stop.at_last for stop in stops]
        coverage = float(np.mean([stops[index].covered for index in picked]))
        return EstimateRow(effect, which, len(picked) / runs, mean(seen), mean(adjusted), mean(at_last), coverage)

    after = dict.fromkeys(sorted(stop.blocks for stop, is_found in zip(stops, found, strict=True) if is_found))
    rows = [
        row(str(blocks), [is_found and stop.blocks == blocks for stop, is_found in zip(stops, found, strict=True)])
        for blocks in after
    ]
    return [*rows, row("any", found), row("all studies", [True] * runs)]


@dataclass(frozen=True)
class FutilityRow:
    """One comparison, with stops that are futile or without them."""

    difference: float
    spread: float
    stops: bool
    different: float
    equivalent: float
    blocks: float
    kept: bool | None


def futility(difference: float, spread: float, runs: int) -> list[FutilityRow]:
    truth = math.log1p(difference)
    generator = np.random.default_rng([runs, round(difference * 1000), round(spread * 1000), 2])
    differences = simulated.normal(runs, LAST, generator) * spread + truth
    planned = looks(FIRST, LAST, LEVEL)
    rows = []
    for stops in (False, True):
        found = [study(run, truth, planned, stops) for run in differences]
        different, equivalent = (
            sum(stop.verdict is verdict for stop in found) / runs for verdict in (Verdict.DIFFERENT, Verdict.EQUIVALENT)
        )
        kept = None if difference else different <= MOST_FALSE
        blocks = float(np.mean([stop.blocks for stop in found]))
        rows.append(FutilityRow(difference, spread, stops, different, equivalent, blocks, kept))
    return rows


@dataclass(frozen=True)
class WithinRow:
    """Verdicts on a true difference within the margin, with looks or without."""

    difference: float
    spread: float
    how: str
    different: float
    equivalent: float
    blocks: float


def within(difference: float, spread: float, runs: int) -> list[WithinRow]:
    truth = math.log1p(difference)
    generator = np.random.default_rng([runs, round(difference * 1000), round(spread * 1000)])
    differences = simulated.normal(runs, LAST, generator) * spread + truth
    planned = looks(FIRST, LAST, LEVEL)
    stops = [study(run, truth, planned) for run in differences]
    fixed = [judged(signed_rank(run, LEVEL, LOG_RESOLUTION).interval) for run in differences]

    def row(how: str, verdicts: Sequence[Verdict], blocks: float) -> WithinRow:
        different, equivalent = (verdicts.count(one) / runs for one in (Verdict.DIFFERENT, Verdict.EQUIVALENT))
        return WithinRow(difference, spread, how, different, equivalent, blocks)

    mean = float(np.mean([stop.blocks for stop in stops]))
    return [
        row(f"{FIRST} to {LAST}", [stop.verdict for stop in stops], mean),
        row(f"fixed {LAST}", fixed, LAST),
    ]


@dataclass(frozen=True)
class BoundaryRow:
    first: int
    last: int
    family: int
    boundaries: dict[int, int | None]
    false: float
    level: float
    kept: bool


def boundaries(first: int, last: int, family: int, runs: int) -> BoundaryRow:
    """How often any look rejects, by ranks of random differences and nothing else."""
    planned = looks(first, last, LEVEL / family)
    generator = np.random.default_rng([runs, first, last, family])
    false, level = _any_look_rejects(planned, np.ones(last), generator, runs), LEVEL / family
    error = 2 * math.sqrt(level * (1 - level) / runs)
    known = {look.blocks: look.boundary for look in planned}
    return BoundaryRow(first, last, family, known, false, level, false <= level + error)


@dataclass(frozen=True)
class GrowthRow:
    grows: float
    false: float


def growth(grows: float, runs: int) -> GrowthRow:
    """The same, where the noise of later blocks is wider: looks then resemble each other less than was planned for."""
    generator = np.random.default_rng([runs, round(grows * 10)])
    spreads = np.linspace(1.0, grows, LAST)
    return GrowthRow(grows, _any_look_rejects(looks(FIRST, LAST, LEVEL), spreads, generator, runs))


def _any_look_rejects(
    planned: Iterable[Look], spreads: simulated.Floats, generator: np.random.Generator, runs: int
) -> float:
    rejected = 0
    for _ in range(0, runs, CHUNK):
        differences = generator.normal(size=(CHUNK, len(spreads))) * spreads
        any_look = np.zeros(CHUNK, dtype=bool)
        for look in planned:
            if look.boundary is not None:
                seen = differences[:, : look.blocks]
                ranks = np.argsort(np.argsort(np.abs(seen), axis=1), axis=1) + 1
                any_look |= np.abs((np.sign(seen) * ranks).sum(axis=1)) >= look.boundary
        rejected += int(any_look.sum())
    return rejected / runs


CHUNK = 20_000


@dataclass(frozen=True)
class Found:
    aa: list[AaRow]
    coverage: list[CoverageRow]
    saving: list[SavingRow]
    families: list[FamilyRow]
    estimates: list[EstimateRow]
    futility: list[FutilityRow]
    within: list[WithinRow]
    boundaries: list[BoundaryRow]
    growth: list[GrowthRow]
    tails: list[TailsRow]

    @property
    def _promised(self) -> Sequence[Sequence[Any]]:
        return self.aa, self.coverage, self.saving, self.families, self.futility, self.boundaries

    @property
    def kept(self) -> bool:
        kept = [[row.kept for row in rows] for rows in self._promised]
        return all(one is not False for rows in kept for one in rows)


def show(found: Found, runs: int) -> None:
    print(f"Looks of {FIRST} to {LAST} blocks at level {LEVEL}, margin {MARGIN:.0%}, {runs} simulated studies each\n")
    print(f"{'two systems that do not differ':<32}{'false different':>16}{'equivalent':>12}{'blocks':>8}  kept")
    for aa_row in found.aa:
        print(
            f"{aa_row.noise:<32}{aa_row.false_different:>16.2%}{aa_row.equivalent:>12.1%}{aa_row.blocks:>8.1f}  "
            + _yes(aa_row.kept)
        )
    print(f"\n{'intervals where it stops':<26}{'effect':>7}{'coverage':>10}{'naive':>8}{'stopped early':>15}  kept")
    for row in found.coverage:
        print(
            f"{row.noise:<26}{row.effect:>7.2f}{row.coverage:>10.1%}{row.naive:>8.1%}{row.stopped_early:>15.1%}  "
            + _yes(row.kept)
        )
    print(f"\n{'a true 3 %: spread of boots':<28}{'power':>7}{'fixed 40':>10}{'blocks':>8}{'of 40':>7}  kept")
    for one in found.saving:
        print(
            f"{one.spread:<28.0%}{one.power:>7.1%}{one.fixed_power:>10.1%}{one.blocks:>8.1f}{one.share:>7.0%}  "
            + _yes(one.kept)
        )
    print(f"\n{'comparisons, a true 3 %':<28}{'spread':>7}{'all found':>11}{'blocks':>8}{'of 40':>7}  kept")
    for several in found.families:
        print(
            f"{several.comparisons:<28}{several.spread:>7.0%}{several.all_found:>11.1%}{several.blocks:>8.1f}"
            f"{several.share:>7.0%}  " + _yes(several.kept)
        )
    print(
        f"\n{'found different: effect':<24}{'after':>12}{'of studies':>12}{'estimate/truth':>16}{'corrected':>11}"
        f"{'40 blocks':>11}{'coverage':>10}"
    )
    for told in found.estimates:
        print(
            f"{told.effect:<24.2f}{told.which:>12}{told.share:>12.1%}{told.estimate:>16.2f}{told.adjusted:>11.2f}"
            f"{told.at_last:>11.2f}{told.coverage:>10.1%}"
        )
    print(f"\n{'futile stops: true':<24}{'spread':>7}{'stops':>7}{'different':>11}{'equivalent':>12}{'mean':>7}  kept")
    for futile in found.futility:
        print(
            f"{futile.difference:<24.1%}{futile.spread:>7.1%}{'yes' if futile.stops else 'no':>7}"
            f"{futile.different:>11.1%}{futile.equivalent:>12.1%}{futile.blocks:>7.1f}  " + _yes(futile.kept)
        )
    print(f"\n{'within the margin: true':<24}{'spread':>7}{'blocks':>10}{'different':>11}{'equivalent':>12}{'mean':>7}")
    for small in found.within:
        print(
            f"{small.difference:<24.1%}{small.spread:>7.1%}{small.how:>10}{small.different:>11.1%}"
            f"{small.equivalent:>12.1%}{small.blocks:>7.1f}"
        )
    print(f"\n{'blocks':<9}{'contrasts':>10}{'level':>9}{'any look rejects':>18}  kept  |W+ - W-| at each look")
    for bound in found.boundaries:
        at = ", ".join(f"{blocks}: {boundary}" for blocks, boundary in bound.boundaries.items())
        print(
            f"{f'{bound.first}-{bound.last}':<9}{bound.family:>10}{bound.level:>9.5f}{bound.false:>18.5f}  "
            f"{_yes(bound.kept):<6}{at}"
        )
    print(f"\n{'noise grows':<12}{'any look rejects':>18}")
    for grown in found.growth:
        print(f"{f'{grown.grows:g} times':<12}{grown.false:>18.5f}")
    show_tails(found.tails)


def show_tails(rows: Iterable[TailsRow]) -> None:
    print(f"\n{'two modes, and tails':<32}{'false different':>16}{'no caveat':>11}")
    for row in rows:
        print(f"{row.noise:<32}{row.false_different:>16.2%}{row.plain:>11.2%}")


def _yes(kept: bool | None) -> str:
    return "" if kept is None else "yes" if kept else "NO"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1,000 studies each instead of 10,000: a glance, no proof")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    arguments = parser.parse_args()
    runs = 1_000 if arguments.quick else 10_000
    found = Found(
        [aa(noise, runs) for noise in simulated.MODELS],
        [coverage(noise, effect, runs) for noise in simulated.MODELS for effect in EFFECTS],
        [saving(spread, runs) for spread in SPREADS],
        [family(comparisons, 0.02, runs // 4) for comparisons in COMPARISONS],
        [row for effect in EFFECTS if effect for row in estimates(effect, runs)],
        [row for case in FUTILE for row in futility(*case, runs)],
        [row for difference in WITHIN for spread in NEAR for row in within(difference, spread, runs)],
        [boundaries(*schedule, family, runs * 40) for schedule in SCHEDULES for family in FAMILIES],
        [growth(grows, runs * 40) for grows in GROWTHS],
        [tails(noise, runs) for noise in TAILS],
    )
    if arguments.json:
        print(json.dumps({"schema": "validation.v1", "runs": runs, **asdict(found)}))
    else:
        show(found, runs)
    return 0 if arguments.quick or found.kept else 1


if __name__ == "__main__":
    sys.exit(main())
