"""Are the machines of a trial, and the way between them, still what they were when their boot was verified?

Read when the boot is verified and after each measurement, never meanwhile. The kernel counts what it killed and how
often a carrier came or went, so that what was cut and mended within a measurement is seen as well.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address

from nearmetal.errors import MALFORMED, MachineLost, NearmetalError
from nearmetal.lab.machines.liveness import Losable
from nearmetal.lab.read_lines import Lines
from nearmetal.model import Cause, Commands, Handle, Machine, ProcessId, Site, Stage, Warned
from nearmetal.run import resource_readback
from nearmetal.run.blame import Fault
from nearmetal.run.machine_state import BOOT, PRESSURE, VMSTAT, MachineState, read_clocks, read_states
from nearmetal.run.resource_readback import Allotment, PlacedMachine
from nearmetal.units import show_share

_LONGEST_EXPLAINING = 1.0
"""Seconds that a lost machine is waited for, to know why."""
_LONGEST_WORDS = 300
"""Characters of a kernel's line that are told."""
_MOST_STALLED = 0.05
"""Share of the time in which all of a machine's programs wait for memory: a twentieth is missing from all figures."""


@dataclass(frozen=True)
class Outside:
    is_up: bool
    has_carrier: bool
    master: str | None
    addresses: tuple[str, ...]
    changes: int | None
    """How often its carrier came or went; None if this `ip` does not tell."""


Switches = Mapping[tuple[str, str], Mapping[str, Outside]]
"""By host and network namespace, the interfaces by their names."""


@dataclass(frozen=True)
class LivenessReading:
    inside: tuple[MachineState, ...]
    """Of servers, then clients."""
    outside: Switches = field(default_factory=dict)


@dataclass
class Liveness:
    """What was laid and last seen of the machines of a boot."""

    stage: Stage
    handles: Mapping[str, Handle]
    laid: LivenessReading
    """At the end of their boot: how it is to stay."""
    seen: LivenessReading
    """After the trial before: counters go on from there."""
    given: Allotment
    """At the end of their boot."""
    allotted: Allotment
    """After the trial before."""
    warnings: list[Warned] = field(default_factory=list)
    """Of what was short, though nothing died of it, when they were last looked at."""

    @classmethod
    async def start_watching(
        cls, stage: Stage, handles: Sequence[Handle], placed: Sequence[PlacedMachine]
    ) -> "Liveness":
        """MachineLost, HostCannot."""
        by_name = {handle.name: handle for handle in handles}
        seen = LivenessReading(await _read_inside(stage, by_name), await _read_switches(stage))
        given = resource_readback.combine(placed, await resource_readback.read_sites(placed), seen.inside)
        return cls(stage, by_name, seen, seen, given, given)

    async def read_clocks(self) -> tuple[MachineState, ...]:
        """What the clocks of servers, then of clients, tell now. MachineLost."""
        return await read_clocks(self.machines, _find_first_processes(self.machines, self.handles))

    async def find_faults(self) -> list[Fault]:
        """What has happened to them since the trial before. MachineLost, HostCannot."""
        placed = self.given.placed
        inside, outside, from_sites = await asyncio.gather(
            _read_inside(self.stage, self.handles), _read_switches(self.stage), resource_readback.read_sites(placed)
        )
        seen, allotted = LivenessReading(inside, outside), resource_readback.combine(placed, from_sites, inside)
        faults = [*judge_readings(self.machines, self.laid, self.seen, seen), *find_kills(self.allotted, allotted)]
        self.warnings = [*find_stalls(self.machines, self.seen, seen, self.allotted, allotted)]
        self.seen, self.allotted = seen, allotted
        return [await self._ask_kernel(fault) if fault.machine else fault for fault in faults]

    async def wait_lost(self) -> MachineLost:
        """Return as soon as one of the machines counts as lost, without asking them anything; why."""
        machines = [one for one in self.machines if isinstance(one, Losable)]
        if not machines:
            await asyncio.Event().wait()
        waiting = [asyncio.ensure_future(one.wait_lost()) for one in machines]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for one in waiting:
                one.cancel()

    async def explain_lost(self, seen: MachineLost) -> MachineLost:
        """What a lost machine itself knows of it, which may come a moment later than what was seen of it; else what
        its host's kernel says."""
        machine = next((one for one in self.machines if one.name == seen.where), None)
        if machine is None:
            return seen
        if isinstance(machine, Losable):
            with contextlib.suppress(MachineLost, TimeoutError):
                seen = await asyncio.wait_for(machine.wait_lost(), _LONGEST_EXPLAINING)
        if not (words := await self._find_killing(machine)):
            return seen
        cause = Cause.CLIENT_OUT_OF_MEMORY if machine.role == "client" else Cause.OUT_OF_MEMORY
        return MachineLost(f"{seen.what}; it had no memory left: {words}", seen.where, cause=cause)

    async def _find_killing(self, machine: Machine) -> str:
        """The kernel's words of what it killed in a machine's control group since it was last seen; "" if nothing."""
        limits = dict(zip((one.handle.name for one in self.allotted.placed), self.allotted.limits, strict=True))
        clock = self.seen.inside[self.machines.index(machine)].clock
        its = limits.get(machine.name)
        if its is None or clock is None or clock.uptime is None:
            return ""
        try:
            log = (await machine.site.exec(["dmesg"])).text
        except NearmetalError:
            return ""
        groups = sorted({folder.rsplit("/", 1)[1] for folder in its.kills})
        return next((words for group in groups if (words := find_last_kill(log, group, clock.uptime))), "")

    async def _ask_kernel(self, fault: Fault) -> Fault:
        """The fault with the kernel's own words added, if the kernel lets us read them."""
        machine = next(one for one in self.machines if one.name == fault.machine)
        where: Commands = machine.site if fault.group else machine
        try:
            log = (await where.exec(["dmesg"])).text
        except NearmetalError:
            return fault
        words = find_last_kill(log, fault.group)
        return replace(fault, reason=f"{fault.reason}: {words}") if words else fault

    @property
    def machines(self) -> tuple[Machine, ...]:
        return (*self.stage.servers, *self.stage.clients)


async def _read_inside(stage: Stage, handles: Mapping[str, Handle]) -> tuple[MachineState, ...]:
    machines = (*stage.servers, *stage.clients)
    return await read_states(machines, _find_first_processes(machines, handles))


def _find_first_processes(machines: Sequence[Machine], handles: Mapping[str, Handle]) -> dict[str, int]:
    """By name, of those that share their host's kernel."""
    known = [handles[machine.name] for machine in machines if machine.name in handles]
    lives = {handle.name: handle.life for handle in known if handle.hardware is None}
    return {name: life.pid for name, life in lives.items() if isinstance(life, ProcessId)}


async def _read_switches(stage: Stage) -> Switches:
    namespaces = {
        (machine.site.name, machine.peer.partition("/")[0]): machine.site
        for machine in (*stage.servers, *stage.clients)
        if machine.peer is not None
    }
    found = await asyncio.gather(*(_read_outside(site, name) for (_, name), site in namespaces.items()))
    return dict(zip(namespaces, found, strict=True))


async def _read_outside(site: Site, namespace: str) -> Mapping[str, Outside]:
    try:
        ended = await site.exec(["ip", "-netns", namespace, "-s", "-s", "-json", "address", "show"])
        return parse_interfaces(ended.text)
    except MachineLost:
        raise
    except (NearmetalError, *MALFORMED):
        return {}


def parse_interfaces(text: str) -> dict[str, Outside]:
    """From what `ip -s -s -json address show` prints. Pure. Raises what `MALFORMED` names."""
    return {
        one["ifname"]: Outside(
            is_up="UP" in one["flags"],
            has_carrier="LOWER_UP" in one["flags"] and "NO-CARRIER" not in one["flags"],
            master=one.get("master"),
            addresses=tuple(sorted(f"{each['local']}/{each['prefixlen']}" for each in one.get("addr_info", ()))),
            changes=one.get("stats64", {}).get("tx", {}).get("carrier_changes"),
        )
        for one in json.loads(text)
        if one
    }


def judge_readings(
    machines: Sequence[Machine], laid: LivenessReading, before: LivenessReading, after: LivenessReading
) -> list[Fault]:
    """What is not as it was laid, and what has happened since `before`, by the machines in their order. Pure."""
    readings = zip(laid.inside, before.inside, after.inside, strict=True)
    faults = [
        fault
        for machine, (first, last, now) in zip(machines, readings, strict=True)
        for fault in _judge_inside(machine, machines, first.lines, last.lines, now.lines)
    ]
    for (host, name), interfaces in laid.outside.items():
        last_seen, found = before.outside.get((host, name), {}), after.outside.get((host, name), {})
        for interface, was in interfaces.items():
            if (what := _describe_cut(was, last_seen.get(interface), found.get(interface))) is not None:
                owner = next((one for one in machines if one.peer == f"{name}/{interface}"), None)
                whose = f", which leads to the {owner.role} {owner.name}," if owner else ""
                faults.append(Fault(Cause.LINK_BROKEN, f"the interface {interface} of {name}{whose} {what}"))
    return faults


def _describe_cut(was: Outside, last: Outside | None, now: Outside | None) -> str | None:
    if now is None:
        return "is gone"
    if was.is_up and not now.is_up:
        return "was set down"
    if was.has_carrier and not now.has_carrier:
        return "has no carrier"
    if now.master != was.master:
        return f"hangs on {now.master} instead of {was.master}"
    if not set(was.addresses) <= set(now.addresses):
        return f"has lost an address: {', '.join(sorted(set(was.addresses) - set(now.addresses)))}"
    if last is not None and None not in (last.changes, now.changes) and now.changes != last.changes:
        return "lost its carrier, and has it again"
    return None


def _judge_inside(
    machine: Machine, others: Sequence[Machine], laid: Lines | None, before: Lines | None, after: Lines | None
) -> Iterator[Fault]:
    if laid is None or before is None or after is None:
        return
    whose = f"the {machine.role} {machine.name}"
    is_client = machine.role == "client"
    if BOOT in before and before[BOOT] != after.get(BOOT):
        cause = Cause.CLIENT_LOST if is_client else Cause.MACHINE_RESTARTED
        yield Fault(cause, f"{whose} has booted anew by itself")
        return
    if kills := _count_kills(after) - _count_kills(before):
        cause = Cause.CLIENT_OUT_OF_MEMORY if is_client else Cause.OUT_OF_MEMORY
        yield Fault(cause, describe_kills(kills, whose), machine.name)
    for what in _find_cuts(machine, others, laid, before, after):
        yield Fault(Cause.LINK_BROKEN, f"the network of {whose} is not as it was: {what}")


def _find_cuts(machine: Machine, others: Sequence[Machine], laid: Lines, before: Lines, after: Lines) -> Iterator[str]:
    card = f"/sys/class/net/{machine.interface}"
    for path in (f"{card}/operstate", f"{card}/carrier"):
        if path in laid and after.get(path) != laid[path]:
            yield f"{machine.interface} is {after.get(path, ('down',))[0]} instead of {laid[path][0]}"
    changes = f"{card}/carrier_changes"
    if changes in before and after.get(changes) != before[changes]:
        yield f"{machine.interface} lost its carrier, and has it again"
    if _has_address(laid, machine.address) and not _has_address(after, machine.address):
        yield f"has lost its address {machine.address}"
        return  # and with it the ways from there
    for other in others:
        was, now = (find_way(lines, other.address) for lines in (laid, after))
        if other.name != machine.name and was != now and was is not None:
            yield f"its way to the {other.role} {other.name} was {was} and is {now or 'none'}"


def _find_lines(lines: Lines, name: str) -> tuple[str, ...]:
    return next((one for path, one in lines.items() if path.endswith(f"/net/{name}")), ())


def _has_address(lines: Lines, address: str) -> bool:
    return f"|-- {address}" in _find_lines(lines, "fib_trie")


_LOST, _USED = 0x200, 0x1
"""RTF_REJECT and RTF_UP of a route's flags."""


def find_way(lines: Lines, address: str) -> str | None:
    """By which route a packet to this address goes, as /proc/net/route has it; None if there is none. Pure.

    The longest prefix wins, and among equals the lowest metric. Rules of policy routing are not read.
    """
    if not address or not _find_lines(lines, "route"):
        return None
    ways = []
    for line in _find_lines(lines, "route"):
        interface, destination, gateway, flags, _, _, metric, mask, *_ = line.split()
        to, by, bits = (int.from_bytes(bytes.fromhex(word), "little") for word in (destination, gateway, mask))
        if int(flags, 16) & _USED and int(IPv4Address(address)) & bits == to:
            name = "to nowhere" if int(flags, 16) & _LOST else f"by {interface}"
            ways.append((-bits, int(metric), f"{name}{f' and {IPv4Address(by)}' if by else ''}"))
    return min(ways)[2] if ways else None


def _count_kills(lines: Lines) -> int:
    words = lines.get(VMSTAT, ("oom_kill 0",))[0].split()
    return int(words[1]) if len(words) == 2 and words[1].isdigit() else 0


def find_stalls(
    machines: Sequence[Machine], before: LivenessReading, after: LivenessReading, given: Allotment, now: Allotment
) -> Iterator[Warned]:
    """Machines all of whose programs waited for memory, as pressure tells: of their own kernels, else of their groups.
    Pure."""
    groups = {
        placed.handle.name: _count_since(was.stalled_us, has.stalled_us)
        for placed, was, has in zip(now.placed, given.limits, now.limits, strict=True)
        if was is not None and has is not None
    }
    for machine, was, has in zip(machines, before.inside, after.inside, strict=True):
        if was.clock is None or has.clock is None:
            continue
        seconds = has.clock.asked - was.clock.asked
        own = _count_stalled(has.lines) - _count_stalled(was.lines)
        stalled = max(own, groups.get(machine.name, 0)) / 1e6
        if seconds > 0 and stalled > _MOST_STALLED * seconds:
            share = show_share(min(1.0, stalled / seconds), 1)
            text = f"all programs of the {machine.role} {machine.name} waited for memory for {share} of the time"
            yield Warned(code="memory-pressure", text=text)


def _count_stalled(lines: Lines | None) -> int:
    """Microseconds so far."""
    total = (lines or {}).get(PRESSURE, ("total=0",))[0].rpartition("total=")[2]
    return int(total) if total.isdigit() else 0


def describe_kills(kills: int, whose: str) -> str:
    processes = "a process" if kills == 1 else f"{kills} processes"
    return f"the kernel killed {processes} of {whose}, which had no memory left"


def find_last_kill(log: str, group: str, since: float = 0.0) -> str:
    """The kernel's words of the last process that it killed for its memory, in this control group or, if that is empty,
    anywhere; "" if it has none. `since`: seconds of its uptime. Pure."""
    found, is_meant = "", False
    for line in log.splitlines():
        if "oom-kill:" in line:  # which names the group; the line after it names the process
            is_meant = not group or f"/{group}," in line
        elif "Killed process" in line and is_meant and _read_stamp(line) >= since:
            found = line.partition("] ")[2] or line
    return found[:_LONGEST_WORDS]


def _read_stamp(line: str) -> float:
    """0 of a log that does not tell when."""
    stamp = re.match(r"\[ *([0-9]+\.[0-9]+)\]", line)
    return float(stamp[1]) if stamp else 0.0


def find_kills(before: Allotment, after: Allotment) -> list[Fault]:
    """What the kernel killed or refused between two readings, as the control groups of the machines tell. Pure."""
    faults = []
    for placed, earlier, later in zip(before.placed, before.limits, after.limits, strict=True):
        role = placed.handle.role or "machine"
        if earlier is None or later is None or role == "neighbour":  # which is asked for itself
            continue
        whose = f"the {role} {placed.handle.name}"
        if kills := _count_since(earlier.kills, later.kills):
            cause = Cause.CLIENT_OUT_OF_MEMORY if role == "client" else Cause.OUT_OF_MEMORY
            group = next(one for one, count in later.kills.items() if count > earlier.kills.get(one, 0))
            faults.append(Fault(cause, describe_kills(kills, whose), placed.handle.name, group.rsplit("/", 1)[1]))
        if refused := _count_since(earlier.refused, later.refused):
            text = f"{whose} may have no more processes: {refused} could not be started"
            faults.append(Fault(Cause.CLIENT_LOST if role == "client" else Cause.OUT_OF_PROCESSES, text))
        if any(later.frozen.values()):
            faults.append(Fault(Cause.STOOD_STILL, f"{whose} stands still: its control group is frozen"))
        elif frozen := _count_since(earlier.frozen_us, later.frozen_us):
            text = f"{whose} stood still for {frozen / 1e6:.1f} s: its control group was frozen"
            faults.append(Fault(Cause.STOOD_STILL, text))
    return faults


def _count_since(before: Mapping[str, int], after: Mapping[str, int]) -> int:
    return sum(max(0, count - before.get(folder, 0)) for folder, count in after.items())
