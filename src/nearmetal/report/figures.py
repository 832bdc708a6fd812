"""Numbers as people read them: few digits, a unit that fits, and as many decimals as the interval deserves."""

import math
from collections.abc import Iterable

from nearmetal import units


def quantity(value: float, unit: str, decimals: int | None = None) -> str:
    """ "1.2 ms", "512 MiB", "12,340/s": a value of a response for people; of a rate with so many decimals if given."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "without limit"
    if unit == "1/s":
        return f"{_rounded(value) if decimals is None else f'{value:,.{decimals}f}'}/s"
    if not unit and abs(value) < 10_000_000:  # a count, as it stands on an axis
        return _rounded(value)
    return units.show(value, unit).replace(" us", " µs")


def _rounded(value: float) -> str:
    """Four digits or, above 1000, none after the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def common_decimals(values: Iterable[float]) -> int:
    """With how many decimals to write numbers below each other: four digits of the largest, two of the smallest."""
    finite = [abs(value) for value in values if math.isfinite(value) and value]
    if all(value == round(value) for value in finite):
        return 0
    large, small = (math.floor(math.log10(end)) for end in (max(finite), min(finite)))
    return max(0, min(3, max(3 - large, 1 - small)))


def ratio(value: float, spread: tuple[float, float] | None = None) -> str:
    """A ratio with as many decimals as its interval deserves: 0.97, 0.0984, 12.3."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "without limit"
    if abs(value) >= 10:
        return f"{value:,.1f}"
    return f"{value:.{_decimals(value, spread)}f}"


def _decimals(value: float, spread: tuple[float, float] | None) -> int:
    """Two to four: as many as the interval is narrow, and enough that no end is written as 0, or one beside 1 as 1."""
    ends = spread if spread and all(map(math.isfinite, spread)) else ()
    width = abs(ends[1] - ends[0]) if ends else abs(value) / 10
    narrow = math.ceil(-math.log10(width / 2)) if width > 0 else 3
    small = max((-math.floor(math.log10(abs(end))) for end in (value / 10, *ends) if end), default=2)
    least = min(4, max(2, narrow, small))
    return next((digits for digits in range(least, 4) if all(end == 1 or round(end, digits) != 1 for end in ends)), 4)


def interval(spread: tuple[float, float]) -> str:
    return f"{ratio(spread[0], spread)} to {ratio(spread[1], spread)}"


def difference(value: float, spread: tuple[float, float] | None, unit: str) -> str:
    """ "+5.95 MiB (+5.78 to +6.16)", with its interval where there is one; a share becomes percentage points."""
    divisor, name = axis(unit, [value, *(spread or ())])
    named = {"%": "points", "per second": "per second"}.get(name, name)
    text = f"{_signed(value / divisor)} {named}".rstrip()
    return text if spread is None else f"{text} ({_signed(spread[0] / divisor)} to {_signed(spread[1] / divisor)})"


def _signed(value: float) -> str:
    if not value:
        return "0"
    return (f"{value:+,.0f}" if abs(value) >= 999.5 else f"{value:+.3g}").replace("-", "−")


def probability(p: float) -> str:
    return f"p = {p:.2g}" if p >= 0.0001 else "p < 0.0001"


def percent(share: float) -> str:
    """ "2 %", "98.75 %": a share with no more digits than it has."""
    return f"{share * 100:.4g} %"


def count(number: int, one: str, many: str | None = None) -> str:
    """ "1 block", "8 blocks"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listing(words: Iterable[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    *rest, last = list(words) or ["nothing"]
    return f"{', '.join(rest)} and {last}" if rest else last


_STEPS: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "B": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "share": ((0.01, "%"),),
}


def axis(unit: str, values: Iterable[float]) -> tuple[float, str]:
    """What to divide by, and the unit's name, so that an axis has short numbers."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if unit in _STEPS:
        steps = _STEPS[unit]
        return next(((size, name) for size, name in steps if largest >= 2 * size), steps[-1]) if largest else steps[-1]
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if largest >= 2 * factor and unit.startswith(("bit", "B")):
            return factor, f"{prefix}{unit}"
    return 1.0, {"1/s": "per second"}.get(unit, unit)
