"""What `nearmetal-probe clock ask` prints, and the delays that follow from it. Pure."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from nearmetal.errors import ToolFailed
from nearmetal.model import Cause, Completed
from nearmetal.workloads._document import Part, describe_problem

Count = Annotated[int, Field(strict=True, ge=0)]
Nanoseconds = Annotated[int, Field(strict=True)]


class RttSpread(Part):
    min: Nanoseconds
    p50: Nanoseconds
    p99: Nanoseconds
    max: Nanoseconds


class ClockDocument(Part):
    """`clock.v1`. The ways contain the offset of the server's clock from the client's."""

    schema_: Annotated[Literal["clock.v1"], Field(alias="schema")]
    asked: Annotated[Count, Field(gt=0)]
    answered: Annotated[Count, Field(gt=0)]
    offset_ns: Nanoseconds
    bound_ns: Nanoseconds
    round_trip_ns: RttSpread
    forward_ns: RttSpread
    backward_ns: RttSpread
    trustworthy: bool
    reasons: tuple[str, ...]

    @model_validator(mode="after")
    def _adds_up(self) -> "ClockDocument":
        if self.answered > self.asked:
            raise ValueError(f"{self.answered} answers to {self.asked} questions")
        return self


@dataclass(frozen=True)
class Delays:
    """One client's, in seconds."""

    asked: int
    answered: int
    rtt_p50: float | None = None
    """None, as each time, where nothing came back."""
    rtt_p99: float | None = None
    forward_p50: float | None = None
    backward_p50: float | None = None
    uncertainty: float = 0.0
    """By how much the clocks may be apart at any time, beyond the offset that was taken off: 0 of one clock."""
    doubts: tuple[str, ...] = ()
    """Why the clocks could not be compared properly."""

    @property
    def loss(self) -> float:
        return 1 - self.answered / self.asked


_NOBODY = b"nobody answers at "
"""What the probe says when not one of its questions was answered."""


def got_nothing(ended: Completed) -> bool:
    """Whether it asked, and nothing came back."""
    return ended.status != 0 and _NOBODY in ended.stderr


def parse(text: bytes, where: str) -> ClockDocument:
    """ToolFailed when it is no such document."""
    try:
        return ClockDocument.model_validate_json(text)
    except ValidationError as error:
        what = f"what the probe printed is no clock.v1: {describe_problem(error)}"
        raise ToolFailed(what, where, cause=Cause.MEASUREMENT_INVALID) from None


def find_delays(document: ClockDocument, one_clock: bool) -> Delays:
    """`one_clock`: both ends read the clock of one kernel, so that there is no offset to be estimated."""
    offset = 0 if one_clock else document.offset_ns
    return Delays(
        asked=document.asked,
        answered=document.answered,
        rtt_p50=document.round_trip_ns.p50 / 1e9,
        rtt_p99=document.round_trip_ns.p99 / 1e9,
        forward_p50=(document.forward_ns.p50 - offset) / 1e9,
        backward_p50=(document.backward_ns.p50 + offset) / 1e9,
        uncertainty=0.0 if one_clock else document.bound_ns / 1e9,
        doubts=() if one_clock else document.reasons,
    )
