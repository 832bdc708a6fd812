"""What the parameters of several kinds of workload have in common, and how they are words of a command line."""

from typing import Annotated

from pydantic import Field

from nearmetal.units import Seconds

LONGEST = 86_400.0
"""Seconds. Nothing that a trial does takes more than a day."""

Time = Annotated[Seconds, Field(ge=1e-6, le=LONGEST)]
"""A span of time in seconds, written with its unit; a microsecond at least."""

Rate = Annotated[float, Field(strict=True, ge=1e-3, le=1e8, allow_inf_nan=False)]
"""Requests per second."""


def format_number(value: float | None) -> str:
    """Exactly, and never in a notation that starts with a sign."""
    if value is None:
        raise AssertionError("the parameters were validated to have it")
    return f"{value:.9f}".rstrip("0").rstrip(".")


def as_time(seconds: float) -> str:
    return f"{format_number(seconds)}s"
