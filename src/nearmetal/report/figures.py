"""Numbers as people read them: few digits, a unit that fits, and as many decimals as the interval deserves."""

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from functools import lru_cache

from nearmetal import units
from nearmetal.analysis.responses import find_deviation


def format_quantity(value: float, unit: str, decimals: int | None = None) -> str:
    """ "1.2 ms", "512 MiB", "12,340/s": a value of a response for people; of a rate with so many decimals if given."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "without limit"
    if abs(value) >= _LARGEST:
        text = f"{value:.3g}{'' if unit == '1/s' else ' '}{unit.removeprefix('1')}".rstrip()
    elif unit == "1/s":
        text = f"{format_rounded(value) if decimals is None else f'{value:,.{decimals}f}'}/s"
    elif not unit and abs(value) < 10_000_000:  # a count, as it stands on an axis
        text = format_rounded(value)
    else:
        text = units.show_unit(value, unit).replace(" us", " µs")
    return text.replace("-", "−")


def format_rounded(value: float) -> str:
    """Four digits or, above 1000, none after the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def as_known(values: Sequence[float]) -> float:
    """Their median, with the digits that their scatter leaves."""
    place = find_known_place(find_deviation(values), max(map(abs, values)), len(values))
    return round_off(statistics.median(values), place)


def find_known_place(deviation: float, largest: float, count: int) -> float | None:
    """The power of ten of the first digit in which the mean of so many values is unsure; None if they do not scatter.

    `deviation` is the sample's, `largest` the largest of their sizes. It leaves that two digits in any case.
    """
    if not deviation or not math.isfinite(deviation) or largest >= _LARGEST:
        return None
    return 10.0 ** math.floor(math.log10(min(deviation / math.sqrt(count), largest / 10)))


def round_off(value: float, place: float | None) -> float:
    """The nearest multiple of a place, but two digits of it in any case."""
    if not place or not value or not math.isfinite(value):
        return value
    digits = max(2, 1 + math.floor(math.log10(abs(value))) - round(math.log10(place)))
    return float(f"{value:.{min(digits, 17) - 1}e}")


def common_decimals(values: Iterable[float]) -> int:
    """With how many decimals to write numbers below each other: four digits of the largest, two of the smallest."""
    finite = [abs(value) for value in values if math.isfinite(value) and value]
    if all(value == round(value) for value in finite):
        return 0
    large, small = (math.floor(math.log10(end)) for end in (max(finite), min(finite)))
    return max(0, min(3, max(3 - large, 1 - small)))


def format_ratio(value: float, spread: tuple[float, float] | None = None, bounds: Sequence[float] = ()) -> str:
    """A ratio with as many decimals as its interval deserves: 0.97, 0.098, 12.3.

    Of `bounds`, as of 1, an end of the interval tells on which side it lies. A ratio of 0 or of infinity is unbounded.
    """
    if not _is_bounded(value):
        return UNBOUNDED
    decimals = _count_decimals(value, _bound_spread(value, spread), (1, *bounds))
    is_apart = spread is not None and not spread[0] <= 1 <= spread[1]
    return _never_1(value, decimals) if is_apart else _format_plainly(value, decimals)


UNBOUNDED = "unbounded"
"""Of an estimate or an end of an interval that failures, zeros or bounds leave without a number."""


def _is_bounded(ratio: float) -> bool:
    return ratio != 0 and not math.isinf(ratio)


def _bound_spread(value: float, spread: tuple[float, float] | None) -> tuple[float, float] | None:
    """The interval of a ratio, without unbounded ends: the estimate stands for those. None if none is left."""
    if spread is None or all(map(_is_bounded, spread)):
        return spread
    known = [end for end in spread if _is_bounded(end)]
    middle = value if _is_bounded(value) else next(iter(known), value)
    return (min([*known, middle]), max([*known, middle])) if known else None


def _format_plainly(value: float, decimals: int) -> str:
    """With so many decimals, or as many as it takes not to be 0, unless nobody would count its zeros: 3e+300."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "without limit"
    return _never_0(value, decimals) if _is_usual(value) else f"{value:.3g}"


def _is_usual(value: float) -> bool:
    return not value or _SMALLEST <= abs(value) < _LARGEST


def _never_0(value: float, decimals: int, sign: str = "") -> str:
    """With so many decimals; what would be 0 and is not has two digits of its own: 0.031, or 4.9e-09."""
    if not value or round(value, decimals):
        return f"{value:{sign},.{decimals}f}"
    own = 1 - _find_magnitude(value)
    return f"{value:{sign}.{own}f}" if own <= _FINEST else f"{value:{sign}.2g}"


_SMALLEST, _LARGEST = 1e-24, 1e24
"""What lies beyond is not what it seems, or of a value that is not: it is told, at no great length."""


def format_interval(value: float, spread: tuple[float, float], bounds: Sequence[float] = ()) -> str:
    """The interval of a ratio, with the same decimals: "0.95 to 0.99"."""
    known = _bound_spread(value, spread)
    decimals = _count_decimals(value if _is_bounded(value) or known is None else known[0], known, (1, *bounds))
    return " to ".join(_never_1(end, decimals) if _is_bounded(end) else UNBOUNDED for end in spread)


def _never_1(value: float, decimals: int) -> str:
    """With so many decimals, or as many as it takes to lie beyond 1 where it does: "1.00007"."""
    apart = abs(value - 1)
    is_hidden = math.isfinite(value) and apart > _SAME and round(value, decimals) == 1
    return _format_plainly(value, math.ceil(-math.log10(apart)) if is_hidden else decimals)


_SAME = 1e-13
"""A ratio that is no farther from 1 is 1: verdicts are by what is ten times as far."""


@lru_cache(maxsize=1024)  # an estimate and its interval have the same
def _count_decimals(value: float, spread: tuple[float, float] | None, beside: Sequence[float] = ()) -> int:
    """Those of an estimate and of both ends of its interval, whose width is 2 to 20 units of the last place.

    They are more where that would not tell the estimate, as long as the width has two digits at most. Nobody needs more
    than four digits of the largest, three below 1, and one less without an interval. But no end is written as one of
    those `beside` that is not: an interval tells on which side of them both ends lie, and one decimal more is given for
    it, or three where the interval is that narrow; for the first of them as many as it takes, up to six. The same holds
    of 0, unless an end is small beyond all proportion: that one is then written with decimals of its own.
    """
    if not spread or not all(map(math.isfinite, (value, *spread))):
        return max(0, _count_most(value) - 1)
    most, half = _count_most(max(map(abs, (value, *spread)))), abs(spread[1] - spread[0]) / 2
    fits = (
        max(math.ceil(-math.log10(half)), min(_count_telling(value), 1 - _find_magnitude(2 * half))) if half else most
    )
    more = 3 if spread[1] - spread[0] < 10.0**-most else 1
    places = range(max(0, min(most, fits)), most + more + 1)
    # Where an end cannot tell its side of all, it tells its side of the first of them.
    told = (
        digits
        for marks in (beside, beside[:1])
        for digits in places
        if all(_is_told(end, digits, marks) for end in spread)
    )
    return next(told, _beside_first(spread, beside, places) or max(0, most))


_FINEST = 6
"""Decimals that an end beside 1 is given to tell its side, and no more."""


def _beside_first(spread: tuple[float, float], beside: Sequence[float], places: range) -> int | None:
    """The fewest decimals with which ends that lie hard by the first of these marks tell their side."""
    if not beside or max(map(abs, spread)) >= 10:
        return None
    finer = range(places.stop, _FINEST + 1)
    return next((digits for digits in finer if all(_is_told(end, digits, beside[:1]) for end in spread)), None)


def _count_most(value: float) -> int:
    magnitude = _find_magnitude(value)
    return 3 - magnitude - (magnitude < 0)


def _count_telling(value: float) -> int:
    """Decimals that tell about a hundredth of a value or, below 1, two digits of it."""
    return 2 - round(math.log10(abs(value))) if abs(value) >= 1 else 1 - _find_magnitude(value)


def _find_magnitude(value: float) -> int:
    """0 of 1 to 9.99, -1 of 0.1 to 0.999; 0 of what has none."""
    return math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0


def _is_told(end: float, digits: int, beside: Sequence[float]) -> bool:
    return all(end == at or round(end, digits) != round(at, digits) for at in (0, *beside))


def format_difference(value: float, spread: tuple[float, float] | None, unit: str) -> str:
    """ "+5.9 MiB (+5.8 to +6.2)", with its interval where there is one; a share becomes percentage points."""
    divisor, name = choose_axis(unit, [value, *(spread or ())])
    named = "points" if name == "%" else name
    change, *ends = _format_signed(value / divisor, *(end / divisor for end in spread or ()))
    text = change if change == UNBOUNDED else f"{change} {named}".rstrip()
    return f"{text} ({' to '.join(ends)})" if ends else text


def _format_signed(value: float, *ends: float) -> list[str]:
    """A difference and its ends, without the zeros in which all of them end."""
    numbers = (value, *ends)
    if any(map(math.isinf, numbers)):
        known = iter(
            _format_signed(*finite) if (finite := [number for number in numbers if math.isfinite(number)]) else ()
        )
        return [UNBOUNDED if math.isinf(number) else next(known) for number in numbers]
    if not all(math.isfinite(number) and _is_usual(number) for number in numbers):
        return [f"{number:+.3g}".replace("-", "−") if number else "0" for number in numbers]
    most = _count_decimals(value, (min(numbers), max(numbers)) if ends else None)
    decimals = next(few for few in range(most + 1) if all(round(n, few) == round(n, most) for n in numbers))
    # A change that is next to none within an interval on both sides of 0 may be 0; what tells a side may not.
    is_none = ends and min(ends) < 0 < max(ends) and not round(value, decimals)
    return [_never_0(n, decimals, "+").replace("-", "−") if n else "0" for n in (0.0 if is_none else value, *ends)]


def format_probability(p: float) -> str:
    return f"p = {p:.2g}" if p >= 0.0001 else "p < 0.0001"


def format_percent(share: float) -> str:
    """ "2 %", "98.75 %": a share with no more digits than it has, four at most unless it would be 100 %."""
    return units.show_share(share, digits=4)


def format_count(number: int, one: str, many: str | None = None) -> str:
    """ "1 block", "8 blocks"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


_UNDIVIDED = re.compile(r"\([^()]*\)|,(?=\d)")


def join_listing(words: Iterable[str]) -> str:
    """ "a", "a and b", "a, b and c"; where one of them has a comma itself: "a; b, on; and c".

    Commas in brackets, and between digits, divide nothing.
    """
    *rest, last = list(words) or ["nothing"]
    if any("," in _UNDIVIDED.sub("", one) for one in (*rest, last)):
        return "; ".join((*rest, f"and {last}" if rest else last))
    return f"{', '.join(rest)} and {last}" if rest else last


_STEPS: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "B": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "share": ((0.01, "%"),),
}


def choose_axis(unit: str, values: Iterable[float]) -> tuple[float, str]:
    """What to divide by, and the unit's name, so that an axis has short numbers."""
    largest = max(map(abs, filter(math.isfinite, values)), default=0.0)
    if unit in _STEPS and largest < _LARGEST:  # else no unit is fit for it, and a smaller one may not hold it
        steps = _STEPS[unit]
        return next(((size, name) for size, name in steps if largest >= 2 * size), steps[-1]) if largest else steps[-1]
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if _LARGEST > largest >= 2 * factor and unit.startswith(("bit", "B")):
            return factor, f"{prefix}{unit}"
    return 1.0, {"1/s": "per second"}.get(unit, unit)
