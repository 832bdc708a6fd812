"""What the parameters of several kinds of workload have in common."""

from typing import Annotated

from pydantic import Field

from nearmetal.units import Seconds

LONGEST = 86_400.0
"""Seconds. Nothing that a trial does takes more than a day."""

Whole = Annotated[int, Field(strict=True, ge=1)]
"""A number of things. Strict, so that neither true nor "4" passes for one."""

Time = Annotated[Seconds, Field(ge=1e-6, le=LONGEST)]
"""A span of time in seconds, written with its unit; a microsecond at least."""

Rate = Annotated[float, Field(strict=True, ge=1e-3, le=1e8, allow_inf_nan=False)]
"""Requests per second."""
