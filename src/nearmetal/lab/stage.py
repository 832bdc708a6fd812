"""The machines of a trial: which serves whom, what is measured on which CPU, and how commands start at one instant."""

import asyncio
import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from nearmetal.errors import TimedOut, ToolFailed
from nearmetal.lab.clocks import compare_clock
from nearmetal.lab.service import LabService, describe_end, is_killed, start_service
from nearmetal.model import Completed, LinkSpec, Machine, MachineSpec, Readback, Service, Site, Warned
from nearmetal.units import show_size

LEAD = 0.25
"""Seconds between giving the orders and the instant they name: enough for the slowest order to arrive."""
SLOW_LEAD = 2.0
"""LEAD for machines with a kernel of their own, where an order crosses SSH, perhaps under emulation."""


@dataclass(frozen=True)
class PlacedProgram:
    """A program of what is measured, and the CPUs in cpuset notation that it may run on, or could when it ended."""

    machine: str
    program: str
    cpus: str | None
    """None if nobody can tell."""


@dataclass(frozen=True)
class KilledProgram:
    """A program that `together` started and a signal ended."""

    machine: Machine
    words: str
    """How it ended, with its last words."""


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
    ports: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    services: list[LabService] = field(default_factory=list, init=False)
    """All that were started in this trial, also those that have ended since."""
    killed: list[KilledProgram] = field(default_factory=list, init=False)
    """Of what `together` has started in this trial."""
    _ended: list[PlacedProgram] = field(default_factory=list, init=False)
    """What `together` has started on CPUs that are kept free."""

    def facing(self, client: int) -> Machine:
        return self.servers[client] if self.connect == "pairs" else self.servers[0]

    def kept_cpu(self, machine: Machine) -> int | None:
        """The CPU meant for what is measured; None on a machine that keeps none, such as a client."""
        return max(self.cpus[machine.name]) if self.spec.alone and machine.role == "server" else None

    async def serve(self, machine: Machine, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Service:
        """Start what serves, on the CPU meant for it."""
        return await self.serve_as(argv[0], machine, argv, env)

    async def serve_as(
        self, name: str, machine: Machine, argv: Sequence[str], env: Mapping[str, str] | None
    ) -> LabService:
        """Start what serves, on the CPU meant for it; messages call it `name`."""
        service = await start_service(machine, argv, env, self.kept_cpu(machine), len(self.services), name)
        self.services.append(service)
        return service

    async def verify_placement(self) -> Readback:
        """Whether what was started on servers that keep a CPU free runs on that CPU, or did when it ended. MachineLost.

        Not `ok` if anything may run elsewhere, or if nothing was placed at all: isolation then took a CPU from what is
        measured, and gave it nothing.
        """
        if not self.spec.alone:
            return Readback()
        serving = [one for one in self.services if one.machine.role == "server"]
        services = [PlacedProgram(one.machine.name, one.program, await one.read_cpus()) for one in serving]
        return judge_placement([*self._ended, *services], {one.name: max(self.cpus[one.name]) for one in self.servers})

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
        instants = [str(instant + self.offsets[machine.name]) for machine, _ in commands]
        orders = zip(commands, instants, strict=True)
        return await asyncio.gather(*(self._at(machine, when, argv, limit) for (machine, argv), when in orders))

    async def _at(self, machine: Machine, instant: str, argv: Sequence[str], limit: float) -> Completed:
        cpu = self.kept_cpu(machine)
        placed = [] if cpu is None else ["--cpus", str(cpu)]
        order = [machine.probe, "at", instant, "--limit", f"{limit:g}s", *placed, "--json", "--", *argv]
        ended = await machine.exec(order, timeout=limit + SLOW_LEAD + 10)
        try:
            document = json.loads(ended.stdout)
        except ValueError:
            if is_killed(ended):
                what = describe_end(f"{_name(argv)}, or what started it,", ended)
                self.killed.append(KilledProgram(machine, what))
                raise ToolFailed(what, machine.name) from None
            said = ended.complaint[-500:] or f"status {ended.status}"
            raise ToolFailed(f"the probe could not start `{argv[0]}`: {said}", machine.name) from None
        if placed:
            self._ended.append(PlacedProgram(machine.name, argv[0], document["cpus"]))
        stdout, stderr = base64.b64decode(document["stdout"]), base64.b64decode(document["stderr"])
        # First, for a slow machine does not get to the end of what it prints.
        for name, kept in (("stdout", stdout), ("stderr", stderr)):
            if document[f"{name}_truncated"]:
                what = f"`{argv[0]}` printed more than {show_size(len(kept))} to its {name}, and the rest was cut off"
                raise ToolFailed(what, machine.name, "have it print less, or to a file")
        if document["timed_out"]:
            raise TimedOut(f"`{' '.join(argv)[:200]}` did not end within {limit:g} s", machine.name)
        status = document["status"] if document["status"] is not None else 128 + document["signal"]
        program = Completed(status=status, stdout=stdout, stderr=stderr)
        if is_killed(program):
            self.killed.append(KilledProgram(machine, describe_end(_name(argv), program)))
        late = None if instant == "now" or document["late_ns"] is None else document["late_ns"] / 1e9
        left = tuple(map(str, document.get("left", ())))
        return program.model_copy(update={"late": late, "left": left})


def _name(argv: Sequence[str]) -> str:
    """A program as its user knows it: a verb of the probe is one of its own."""
    name = PurePosixPath(argv[0]).name
    return " ".join((name, *argv[1:2])) if name == "nearmetal-probe" else name


def judge_placement(programs: Sequence[PlacedProgram], kept: Mapping[str, int]) -> Readback:
    """Pure. `kept` has the CPU meant for what is measured, by the name of each server."""
    placed = {
        name: [{"program": one.program, "cpus": one.cpus} for one in programs if one.machine == name] for name in kept
    }
    values = {name: {"cpu": cpu, "programs": placed[name]} for name, cpu in kept.items()}
    known = [one for one in programs if one.cpus is not None]
    wrong = next((one for one in known if one.cpus != str(kept[one.machine])), None)
    if known and wrong is None:
        return Readback(values=values)
    if wrong is None:
        places = ", ".join(f"CPU {cpu} of {name}" for name, cpu in kept.items())
        reason = f"nothing of what is measured was placed on {places}, which is kept free for it"
    else:
        where = f"CPUs {wrong.cpus} of {wrong.machine} instead of CPU {kept[wrong.machine]}"
        reason = f"`{wrong.program}` could run on {where}, which is kept free for it"
    return Readback(values=values, ok=False, reason=reason, warnings=(Warned(code="not-placed", text=reason),))


async def offsets(machines: Sequence[Machine | Site]) -> dict[str, int]:
    """Each machine's clock against ours, in ns, measured before anything is timed."""
    found = await asyncio.gather(*map(compare_clock, machines))
    return {machine.name: clock.ahead_ns for machine, clock in zip(machines, found, strict=True)}
