"""How much a verdict says: by what a difference exceeds the margin, and what an undecided contrast would take. Pure."""

import math
from collections.abc import Iterable
from statistics import NormalDist

import numpy as np

from nearmetal.analysis.results import Verdict
from nearmetal.analysis.signed_rank import Centre, two_sided_distinct
from nearmetal.model import Better, Plan, Scale, Warned

Range = tuple[float, float]

_EXACT = 64
"""Blocks up to which the critical rank sum is exact; beyond, its normal approximation serves as well."""

_MOST = 1_000_000
"""More blocks than this decide nothing: the estimate lies where it would have to move."""


def judge(
    interval: Range | None, equivalence: Range | None, neutral: float, better: Better | None = None
) -> tuple[Verdict, str | None]:
    """The verdict, and why there is none. `neutral` is the value of no effect: 1 for ratios, 0 for differences.

    `not-worse` is found only if `better` says which direction is.
    """
    if interval is None:
        return Verdict.UNDECIDED, "too-few-blocks"
    low, high = interval
    if equivalence is not None and equivalence[0] <= low and high <= equivalence[1]:
        return Verdict.EQUIVALENT, None
    if low > neutral or high < neutral:
        return Verdict.DIFFERENT, None
    if equivalence is not None and (
        (better == "higher" and equivalence[0] <= low) or (better == "lower" and high <= equivalence[1])
    ):
        return Verdict.NOT_WORSE, None
    return Verdict.UNDECIDED, "no-margin" if equivalence is None else None


def is_beyond(interval: Range | None, equivalence: Range | None) -> bool:
    """Whether a whole interval lies outside the margin."""
    if interval is None or equivalence is None:
        return False
    return interval[0] > equivalence[1] or interval[1] < equivalence[0]


def find_half_margin(equivalence: Range | None, scale: Scale) -> float | None:
    """Half the width of the margin, centred on no effect: of logarithms on a ratio scale."""
    if equivalence is None:
        return None
    return math.log(equivalence[1]) if scale == "ratio" else equivalence[1]


def find_least_blocks(level: float) -> int:
    """With fewer no outcome is significant: the most extreme one has p = 2^(1 - n)."""
    return 1 + math.ceil(-math.log2(level))


def find_needed_blocks(found: Centre, margin: float | None, blocks: int, level: float) -> int | None:
    """How many blocks would decide it, if the estimate stayed and the interval shrank with their square root.

    `found` and `margin` are centred on no effect: of logarithms on a ratio scale. The smaller of what excludes no
    effect and what fits into the margin. None if nothing tells: an unbounded interval, or an estimate on an edge.
    """
    if not level:
        return None
    least = find_least_blocks(level)
    if found.interval is None:
        return least
    half, away = (found.interval[1] - found.interval[0]) / 2, abs(found.estimate)
    rooms = [room for room in (away, (margin or 0.0) - away) if room > 0]
    if not rooms or not math.isfinite(half):
        return None
    wanted = blocks * (half / max(rooms)) ** 2
    return max(math.ceil(wanted), blocks + 1, least) if wanted <= _MOST else None


def count_disagreeing(blocks: int, level: float) -> int | None:
    """k: how many blocks may point the other way, should they be the least of all, so that a difference is still found.

    The largest k with 1 + 2 + ... + k at most the critical rank sum. None if no outcome of so many blocks is
    significant.
    """
    if blocks <= _EXACT:
        most = int(np.searchsorted(two_sided_distinct(blocks), level, side="right")) - 1 if blocks else -1
    else:
        spread = math.sqrt(blocks * (blocks + 1) * (2 * blocks + 1) / 24)
        most = math.floor(blocks * (blocks + 1) / 4 + NormalDist().inv_cdf(level / 2) * spread) if level else -1
    return None if most < 0 else (math.isqrt(8 * most + 1) - 1) // 2


def find_last_test(plan: Plan) -> tuple[int, float]:
    """Blocks and level of a plan's last test."""
    return (plan.looks[-1].blocks, plan.looks[-1].level) if plan.looks else (plan.blocks, plan.level)


def count_spare(plan: Plan) -> int | None:
    """k of a plan's primary contrasts: blocks that may disagree at its last test, should their differences be the
    smallest. None where it has too few blocks for any verdict of `different`."""
    return count_disagreeing(*find_last_test(plan))


def warn_of_no_slack(plan: Plan) -> Iterable[Warned]:
    """That one block which disagrees, or is lost, leaves no verdict of `different`; or that none can come at all."""
    if not plan.contrasts or count_spare(plan):
        return
    if count_spare(plan) is None:
        text = f"{_blocks(plan)} decide nothing: every verdict is undecided"
    else:
        text = f"a difference is found only if all {_blocks(plan)} agree; one that is lost leaves no verdict"
    yield Warned(code="no-slack", text=text)


def _blocks(plan: Plan) -> str:
    return "1 block" if plan.blocks == 1 else f"{plan.blocks} blocks"
