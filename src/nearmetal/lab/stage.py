"""The machines of a trial, and how commands start on several of them at one instant."""

import asyncio
import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nearmetal.errors import MALFORMED, TimedOut, ToolFailed
from nearmetal.lab.machines import kernel
from nearmetal.lab.site import LocalSite
from nearmetal.model import Completed, LinkSpec, Machine, MachineSpec, Site, Stage
from nearmetal.units import show_size

LEAD = 0.25
"""Seconds between giving the orders and the instant they name: enough for the slowest order to arrive."""
SLOW_LEAD = 2.0
"""The same for machines with a kernel of their own, where an order crosses SSH, perhaps under emulation."""


def facing(stage: Stage, client: int) -> Machine:
    """The server that a client loads, by the client's index."""
    return stage.servers[client] if stage.connect == "pairs" else stage.servers[0]


@dataclass(frozen=True)
class LabStage:
    """A `Stage` of machines that the lab made or reached."""

    servers: tuple[Machine, ...]
    clients: tuple[Machine, ...]
    sites: Mapping[str, Site]
    spec: MachineSpec
    link: LinkSpec
    connect: str
    offsets: dict[str, int]
    """How far a machine's clock is ahead of the controller's, in ns; 0 where they share it. Of those asked so far."""
    cpus: Mapping[str, Sequence[int]] = field(default_factory=dict)
    seed: int = 0

    async def together(self, commands: Sequence[tuple[Machine, Sequence[str]]], limit: float) -> list[Completed]:
        """Start all at one instant by the probe's `at`; nothing is said to any machine while they run.

        One command alone starts at once: there is nothing to wait for, and waiting would count as its cost.
        """
        if len(commands) == 1:
            machine, argv = commands[0]
            return [await self._at(machine, "now", argv, limit)]
        self.offsets.update(await offsets([machine for machine, _ in commands if machine.name not in self.offsets]))
        near = not any(self.offsets[machine.name] for machine, _ in commands)
        instant = time.time_ns() + int((LEAD if near else SLOW_LEAD) * 1e9)
        return list(
            await asyncio.gather(
                *(
                    self._at(machine, str(instant + self.offsets[machine.name]), argv, limit)
                    for machine, argv in commands
                )
            )
        )

    async def _at(self, machine: Machine, instant: str, argv: Sequence[str], limit: float) -> Completed:
        order = [machine.probe, "at", instant, "--limit", f"{limit:g}s", "--json", "--", *argv]
        ended = await machine.exec(order, timeout=limit + SLOW_LEAD + 10)
        try:
            document = json.loads(ended.stdout)
        except ValueError:
            said = ended.complaint[-500:]
            raise ToolFailed(f"the probe could not start `{argv[0]}`: {said}", machine.name) from None
        if document["timed_out"]:
            raise TimedOut(f"`{' '.join(argv)[:200]}` did not end within {limit:g} s", machine.name)
        stdout, stderr = base64.b64decode(document["stdout"]), base64.b64decode(document["stderr"])
        for name, kept in (("stdout", stdout), ("stderr", stderr)):
            if document[f"{name}_truncated"]:
                raise ToolFailed(
                    f"`{argv[0]}` printed more than {show_size(len(kept))} to its {name}, and the rest was cut off",
                    machine.name,
                    "have it print less, or to a file",
                )
        status = document["status"] if document["status"] is not None else 128 + document["signal"]
        late = None if instant == "now" or document["late_ns"] is None else document["late_ns"] / 1e9
        return Completed(status=status, stdout=stdout, stderr=stderr, late=late)


async def offsets(machines: Sequence[Machine | Site]) -> dict[str, int]:
    """Each machine's clock against ours, measured before anything is timed. Ours is shared by those on our kernel."""
    ours = LocalSite().boot_id
    found = await asyncio.gather(*(_offset(machine, ours) for machine in machines))
    return {machine.name: offset for machine, offset in zip(machines, found, strict=True)}


async def _offset(machine: Machine | Site, ours: str) -> int:
    """How far a machine's clock is ahead of ours, in ns: the reading of the quickest of five exchanges."""
    if kernel.boot_of(machine) == ours:
        return 0
    exchanges: list[tuple[int, int]] = []
    for _ in range(5):
        asked = time.time_ns()
        ended = await machine.exec([machine.probe, "at", "now", "--json", "--", "true"])
        answered = time.time_ns()
        try:
            there = int(json.loads(ended.stdout)["started_ns"])
        except MALFORMED:
            raise ToolFailed(f"the probe does not tell the time: {ended.complaint[-500:]}", machine.name) from None
        exchanges.append((answered - asked, there - (asked + answered) // 2))
    return min(exchanges)[1]
