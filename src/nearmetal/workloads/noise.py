"""Listening to the CPU that what is measured runs on: gaps in which a program that wants it does not run.

It is a workload because it needs the CPU for itself: while another workload measures, nobody listens.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from nearmetal.lab.cpus.noise import SLACK, Heard, build_listen_command, read_heard
from nearmetal.model import Frozen, Measurement, ResponseKind, Stage
from nearmetal.workloads._parameters import Time

# Differences, because a CPU that is well isolated has none at all.
KINDS: Mapping[str, ResponseKind] = {
    "lost": ResponseKind(unit="share", better="lower", scale="difference"),
    "gaps": ResponseKind(unit="1/s", better="lower", scale="difference"),
    "longest": ResponseKind(unit="s", better="lower", scale="difference"),
    "ticks": ResponseKind(unit="1/s", better="lower", scale="difference"),
    "interrupts": ResponseKind(unit="1/s", better="lower", scale="difference"),
}


class NoiseParameters(Frozen):
    duration: Annotated[Time, Field(ge=0.1, le=3600)] = 10.0


class NoiseWorkload:
    kind: ClassVar[str] = "noise"
    Parameters: ClassVar[type[Frozen]] = NoiseParameters
    has_clients: ClassVar[bool] = False
    responses = KINDS
    primary = "lost"
    preparing = 0.0

    def __init__(self, parameters: NoiseParameters) -> None:
        self._parameters = parameters
        self.duration = parameters.duration
        self.limit = parameters.duration + SLACK

    async def prepare(self, stage: Stage) -> None:
        """Nothing serves."""

    async def finish(self, stage: Stage) -> None:
        """Nothing was started."""

    async def run(self, stage: Stage) -> Measurement:
        """The last CPU of the first server, whether it is isolated or not: the one that treatments keep free."""
        server = stage.servers[0]
        cpu = max(stage.cpus[server.name])
        argv = build_listen_command(server.probe, [cpu], self._parameters.duration)
        (ended,) = await stage.together([(server, argv)], self.limit)
        found = read_heard(ended, server)[cpu]
        return Measurement(
            responses={name: KINDS[name].of(value) for name, value in list_values(found).items()},
            events=found.gaps,
            artifacts={"noise.json": ended.stdout},
        )


def list_values(found: Heard) -> dict[str, float]:
    """Responses by name: the share of time lost, the longest gap in s; gaps, ticks, interrupts per second. Pure."""
    told: dict[str, float] = {"lost": found.share, "gaps": found.gaps / found.seconds, "longest": found.longest}
    counts = {"ticks": found.ticks, "interrupts": found.interrupts}
    return told | {name: count / found.seconds for name, count in counts.items() if count is not None}


plugin = NoiseWorkload
