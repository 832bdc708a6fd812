"""Listening to CPUs with the probe: its command line, and what its noise.v1 says of each CPU. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nearmetal import cpu_lists
from nearmetal.errors import MALFORMED, ToolFailed
from nearmetal.model import Completed, Machine

SLACK = 20.0
"""Seconds beyond what is listened for the probe to start and to tell."""


@dataclass(frozen=True)
class Heard:
    """Gaps in which a program that wanted a CPU did not run there."""

    seconds: float
    """How long was listened."""
    gaps: int
    share: float
    """Of the time, that was lost in gaps."""
    longest: float
    """Seconds."""
    ticks: int | None
    """Interrupts of the CPU's own timer meanwhile; None where the kernel does not tell."""
    interrupts: int | None
    """All that this CPU served meanwhile, those of its timer included; None where the kernel does not tell."""

    @property
    def counters(self) -> dict[str, float | int | None]:
        return {"gaps": self.gaps, "share": self.share, "longest": self.longest, "ticks": self.ticks}


def build_listen_command(probe: str, cpus: Iterable[int], seconds: float) -> list[str]:
    """The command that listens to all these CPUs at once, for so long."""
    return [probe, "noise", "--json", "--cpus", cpu_lists.show(cpus), "--duration", f"{seconds:g}s"]


def parse_heard(document: bytes, machine: str) -> dict[int, Heard]:
    """What was heard on each CPU. ToolFailed for what is no noise.v1."""
    try:
        content = json.loads(document)
        return {int(cpu["cpu"]): _of_cpu(cpu) for cpu in content["cpus"]}
    except MALFORMED as error:
        raise ToolFailed(f"what the probe heard cannot be read: {error!r}", machine) from None


def _of_cpu(cpu: Mapping[str, Any]) -> Heard:
    causes = cpu["causes"]
    counts = [line["count"] for line in causes["interrupts"]]
    return Heard(
        seconds=cpu["elapsed_ns"] / 1e9,
        gaps=cpu["gaps"]["count"],
        share=cpu["gaps"]["share"],
        longest=cpu["gaps"]["longest_ns"] / 1e9,
        ticks=causes["local_timer"],
        interrupts=sum(counts) if counts else None,
    )


def read_heard(ended: Completed, machine: Machine) -> dict[int, Heard]:
    """What a machine's probe heard on each CPU. ToolFailed with its last words when it could not listen."""
    if ended.status != 0:
        said = ended.complaint[-300:] or "it said nothing"
        raise ToolFailed(f"the probe could not listen: {said}", machine.name)
    return parse_heard(ended.stdout, machine.name)
