"""What `nearmetal isolate prove` prints with `--json`."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from nearmetal.isolate import prove
from nearmetal.model import Document, Frozen
from nearmetal.workloads.noise import KINDS


class Difference(Frozen):
    """Of one response: isolated less not isolated."""

    difference: float
    interval: tuple[float, float] | None
    """Null with too few rounds to tell."""
    p: float | None
    unit: str


class HeardRound(Frozen):
    """What was heard of a CPU in one round."""

    gaps: int
    share: float
    """Of the time, that was lost in gaps."""
    longest: float
    """Seconds."""
    ticks: int | None
    """Interrupts of the CPU's own timer; null where the kernel does not tell."""


class Round(Frozen):
    """The same length listened to without and with isolation."""

    without: HeardRound
    isolated: HeardRound


class Proof(Document):
    """`isolate.prove.v1`."""

    schema_: Annotated[Literal["isolate.prove.v1"], Field(alias="schema")] = "isolate.prove.v1"
    what: str
    """Which CPU is held against which, for people."""
    level: float
    verdict: prove.Verdict
    """About the time that is lost."""
    differences: Mapping[str, Difference]
    """By the response's name."""
    rounds: tuple[Round, ...]


def make_proof(what: str, pairs: Sequence[prove.ListeningRound]) -> Proof:
    found = prove.find_differences(pairs)
    differences = {
        name: Difference(difference=one.estimate, interval=one.interval, p=one.p, unit=KINDS[name].unit)
        for name, one in found.items()
    }
    rounds = [{"without": pair.without.counters, "isolated": pair.isolated.counters} for pair in pairs]
    return Proof(
        what=what,
        level=prove.LEVEL,
        verdict=prove.find_verdict(found["lost"]),
        differences=differences,
        rounds=tuple(map(Round.model_validate, rounds)),
    )
