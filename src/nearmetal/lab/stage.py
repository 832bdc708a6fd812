"""The machines of a trial, and how commands start on several of them at one instant."""

import asyncio
import base64
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearmetal.errors import TimedOut, ToolFailed
from nearmetal.model import Completed, LinkSpec, Machine, MachineSpec, Site

LEAD = 0.25
"""Seconds between giving the orders and the instant they name: enough for the slowest order to arrive."""
SLOW_LEAD = 2.0
"""The same for machines with a kernel of their own, where an order crosses SSH, perhaps under emulation."""


@dataclass(frozen=True)
class LabStage:
    """A `Stage` of machines that the lab made or reached."""

    servers: tuple[Machine, ...]
    clients: tuple[Machine, ...]
    sites: Mapping[str, Site]
    spec: MachineSpec
    link: LinkSpec
    connect: str
    host_boot_id: str = ""
    """Machines with this kernel's boot_id share the controller's clock."""

    async def together(self, commands: Sequence[tuple[Machine, Sequence[str]]], limit: float) -> list[Completed]:
        """Start all at one instant by the probe's `at`; nothing is said to any machine while they run."""
        if not commands:
            return []
        offsets = await asyncio.gather(*(self._offset(machine) for machine, _ in commands))
        near = all(self._shares_clock(machine) for machine, _ in commands)
        instant = time.time_ns() + int((LEAD if near else SLOW_LEAD) * 1e9)
        return list(
            await asyncio.gather(
                *(
                    self._at(machine, instant + offset, argv, limit)
                    for (machine, argv), offset in zip(commands, offsets, strict=True)
                )
            )
        )

    def _shares_clock(self, machine: Machine) -> bool:
        return machine.boot_id.startswith(self.host_boot_id)

    async def _offset(self, machine: Machine) -> int:
        """How far a machine's clock is ahead of ours, in ns: the reading of the quickest of five exchanges."""
        if self._shares_clock(machine):
            return 0
        exchanges: list[tuple[int, int]] = []
        for _ in range(5):
            asked = time.time_ns()
            ended = await machine.exec([machine.probe, "at", "now", "--json", "--", "true"])
            answered = time.time_ns()
            there = json.loads(ended.stdout)["started_ns"]
            exchanges.append((answered - asked, there - int(statistics.mean((asked, answered)))))
        return min(exchanges)[1]

    async def _at(self, machine: Machine, instant: int, argv: Sequence[str], limit: float) -> Completed:
        order = [machine.probe, "at", str(instant), "--limit", f"{limit:g}s", "--json", "--", *argv]
        ended = await machine.exec(order, timeout=limit + SLOW_LEAD + 10)
        try:
            told = json.loads(ended.stdout)
        except ValueError:
            said = ended.stderr.decode("utf-8", "replace").strip()[-500:]
            raise ToolFailed(f"the probe could not start `{argv[0]}`: {said}", machine.name) from None
        if told["timed_out"]:
            raise TimedOut(f"`{' '.join(argv)[:200]}` did not end within {limit:g} s", machine.name)
        status = told["status"] if told["status"] is not None else 128 + told["signal"]
        return Completed(
            status=status, stdout=base64.b64decode(told["stdout"]), stderr=base64.b64decode(told["stderr"])
        )
