"""Quantities as a person writes them ("512MiB", "60s", "900Mbit/s", "2%") and as the program keeps them.

Bytes and bits per second are integers, seconds and shares are floats. Each parser raises ValueError with a
sentence that says what would be right; `show_*` are the inverse, for people.
"""

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%][A-Za-z/%]*)\s*")

_SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_TIMES: Mapping[str, int | str] = {
    "ns": "1e-9",
    "us": "1e-6",
    "ms": "1e-3",
    "s": 1,
    "m": 60,
    "min": 60,
    "h": 3600,
    "d": 86400,
}
MIB = 2**20
"""Bytes."""
_RATES = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9}
_SHARES = {"%": "0.01"}

_LARGEST = 2**63
"""More than this of anything is a slip of the pen, and does not fit where it is to go."""


def _parse(text: object, units: Mapping[str, int | str], what: str, example: str) -> Decimal:
    """Decimal, so that 7 % is 0.07 and not 0.07000000000000001."""
    if not isinstance(text, str):
        raise ValueError(f"{text!r} has no unit; write {what} like {example!r}")
    if text.lstrip().startswith("-") and _QUANTITY.fullmatch(text.lstrip()[1:]):
        raise ValueError(f"{text!r} must not be negative; write {what} like {example!r}")
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units:
        raise ValueError(f"{text!r} is not {what}; write it like {example!r} (units: {', '.join(units)})")
    value = Decimal(match[1]) * Decimal(units[match[2]])
    if value >= _LARGEST:
        raise ValueError(f"{text!r} is more than anything can have")
    return value


def parse_size(text: object) -> int:
    """Bytes from "512MiB"."""
    return round(_parse(text, _SIZES, "a size", "512MiB"))


def parse_duration(text: object) -> float:
    """Seconds from "60s"."""
    return float(_parse(text, _TIMES, "a duration", "60s"))


def parse_rate(text: object) -> int:
    """Bits per second from "900Mbit/s"."""
    return round(_parse(text, _RATES, "a rate", "900Mbit/s"))


def parse_share(text: object) -> float:
    """A share from "2%": 0.02."""
    return float(_parse(text, _SHARES, "a percentage", "2%"))


AS_WRITTEN = "as written"
"""Validation context for what a person wrote, where every quantity needs its unit. Elsewhere plain numbers do."""


def _make_validator(kind: type, parser: Callable[[object], float]) -> BeforeValidator:
    def convert_value(value: object, info: ValidationInfo) -> object:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and info.context != AS_WRITTEN:
            try:
                return kind(value)
            except OverflowError:  # a whole number of infinity
                raise ValueError("it is not finite") from None
        return parser(value)

    return BeforeValidator(convert_value)


def _as_text(example: str) -> WithJsonSchema:
    """What an editor is told of a study file; in records the same quantity is a plain number."""
    return WithJsonSchema({"type": "string", "examples": [example]}, mode="validation")


Bytes = Annotated[int, _make_validator(int, parse_size), _as_text("512MiB")]
Seconds = Annotated[float, _make_validator(float, parse_duration), _as_text("60s")]
BitRate = Annotated[int, _make_validator(int, parse_rate), _as_text("900Mbit/s")]
Share = Annotated[float, _make_validator(float, parse_share), _as_text("2%")]


def _three_digits(value: float) -> str:
    """Three significant digits, or all before the point: never an exponent."""
    return _round_digits(value, 3)


def _round_digits(value: float, digits: int) -> str:
    if abs(value) >= 10**digits - 0.5:
        return f"{value:.0f}"
    text = f"{value:.{digits}g}"
    return f"{Decimal(text):f}" if "e" in text and abs(value) > _NEXT_TO_NOTHING else text


_NEXT_TO_NOTHING = 1e-10
"""Percent. So much no measurement tells from nothing, nor so much less than all from all."""


def show_size(value: float) -> str:
    """ "512 MiB" from bytes."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if abs(value) >= _SIZES[unit]:
            return f"{_three_digits(value / _SIZES[unit])} {unit}"
    return f"{value:.0f} B"


def show_duration(value: float) -> str:
    """ "1.5 ms", "60 s", "12 min" from seconds: three digits at most, unless it is more than 999 hours."""
    magnitude = abs(value)
    if magnitude >= 7200:
        return f"{_three_digits(value / 3600)} h"
    if magnitude >= 120:
        return f"{value / 60:.3g} min"
    if magnitude >= 0.9995 or value == 0:
        return f"{value:.3g} s"
    for unit, seconds in (("ms", 1e-3), ("us", 1e-6)):
        if magnitude >= 0.9995 * seconds:
            return f"{value / seconds:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def show_elapsed(seconds: float) -> str:
    """ "42 s", "5 min 10 s", "2 h 5 min", "3 d 23 h": how long something took, as a clock on the wall tells."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def show_share(value: float, decimals: int | None = None, digits: int = 3) -> str:
    """ "2 %", "98.8 %" from a share: three digits at most, or so many decimals.

    What is not all is not written as 100 %, nor what is not nothing as 0 %: it has the first digit that tells.
    """
    percent = value * 100
    text = _round_digits(percent, digits) if decimals is None else f"{percent:.{decimals}f}"
    apart = abs(percent - float(text)) if abs(float(text)) in (0, 100) else 0.0
    if apart > _NEXT_TO_NOTHING:
        text = f"{percent:.{math.ceil(-math.log10(apart))}f}".rstrip("0")
    return f"{text} %"


def show_unit(value: float, unit: str) -> str:
    """A value in one of the responses' units ("s", "B", "bit/s", "1/s", "share", …), for people."""
    if unit == "s":
        return show_duration(value)
    if unit == "B":
        return show_size(value)
    if unit == "share":
        return show_share(value)
    for prefix, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor * 10:
            scaled = _three_digits(value / factor)
            return f"{scaled} {prefix if unit.startswith(('bit', 'B')) else prefix + ' '}{unit}".strip()
    return f"{value:.4g} {unit}".strip() if abs(value) < 9999.5 else f"{value:.0f} {unit}".strip()


def show_alike(value: float, written: object) -> str:
    """A value as it would stand beside what a person wrote, "24 h" beside "99d"; as it is beside what has no unit."""
    match = _QUANTITY.fullmatch(written) if isinstance(written, str) else None
    for units, unit in ((_SIZES, "B"), (_TIMES, "s"), (_RATES, "bit/s"), (_SHARES, "share")):
        if match is not None and match[2] in units:
            return show_unit(value, unit)
    return str(value)
