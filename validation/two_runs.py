"""Runs before and after between which nothing changed: how often does `nearmetal compare` call something different?

    python validation/two_runs.py [--quick] [--json]

nearmetal's own tests at level 0.05. With one run a side, blocks by the rank sum: how a treatment stands to its
reference, of runs with as many blocks and with unlike numbers, under the noises of the other validations; if one of the
runs scatters more, up to a hundred times as much; of runs that stopped at a look, as those of `validation/stopping.py`
do (a quarter of the cases); and if each run has a shift of its own. Beside runs that scatter unlike stands what the
exact rank sum alone would find, and how often both find a true shift of three standard errors of the difference of
their means (a quarter of the cases). With several runs a side, runs by Student's t: the same shifts, of half a boot's
spread and of two. And what a treatment gives by itself, when the host is alike in both runs, when it wanders, and when
it was slower in one; and how often the interval of a treatment by itself misses what it gives at first. Beside it
stands how many of the false verdicts are warned of (`stopped-at-a-look`); `one-run-a-side`, which all with one run
have, is left out.
Exit status 1 when a promised row lies above 5.5 %, or 6 % where runs have shifts of their own.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

import numpy as np
import simulated
import stopping

from nearmetal.analysis.contrasts import LOG_RESOLUTION
from nearmetal.analysis.rank_sum import BoundedValues, find_exact_ps, rank_sum
from nearmetal.analysis.sequential import looks
from nearmetal.analysis.several_runs import compare_runs
from nearmetal.analysis.signed_rank import signed_rank

AGAINST = "against its reference"
LEVEL = 0.05
MOST_FALSE = 0.055
MOST_FALSE_OF_RUNS = 0.06
BLOCKS = ((8, 8), (8, 20), (20, 20))
UNLIKE = ((8, 8), (12, 8), (20, 8), (40, 8), (12, 12), (20, 12), (40, 12), (20, 20))
SCATTER = ((1.0, 1.0), (1.0, 2.0), (1.0, 3.0), (3.0, 1.0), (1.0, 100.0), (100.0, 1.0))
ENOUGH = 12
"""Blocks of both runs from which on the level is promised, however unlike they scatter."""
SHIFTED = 3.0
"""Standard errors of the difference of two means by which runs are shifted, to see how often that is found."""
SIDES = ((2, 2), (3, 3), (2, 4), (5, 5))
"""Runs before and after."""
SHIFTS = (0.5, 2.0)
"""How much runs vary by something of their own, in spreads of a boot."""
EFFECTS = (0.0, 0.5, 1.0, 2.0)
"""By how much the treatment differs from its reference, in both runs, in spreads of a boot: it may make them stop."""
FIXED = 20
"""Blocks of a run that one which stopped at a look is held against."""


@dataclass(frozen=True)
class Found:
    different: bool
    warned: bool


@dataclass(frozen=True)
class Row:
    what: str
    noise: str
    blocks: str
    false_different: float
    warned: float | None
    """Of the false verdicts; None where there are none."""
    kept: bool | None
    """None where nothing is promised."""
    exact: float | None = None
    """What the exact test alone would call different."""
    power: tuple[float, float] | None = None
    """How often a true shift is found, by both tests and by the exact one alone."""


def found(before: simulated.Floats, after: simulated.Floats, early: bool = False) -> Found:
    """What is said of two runs, of which one stopped at a look before its last, or neither."""
    p = rank_sum(before, after, LEVEL, LOG_RESOLUTION).p
    return Found(p is not None and p <= LEVEL, early)


def row(what: str, noise: str, blocks: str, pairs: Iterable[Found], promised: bool, most: float = MOST_FALSE) -> Row:
    known = list(pairs)
    false = [one.warned for one in known if one.different]
    share = len(false) / len(known)
    warned = sum(false) / len(false) if false else None
    return Row(what, noise, blocks, share, warned, share <= most if promised else None)


def against_reference(noise: str, blocks: tuple[int, int], runs: int) -> Row:
    generator = np.random.default_rng([runs, *blocks, *noise.encode()])
    model = simulated.MODELS[noise]
    before, after = (model(runs, number, generator) for number in blocks)
    return row(AGAINST, noise, numbers(blocks), map(found, before, after), promised=True)


def scattered(blocks: tuple[int, int], scatter: tuple[float, float], runs: int) -> Row:
    """One of the runs scatters more: its host was busier, or what was changed made it noisier."""
    generator = np.random.default_rng([runs, *blocks, *map(int, scatter), 2])
    before, after = (generator.normal(0, of, size=(runs, number)) for of, number in zip(scatter, blocks, strict=True))
    noise = f"scatters {scatter[0]:g} and {scatter[1]:g}"
    of_none = row(AGAINST, noise, numbers(blocks), map(found, before, after), promised=min(blocks) >= ENOUGH)
    shift = SHIFTED * math.hypot(*(of / math.sqrt(number) for of, number in zip(scatter, blocks, strict=True)))
    some = list(zip(before[: runs // 4], after[: runs // 4] + shift, strict=True))
    power = sum(found(*pair).different for pair in some), sum(_find_exact_p(*pair) <= LEVEL for pair in some)
    exact = sum(_find_exact_p(*pair) <= LEVEL for pair in zip(before, after, strict=True)) / runs
    return replace(of_none, exact=exact, power=(power[0] / len(some), power[1] / len(some)))


def _find_exact_p(before: simulated.Floats, after: simulated.Floats) -> float:
    """Of the rank sum if both scatter alike, without ties."""
    above = int((after[None, :] > before[:, None]).sum())
    return float(find_exact_ps(*sorted((len(before), len(after))))[min(above, before.size * after.size - above)])


def stopped(noise: str, effect: float, runs: int) -> tuple[Row, Row]:
    """Runs that went on until they had seen enough, against each other, and against one whose blocks were fixed."""
    generator = np.random.default_rng([runs, round(effect * 100), *noise.encode(), 3])
    planned = looks(stopping.FIRST, stopping.LAST, LEVEL)
    truth = effect * stopping.SPREAD
    before, after = (
        simulated.MODELS[noise](runs, stopping.LAST, generator) * stopping.SPREAD + truth for _ in range(2)
    )
    first, second = (
        [values[: stopping.study(values, truth, planned).blocks] for values in side] for side in (before, after)
    )
    both = [
        found(one, other, min(len(one), len(other)) < stopping.LAST) for one, other in zip(first, second, strict=True)
    ]
    one = [found(fixed, run, len(run) < stopping.LAST) for fixed, run in zip(before[:, :FIXED], second, strict=True)]
    where = f"{noise}, {effect:g} apart"
    upto = f"{stopping.FIRST} to {stopping.LAST}"
    return (
        row("runs that stopped", where, upto, both, promised=False),
        row("one that stopped", where, f"{FIXED}, {upto}", one, promised=False),
    )


def by_itself(noise: str, blocks: tuple[int, int], runs: int) -> Row:
    generator = np.random.default_rng([runs, *blocks, *noise.encode(), 1])
    before, after = (_host(noise, runs, number, generator) for number in blocks)
    if noise == "one spread slower":
        after = after - 1.0
    return row("by itself", noise, numbers(blocks), map(found, before, after), promised=noise == "host alike")


def interval_alone(noise: str, blocks: int, runs: int) -> Row:
    """How often the interval that a report shows of one treatment by itself misses what its host gives at first."""
    generator = np.random.default_rng([runs, blocks, *noise.encode(), 5])
    ends = [signed_rank(values, LEVEL, LOG_RESOLUTION).interval for values in _host(noise, runs, blocks, generator)]
    missed = (Found(end is not None and not end[0] <= 0.0 <= end[1], False) for end in ends)
    return row("interval misses", noise, str(blocks), missed, promised=noise == "host alike")


def with_own_shifts(noise: str, sides: tuple[int, int], blocks: int, shifts: tuple[float, float], runs: int) -> Row:
    """Each run has a shift of its own, in all its blocks: they vary so much before, and so much after."""
    generator = np.random.default_rng([runs, *sides, blocks, *(round(10 * one) for one in shifts), *noise.encode(), 4])
    model = simulated.MODELS[noise]
    known = [
        [model(runs, blocks, generator) + generator.normal(0, shift, size=(runs, 1)) for _ in range(number)]
        for number, shift in zip(sides, shifts, strict=True)
    ]
    if sides == (1, 1):
        pairs: Iterable[Found] = map(found, known[0][0], known[1][0])
    else:
        pairs = (
            _found_of_runs(
                [BoundedValues.of(run[one]) for run in known[0]], [BoundedValues.of(run[one]) for run in known[1]]
            )
            for one in range(runs)
        )
    where = f"{noise}, runs vary by {' and '.join(f'{one:g}' for one in dict.fromkeys(shifts))}"
    of = f"{sides[0]} and {sides[1]} x {blocks}"
    is_promised = sides != (1, 1) and shifts[0] == shifts[1]
    what = "one run a side" if sides == (1, 1) else "several runs a side"
    return row(what, where, of, pairs, is_promised, MOST_FALSE_OF_RUNS)


def _found_of_runs(before: list[BoundedValues], after: list[BoundedValues]) -> Found:
    p = compare_runs(before, after, LEVEL, LOG_RESOLUTION).p
    return Found(p is not None and p <= LEVEL, False)


def numbers(blocks: tuple[int, int]) -> str:
    return f"{blocks[0]} and {blocks[1]}"


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
    rows += [scattered(blocks, scatter, runs) for blocks in UNLIKE for scatter in SCATTER]
    rows += [with_own_shifts("normal", (1, 1), blocks, (0.5, 0.5), runs) for blocks in (8, 20)]
    others = [noise for noise in simulated.MODELS if noise != "normal"]
    rows += [with_own_shifts(noise, (2, 2), 8, (0.5, 0.5), runs) for noise in others]
    rows += [with_own_shifts("normal", sides, 8, (of, of), runs) for sides in SIDES for of in SHIFTS]
    rows += [with_own_shifts("normal", sides, 8, (0.5, 2.0), runs) for sides in SIDES]
    both_and_one = zip(
        *(stopped(noise, effect, runs // 4) for noise in simulated.MODELS for effect in EFFECTS), strict=True
    )
    rows += [one for found_of in both_and_one for one in found_of]
    for noise in ("host alike", "host wanders", "one spread slower"):
        rows += [by_itself(noise, blocks, runs) for blocks in BLOCKS]
    rows += [interval_alone(noise, blocks, runs) for noise in ("host alike", "host wanders") for blocks in (8, 20, 40)]
    if arguments.json:
        print(json.dumps({"schema": "validation.v1", "runs": runs, "rows": [asdict(one) for one in rows]}))
    else:
        which = f"{runs} cases each ({runs // 4} of runs that stop)"
        print(f"Two runs in which the treatment is the same, {which}, level {LEVEL}\n")
        print(f"{'':<22}{'noise':<44}{'blocks':>13}{'false different':>17}{'warned of':>11}  kept")
        for one in rows:
            kept = "not promised" if one.kept is None else "yes" if one.kept else "NO"
            warned = "" if one.warned is None else f"{one.warned:.0%}"
            line = f"{one.what:<22}{one.noise:<44}{one.blocks:>13}{one.false_different:>17.2%}{warned:>11}  {kept:<12}"
            if one.exact is not None and one.power is not None:
                line += f"  exact alone {one.exact:>6.2%}; finds {one.power[0]:.1%}, exact alone {one.power[1]:.1%}"
            print(line.rstrip())
    return 0 if arguments.quick or all(one.kept is not False for one in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
