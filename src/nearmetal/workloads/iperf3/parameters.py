"""What a study file may say of an iperf3 workload, and what iperf3 3.12 can do of it. Pure."""

from collections.abc import Mapping
from math import ceil
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from nearmetal.model import Frozen, Whole
from nearmetal.units import BitRate, Bytes, Seconds
from nearmetal.workloads._parameters import Time

Protocol = Literal["tcp", "udp"]
Direction = Literal["forward", "reverse", "both"]

_INTERVALS = (0.1, 60.0)
"""Seconds that iperf3 may report at a time."""
PORT = 5201
"""Where the first of its servers listens, each further one on the next."""
_LARGEST_DATAGRAM = 65_507
"""Bytes of payload that IPv4 can carry."""


class Iperf3Parameters(Frozen):
    own_ports: ClassVar[tuple[int, ...]] = (PORT,)

    protocol: Protocol = "tcp"
    direction: Direction = "forward"
    rate: Annotated[BitRate, Field(ge=1000)] | None = None
    duration: Time = 10.0
    intervals: Whole = 10
    warmup: Annotated[Seconds, Field(ge=0, le=60)] = 1.0
    parallel: Annotated[Whole, Field(le=128)] = 1
    length: Annotated[Bytes, Field(ge=16, le=2**20)] | None = None

    @field_validator("duration", "warmup")
    @classmethod
    def _whole_seconds(cls, value: float) -> float:
        if value != int(value):
            raise ValueError(f'iperf3 counts in whole seconds; write "{max(1, round(value))}s"')
        return value

    @model_validator(mode="after")
    def _go_together(self) -> "Iperf3Parameters":
        if self.protocol == "udp" and self.rate is None:
            raise ValueError('protocol = "udp" needs the `rate` that each client offers: add rate = "100Mbit/s"')
        if self.protocol == "udp" and self.length is not None and self.length > _LARGEST_DATAGRAM:
            raise ValueError(f"a datagram carries at most {_LARGEST_DATAGRAM} bytes: give a smaller `length`")
        if self.rate is not None and self.rate < self.parallel * 1000:
            raise ValueError(f"a rate of {self.rate} bit/s leaves nothing to each of {self.parallel} streams")
        shortest, longest = _INTERVALS
        if not shortest <= self.interval <= longest:
            raise ValueError(
                f"{self.intervals} intervals of {self.duration:g} s last {self.interval:g} s each, and iperf3 reports "
                f"every {shortest:g} to {longest:g} s: change `intervals` or `duration`"
            )
        return self

    @property
    def interval(self) -> float:
        """Seconds between two reports."""
        return self.duration / self.intervals

    def lengthen(self, written: Mapping[str, Any], seconds: int) -> Mapping[str, Any] | None:
        """The parameters, as the study writes them, of the same load for so long. It reports in intervals."""
        return {**written, "duration": f"{seconds}s", "intervals": ceil(seconds / 10)}

    @property
    def whole(self) -> float:
        """Seconds of one run, the warm-up included."""
        return self.warmup + self.duration
