"""Are the machines of a trial, and the way between them, still what they were when their boot was verified?

Read once when the boot is verified and once after each measurement, never meanwhile: by one command for each machine
with a kernel of its own, and two for each host. The kernel counts what it killed and how often a carrier came or went,
so that what was cut and mended within a measurement is seen as well.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nearmetal.errors import MALFORMED, MachineLost, NearmetalError
from nearmetal.model import Cause, Commands, Handle, Machine, ProcessId, Site, Stage
from nearmetal.run.allotment import Allotment
from nearmetal.run.allotment import read as read_allotment
from nearmetal.run.blame import Fault

_BOOT, _VMSTAT = "/proc/sys/kernel/random/boot_id", "/proc/vmstat"
_CARRIER = ("operstate", "carrier", "carrier_changes")

_NOT_THERE = 126
"""Statuses from here on are those of a program that did not start. With 1 or 2 `grep` found nothing, or not every file.
"""
_LONGEST_WORDS = 300
"""Characters of a kernel's line that are told."""

Lines = Mapping[str, tuple[str, ...]]
"""Of files, by their paths, the lines that were asked for."""


@dataclass(frozen=True)
class Outside:
    """An interface on a switch."""

    is_up: bool
    has_carrier: bool
    master: str | None
    addresses: tuple[str, ...]
    changes: int | None
    """How often its carrier came or went; None if this `ip` does not tell."""


@dataclass(frozen=True)
class Reading:
    inside: tuple[Lines | None, ...]
    """Of servers, then clients; None for one that cannot be asked."""
    outside: Mapping[tuple[str, str], Mapping[str, Outside]]
    """By host and network namespace."""


@dataclass
class Liveness:
    """What was last seen of the machines of a boot."""

    stage: Stage
    handles: Mapping[str, Handle]
    allotted: Allotment
    seen: Reading = field(default_factory=lambda: Reading((), {}))

    @classmethod
    async def begin(cls, stage: Stage, handles: Sequence[Handle], allotted: Allotment) -> "Liveness":
        """MachineLost."""
        liveness = cls(stage, {handle.name: handle for handle in handles}, allotted)
        liveness.seen = await liveness._read()
        return liveness

    async def find_faults(self) -> list[Fault]:
        """What has happened to them since they were last looked at. MachineLost, HostCannot."""
        seen, allotted = await asyncio.gather(self._read(), read_allotment(self.stage, self.allotted.placed))
        faults = [*judge(self.machines, self.seen, seen), *find_kills(self.allotted, allotted)]
        self.seen, self.allotted = seen, allotted
        return [await self._ask_kernel(fault) if fault.machine else fault for fault in faults]

    async def _ask_kernel(self, fault: Fault) -> Fault:
        """The same with the kernel's own words, if it lets us read them."""
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

    async def _read(self) -> Reading:
        namespaces = {
            (machine.site.name, machine.peer.partition("/")[0]): machine.site
            for machine in self.machines
            if machine.peer is not None
        }
        inside, outside = await asyncio.gather(
            self._read_inside(),
            asyncio.gather(*(_read_outside(site, name) for (_, name), site in namespaces.items())),
        )
        return Reading(inside, dict(zip(namespaces, outside, strict=True)))

    async def _read_inside(self) -> tuple[Lines | None, ...]:
        own = [machine for machine in self.machines if self._first_process(machine) is None]
        shared = [machine for machine in self.machines if self._first_process(machine) is not None]
        sites = {machine.site.name: machine.site for machine in shared}
        of_own = await asyncio.gather(*(_grep(machine, _paths(machine), machine) for machine in own))
        of_sites = await asyncio.gather(*(self._read_on_site(site, shared) for site in sites.values()))
        found = {machine.name: lines for machine, lines in zip(own, of_own, strict=True)}
        for lines in of_sites:
            found |= lines
        return tuple(found[machine.name] for machine in self.machines)

    async def _read_on_site(self, site: Site, machines: Sequence[Machine]) -> dict[str, Lines | None]:
        """Of machines that share their host's kernel: to begin a command in one may take longer than all the rest."""
        here = [machine for machine in machines if machine.site.name == site.name]
        folders = {machine.name: f"/proc/{self._first_process(machine)}/net/" for machine in here}
        paths = [folder + name for folder in folders.values() for name in ("fib_trie", "route")]
        lines = await _grep(site, paths, *here)
        return {
            name: None if lines is None else {path: one for path, one in lines.items() if path.startswith(folder)}
            for name, folder in folders.items()
        }

    def _first_process(self, machine: Machine) -> int | None:
        handle = self.handles.get(machine.name)
        return handle.life.pid if handle is not None and isinstance(handle.life, ProcessId) else None


def _paths(machine: Machine) -> list[str]:
    card = f"/sys/class/net/{machine.interface}/"
    return [_BOOT, _VMSTAT, *(card + name for name in _CARRIER), "/proc/net/fib_trie", "/proc/net/route"]


async def _grep(where: Commands, paths: Sequence[str], *machines: Machine) -> Lines | None:
    """Of these files only lines that matter: a word alone, the count of kills, and where these machines' packets go."""
    addresses = "|".join(machine.address.replace(".", "[.]") for machine in machines)
    cards = "|".join(sorted({machine.interface.replace(".", "[.]") for machine in machines}))
    pattern = f"^[0-9a-z-]+$|^oom_kill |-- ({addresses})$|^({cards})[[:space:]]"
    try:
        ended = await where.exec(["grep", "-sHE", pattern, *paths])
    except MachineLost:
        raise
    except NearmetalError:
        return None
    return parse_lines(ended.text) if ended.status < _NOT_THERE else None


def parse_lines(text: str) -> Lines:
    """From what `grep -H` prints. Pure."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        path, colon, content = line.partition(":")
        if colon:
            words = content.split()
            # Of a route what it leads to: destination, gateway and mask.
            is_route = path.endswith("/route") and len(words) > 7
            kept = " ".join((words[1], words[2], words[7])) if is_route else content.strip()
            found.setdefault(path, []).append(kept)
    return {path: tuple(lines) for path, lines in found.items()}


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


def judge(machines: Sequence[Machine], before: Reading, after: Reading) -> list[Fault]:
    """What has happened between two readings, by the machines in their order. Pure."""
    faults = [
        fault for place in zip(machines, before.inside, after.inside, strict=True) for fault in _judge_inside(*place)
    ]
    for (host, name), interfaces in before.outside.items():
        found = after.outside.get((host, name), {})
        for interface, was in interfaces.items():
            if (what := _describe_cut(was, found.get(interface))) is not None:
                owner = next((one for one in machines if one.peer == f"{name}/{interface}"), None)
                whose = f", which leads to the {owner.role} {owner.name}," if owner else ""
                faults.append(Fault(Cause.LINK_BROKEN, f"the interface {interface} of {name}{whose} {what}"))
    return faults


def _describe_cut(was: Outside, now: Outside | None) -> str | None:
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
    if None not in (was.changes, now.changes) and now.changes != was.changes:
        return "lost its carrier, and has it again"
    return None


def _judge_inside(machine: Machine, before: Lines | None, after: Lines | None) -> Iterator[Fault]:
    if before is None or after is None:
        return
    whose = f"the {machine.role} {machine.name}"
    is_client = machine.role == "client"
    if _BOOT in before and before[_BOOT] != after.get(_BOOT):
        cause = Cause.CLIENT_LOST if is_client else Cause.MACHINE_RESTARTED
        yield Fault(cause, f"{whose} has booted anew by itself")
        return
    if kills := _count_kills(after) - _count_kills(before):
        cause = Cause.CLIENT_OUT_OF_MEMORY if is_client else Cause.OUT_OF_MEMORY
        yield Fault(cause, describe_kills(kills, whose), machine.name)
    for path, had in before.items():
        has = after.get(path, ())
        name = path.rsplit("/", 1)[1]
        if path in (_BOOT, _VMSTAT) or set(had) <= set(has):
            continue
        reasons = {
            "fib_trie": f"has lost its address {machine.address}",
            "route": "has lost a route",
            "carrier_changes": f"{machine.interface} lost its carrier, and has it again",
        }
        state = f"{machine.interface} is {(has or ('down',))[0]} instead of {had[0]}"
        yield Fault(Cause.LINK_BROKEN, f"the network of {whose} is not as it was: {reasons.get(name, state)}")


def _count_kills(lines: Lines) -> int:
    words = lines.get(_VMSTAT, ("oom_kill 0",))[0].split()
    return int(words[1]) if len(words) == 2 and words[1].isdigit() else 0


def describe_kills(kills: int, whose: str) -> str:
    processes = "a process" if kills == 1 else f"{kills} processes"
    return f"the kernel killed {processes} of {whose}, which had no memory left"


def find_last_kill(log: str, group: str) -> str:
    """The kernel's words of the last process that it killed for its memory, in this control group or, if that is empty,
    anywhere; "" if it has none. Pure."""
    found, is_meant = "", False
    for line in log.splitlines():
        if "oom-kill:" in line:  # which names the group; the line after it names the process
            is_meant = not group or f"/{group}," in line
        elif "Killed process" in line and is_meant:
            found = line.partition("] ")[2] or line
    return found[:_LONGEST_WORDS]


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
    return faults


def _count_since(before: Mapping[str, int], after: Mapping[str, int]) -> int:
    return sum(max(0, count - before.get(folder, 0)) for folder, count in after.items())
