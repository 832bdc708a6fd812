"""Whether an isolation isolates: a CPU is listened to with and without it, in turns; the difference has an interval.

What `nearmetal isolate prove` prints with `--json` is a `Proof`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from nearmetal.analysis.signed_rank import Centre, signed_rank
from nearmetal.lab.cpus.noise import SLACK, Heard, build_listen_command, parse_heard
from nearmetal.lab.local_site import run_checked
from nearmetal.model import Commands, Document, Frozen
from nearmetal.workloads.noise import KINDS, list_values

LEVEL = 0.05
DECIDING = 6
"""Rounds: the fewest whose signed ranks can differ from chance at this level."""
_RESOLUTION = 1e-9
"""Of shares, of times in seconds and of rates: closer values are one."""

Listen = Callable[[], Awaitable[Heard]]
Verdict = Literal["quieter", "noisier", "undecided"]


@dataclass(frozen=True)
class ListeningRound:
    """One round: the same length listened to without and with isolation."""

    without: Heard
    isolated: Heard


async def hear_cpu(commands: Commands, probe: str, cpu: int, seconds: float, within: Sequence[str] = ()) -> Heard:
    """`within`: words that start it on CPUs where others may not run."""
    document = await run_checked(
        commands, *within, *build_listen_command(probe, [cpu], seconds), timeout=seconds + SLACK
    )
    return parse_heard(document, f"CPU {cpu}")[cpu]


async def run_rounds(count: int, without: Listen, isolated: Listen) -> list[ListeningRound]:
    """So many rounds, each of both in turns: every second one begins with the other, and a drift favours neither."""
    pairs = []
    for number in range(count):
        order = (isolated, without) if number % 2 else (without, isolated)
        told = {listen: await listen() for listen in order}
        pairs.append(ListeningRound(told[without], told[isolated]))
    return pairs


def find_differences(pairs: Sequence[ListeningRound]) -> dict[str, Centre]:
    """Of each response of the workload `noise`, in its unit: isolated less not isolated. Those told every time."""
    told = [(list_values(pair.without), list_values(pair.isolated)) for pair in pairs]
    names = [name for name in KINDS if all(name in one for both in told for one in both)]
    return {
        name: signed_rank(np.array([after[name] - before[name] for before, after in told]), LEVEL, _RESOLUTION)
        for name in names
    }


def find_verdict(lost: Centre) -> Verdict:
    """About the share of time that is lost; undecided as long as its interval holds 0."""
    if lost.interval is None or lost.interval[0] <= 0 <= lost.interval[1]:
        return "undecided"
    return "quieter" if lost.interval[1] < 0 else "noisier"


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
    verdict: Verdict
    """About the time that is lost."""
    differences: Mapping[str, Difference]
    """By the response's name."""
    rounds: tuple[Round, ...]


def make_proof(what: str, pairs: Sequence[ListeningRound]) -> Proof:
    found = find_differences(pairs)
    differences = {
        name: Difference(difference=one.estimate, interval=one.interval, p=one.p, unit=KINDS[name].unit)
        for name, one in found.items()
    }
    rounds = [{"without": pair.without.counters, "isolated": pair.isolated.counters} for pair in pairs]
    return Proof(
        what=what,
        level=LEVEL,
        verdict=find_verdict(found["lost"]),
        differences=differences,
        rounds=tuple(map(Round.model_validate, rounds)),
    )
