"""Where values lie on an axis: a domain that shows them all, and round numbers within it. Pure arithmetic."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from nearmetal.report import figures

ROUND = tuple(float(f"{digit}e{power}") for power in range(-9, 10) for digit in (1, 2, 5))

_CLOSER = tuple(float(f"{digit}e{power}") for power in range(-9, 10) for digit in (1, 1.5, 2, 3, 5, 7))
"""Ticks for an axis that is too short for three of the others: where it spans a factor of 3.5 it has three."""

_WIDER = tuple(float(f"{digit}e{power}") for power in range(-9, 10) for digit in (1, 3))
"""Ticks for an axis that is too long for the others, and too short for its powers of ten alone."""

_DECADES = tuple(float(f"1e{power}") for power in range(-9, 10))

_FEW = 3
"""Ticks without which nobody reads a value from a logarithmic axis."""

_MANY = 7
"""Ticks that a logarithmic axis has room for."""

_FARTHEST = 1e150
"""Beyond this, and nearer to 0 than one over it, no float holds how many times the one is of the other."""

TOO_FAR = 1e300
"""No float holds how far values beyond this may lie apart."""


@dataclass(frozen=True)
class Axis:
    """Where the values of a forest lie."""

    title: str
    reference: float
    domain: tuple[float, float]
    ticks: tuple[float, ...]
    labels: str
    """How a tick is written: a Vega expression of `datum.value`, ours, never a study's."""
    scale: Literal["log", "linear"]
    band: tuple[float, float] | None = None


def ratio_axis(ends: Iterable[float], margin: float | None) -> Axis:
    """A logarithmic axis of ratios that shows 1, the margin around it, and every end that is in any proportion."""
    band = None if margin is None else (1 / (1 + margin), 1 + margin)
    positive = [end for end in ends if 1 / _FARTHEST < end < _FARTHEST]
    low, high = min([*positive, *(band or (1.0,)), 0.98]), max([*positive, *(band or (1.0,)), 1.02])
    room = (high / low) ** 0.05
    low, high = low / room, high * room
    if high / low > 3:
        ticks = [tick for tick in ROUND if low <= tick <= high]
        if len(ticks) < _FEW:
            ticks = [tick for tick in _CLOSER if low <= tick <= high]
    else:
        step = next(step for step in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if (high - low) / step <= 7)
        ticks = [round(index * step, 4) for index in range(math.ceil(low / step), math.floor(high / step) + 1)]
    thinned = ticks[:: math.ceil(len(ticks) / 9)]
    if 1.0 not in thinned:
        thinned = sorted({*thinned, 1.0})
    return Axis(
        title="times the reference (log scale)",
        reference=1.0,
        domain=(low, high),
        ticks=tuple(thinned),
        labels="format(datum.value, '~r') + ' ×'" if high / low > 3 else "format(datum.value, '.3~f') + ' ×'",
        scale="log",
        band=band,
    )


def difference_axis(ends: Iterable[float], unit: str) -> tuple[Axis, float]:
    """A linear axis of differences around 0, and what the values must be divided by to stand on it.

    It shows every end that is not `TOO_FAR`. A margin is a share of a reference, so each row has its own and the axis
    has no band.
    """
    finite = [end for end in ends if abs(end) < TOO_FAR]
    divisor, name = figures.choose_axis(unit, finite)
    low, high, ticks = linear_ticks([0.0, *(end / divisor for end in finite)])
    named = "percentage points" if unit == "share" else name
    title = "difference from the reference" + {"": "", "per second": ", per second"}.get(named, f" in {named}")
    return Axis(title, 0.0, (low, high), tuple(ticks), "format(datum.value, '~g')", "linear"), divisor


def log_ticks(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """A domain around the values, which span a factor of 4, and round numbers within it: from three to seven."""
    room = (max(values) / min(values)) ** 0.06
    low, high = min(values) / room, max(values) * room
    inside = [[tick for tick in ticks if low <= tick <= high] for ticks in (ROUND, _CLOSER, _WIDER, _DECADES)]
    decades = inside[-1]
    fitting = (ticks for ticks in inside if _FEW <= len(ticks) <= _MANY)
    return low, high, next(fitting, decades[:: math.ceil(len(decades) / _MANY) or 1])


def linear_ticks(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """A domain around the values, and round numbers within it: at most six."""
    least, most = min(values, default=0.0), max(values, default=1.0)
    if max(abs(least), abs(most)) < 1 / TOO_FAR:
        least, most = -1.0, 1.0
    spread = most - least or abs(most) * 0.1
    low, high = least - 0.08 * spread, most + 0.08 * spread
    size = 10 ** math.floor(math.log10((high - low) / 3))
    step = next(step for step in (size, 2 * size, 5 * size, 10 * size) if (high - low) / step <= 6)
    first, last = math.ceil(low / step), math.floor(high / step)
    return low, high, [float(f"{index * step:.12g}") for index in range(first, last + 1)]
