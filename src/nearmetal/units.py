"""Quantities as a person writes them ("512MiB", "60s", "900Mbit/s", "2%") and as the program keeps them.

Bytes and bits per second are integers, seconds and shares are floats. Each parser raises ValueError with a
sentence that says what would be right; `show_*` are the inverse, for people.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import BeforeValidator, ValidationInfo

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%][A-Za-z/%]*)\s*")

_SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_RATES = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9}
_SHARES = {"%": 0.01}


def _parse(text: object, units: Mapping[str, float], what: str, example: str) -> float:
    if not isinstance(text, str):
        raise ValueError(f"{text!r} has no unit; write {what} like {example!r}")
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units:
        raise ValueError(f"{text!r} is not {what}; write it like {example!r} (units: {', '.join(units)})")
    return float(match[1]) * units[match[2]]


def size(text: object) -> int:
    """Bytes from "512MiB"."""
    return round(_parse(text, _SIZES, "a size", "512MiB"))


def duration(text: object) -> float:
    """Seconds from "60s"."""
    return _parse(text, _TIMES, "a duration", "60s")


def rate(text: object) -> int:
    """Bits per second from "900Mbit/s"."""
    return round(_parse(text, _RATES, "a rate", "900Mbit/s"))


def share(text: object) -> float:
    """A share from "2%": 0.02."""
    return _parse(text, _SHARES, "a percentage", "2%")


AS_WRITTEN = "as written"
"""Validation context for what a person wrote, where every quantity needs its unit. Elsewhere plain numbers do."""


def _quantity(kind: type, parser: Callable[[object], float]) -> BeforeValidator:
    def convert(value: object, info: ValidationInfo) -> object:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and info.context != AS_WRITTEN:
            return kind(value)
        return parser(value)

    return BeforeValidator(convert)


Bytes = Annotated[int, _quantity(int, size)]
Seconds = Annotated[float, _quantity(float, duration)]
BitRate = Annotated[int, _quantity(int, rate)]
Share = Annotated[float, _quantity(float, share)]


def show_size(value: float) -> str:
    """ "512 MiB" from bytes."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if abs(value) >= _SIZES[unit]:
            return f"{value / _SIZES[unit]:.3g} {unit}"
    return f"{value:.0f} B"


def show_duration(value: float) -> str:
    """ "1.5 ms", "60 s", "12 min" from seconds: three digits at most."""
    magnitude = abs(value)
    if magnitude >= 7200:
        return f"{value / 3600:.3g} h"
    if magnitude >= 120:
        return f"{value / 60:.3g} min"
    if magnitude >= 1 or value == 0:
        return f"{value:.3g} s"
    for unit in ("ms", "us"):
        if magnitude >= _TIMES[unit]:
            return f"{value / _TIMES[unit]:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def show(value: float, unit: str) -> str:
    """A value in one of the responses' units ("s", "B", "bit/s", "1/s", "share", …), for people."""
    if unit == "s":
        return show_duration(value)
    if unit == "B":
        return show_size(value)
    if unit == "share":
        return f"{value * 100:.3g} %"
    for prefix, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor * 10:
            return f"{value / factor:.3g} {prefix if unit.startswith(('bit', 'B')) else prefix + ' '}{unit}".strip()
    return f"{value:.4g} {unit}".strip()
