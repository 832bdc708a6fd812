"""What a study file may say of an httperf workload. Pure."""

from math import ceil
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from nearmetal.model import Whole
from nearmetal.workloads._parameters import LONGEST, Rate, Time
from nearmetal.workloads._served_parameters import ServedParameters

DURATION = 10.0
"""Seconds of measuring when a study says neither `duration` nor `connections`."""


class HttperfParameters(ServedParameters):
    rate: Rate
    connections: Annotated[Whole, Field(le=2**31 - 1)] | None = None
    calls: Annotated[Whole, Field(le=1_000_000)] = 1
    duration: Time | None = None

    @field_validator("url")
    @classmethod
    def _not_ipv6(cls, value: str | None) -> str | None:
        if value is not None and ":" in (urlsplit(value).hostname or ""):
            raise ValueError(f'{value!r} names an IPv6 address, which httperf cannot reach: use kind = "http"')
        return value

    @model_validator(mode="after")
    def _one_end(self) -> "HttperfParameters":
        if self.duration is not None and self.connections is not None:
            raise ValueError("`duration` and `connections` exclude each other: remove one")
        return self

    @property
    def connection_rate(self) -> float:
        """Connections per second, which is what httperf is told."""
        return self.rate / self.calls

    @property
    def measured_connections(self) -> int:
        if self.connections is not None:
            return self.connections
        return self.connections_in(DURATION if self.duration is None else self.duration)

    def connections_in(self, seconds: float) -> int:
        """How many connections begin in so many seconds, the first at once."""
        return max(1, ceil(seconds * self.connection_rate - 1e-9))  # 0.1 x 30 is a little more than 3

    @property
    def expected_seconds(self) -> float:
        """Of measuring, when every reply comes at once."""
        return self.measured_connections / self.connection_rate

    @property
    def longest_life(self) -> float:
        """Seconds that a connection can last: to connect, and each of its calls, may take just less than a timeout."""
        return (1 + self.calls) * self.timeout

    @property
    def longest_seconds(self) -> float:
        return min(LONGEST, self.expected_seconds + self.longest_life)
