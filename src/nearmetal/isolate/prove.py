"""Whether an isolation isolates: a CPU is listened to with and without it, in turns; the difference has an interval."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nearmetal.analysis.signed_rank import Centre, signed_rank
from nearmetal.lab.cpus.noise import SLACK, Heard, build_listen_command, parse_heard
from nearmetal.lab.site import must
from nearmetal.model import Commands
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
    document = await must(commands, *within, *build_listen_command(probe, [cpu], seconds), timeout=seconds + SLACK)
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
