"""Equal kernels: the sysctls of a boot's servers and clients, set where they are ours to set, and read back.

What belongs to a network namespace is set in the namespaces of machines of ours, what belongs to a kernel in guests of
ours alone. A kernel that others share is read and never written. On machines of the user's only what the study itself
names is set: by [kernel.sysctl] or by a factor.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from nearmetal.lab.changes import congestion
from nearmetal.lab.changes.congestion import NetworkOwner
from nearmetal.lab.lab import Lab
from nearmetal.lab.machines import kernel
from nearmetal.lab.stage import LabStage
from nearmetal.model import Change, Description, Handle, KernelTable, Machine, Readback, Resolved, Warned

Reach = Literal["kernel", "namespace", "nothing"]
"""What of a machine can be set: all that its kernel has, what its network namespace has, or nothing."""

_NOT_THERE = "not there"


@dataclass(frozen=True)
class MachineKernel:
    machine: Machine
    reach: Reach
    aligned: Mapping[str, str]
    """By the table, as far as it can be set here."""
    asked: Mapping[str, str]
    """By the study: without these the trial is invalid."""


@dataclass(frozen=True)
class Kernels:
    """The machines of a boot whose sysctls are read back."""

    machines: Sequence[MachineKernel]
    names: Sequence[str]
    """All that are read, those that are only reported too."""
    held: Mapping[str, Mapping[str, str]]
    """By machine: what each trial must still find."""
    routed: Set[str] = frozenset()
    """Names of machines whose congestion control is that of their routes, whatever the sysctl says."""

    async def verify(self) -> Readback:
        """Whether each machine still has what it had when the boot began. MachineLost."""
        found = await read_sysctls([one.machine for one in self.machines], self.names, self.routed)
        problems = [
            f"{name} on the {one.machine.role} is {found[one.machine.name].get(name, _NOT_THERE)}, not {value}"
            for one in self.machines
            for name, value in self.held[one.machine.name].items()
            if found[one.machine.name].get(name) != value
        ]
        return Readback(ok=not problems, reason="; ".join(dict.fromkeys(problems)))


NO_KERNELS = Kernels((), (), {})


async def align_kernels(
    table: KernelTable | None,
    resolved: Resolved,
    handles: Mapping[str, Handle],
    lab: Lab,
    stage: LabStage,
    taken: Set[tuple[str, str]],
) -> tuple[Kernels, Readback]:
    """Set and read back. Not ok if a value that the study asks for is not there.

    `handles` are those of the machines, by name. `taken`: machine and sysctl of what treatments set themselves, which
    the table leaves to them.
    """
    wanted = [
        _plan_machine(machine, handles[machine.name], table, resolved, taken)
        for machine in (*stage.servers, *stage.clients)
    ]
    in_table = [one.name for one in table.values] if table else []
    names = list(dict.fromkeys([*in_table, *resolved.sysctls]))
    if not names:
        return NO_KERNELS, Readback()
    machines = [one.machine for one in wanted]
    before = await read_sysctls(machines, names)
    changes = [change for one in wanted for change in _find_changes(one, before[one.machine.name])]
    applied = await lab.apply(changes)
    found = await read_sysctls(machines, names) if changes else before
    routed = await _route_congestion(wanted, found, lab)
    found = await read_sysctls(machines, names, routed) if routed else found
    held = {one.machine.name: _find_held(one, found[one.machine.name]) for one in wanted}
    problems = [problem for one in wanted for problem in _find_problems(one, found[one.machine.name])]
    refused = [*applied.refused, *(warned.text for warned in applied.warnings)]
    readback = Readback(
        values=_show_by_role(machines, found, names),
        ok=not problems,
        reason="; ".join([*dict.fromkeys(problems), *list_left(applied.refused, routed)]),
        warnings=tuple(_warn_of_kernels(wanted, found, refused)),
    )
    return Kernels(wanted, names, held, routed), readback


def list_left(refused: Sequence[str], routed: Set[str]) -> list[str]:
    """What was refused, but for the congestion control that routes name instead."""
    return [text for text in refused if congestion.SYSCTL not in text or text.partition(":")[0] not in routed]


async def _route_congestion(
    wanted: Iterable[MachineKernel], found: Mapping[str, Mapping[str, str]], lab: Lab
) -> frozenset[str]:
    """Have routes name the congestion control that a namespace may not set; the machines that have it now."""
    changes = []
    for one in wanted:
        value = {**one.aligned, **one.asked}.get(congestion.SYSCTL)
        actual = found[one.machine.name].get(congestion.SYSCTL)
        is_refused = None not in (value, actual) and value != actual
        if is_refused and one.reach == "namespace" and isinstance(one.machine, NetworkOwner):
            target = one.machine.interface
            changes.append(
                Change(on=one.machine.name, kind="congestion", target=target, after=str(value), required=False)
            )
    refused = (await lab.apply(changes)).warnings if changes else ()
    return frozenset(one.on for one in changes if not any(warned.text.startswith(f"{one.on}:") for warned in refused))


def _plan_machine(
    machine: Machine, handle: Handle, table: KernelTable | None, resolved: Resolved, taken: Set[tuple[str, str]]
) -> MachineKernel:
    description = (resolved if machine.role == "server" else resolved.clients).environment.description
    is_ours = is_of_study(machine, description)
    reach = find_reach(machine, description, handle)
    asked = resolved.sysctls
    aligned = {
        one.name: one.value
        for one in (table.values if table and is_ours else ())
        if reach == "kernel" or (reach == "namespace" and one.scope == "namespace")
        if one.name not in asked and (machine.name, one.name) not in taken
    }
    return MachineKernel(machine, reach, aligned, asked)


def is_of_study(machine: Machine, description: Description) -> bool:
    """Whether it was made for the study, and is no machine of the user's. Pure."""
    return machine.owned and not description.is_reached_from_outside


def find_reach(machine: Machine, description: Description, handle: Handle) -> Reach:
    """What can be set in a machine without a change of anything else. Pure."""
    if description.kernel == "emulated":
        return "nothing"
    # A machine that is a host of its own shares a kernel with nobody; what is set there the study itself names.
    if description.placement == "host" or not kernel.is_its_hosts(machine):
        return "kernel"
    # Without a port it has the network of its host, which is not the study's.
    return "namespace" if handle.port is not None else "nothing"


async def read_sysctls(
    machines: Sequence[Machine], names: Sequence[str], routed: Set[str] = frozenset()
) -> dict[str, dict[str, str]]:
    """By machine: those of the names that it has, with single spaces. Of the `routed`, what their routes name."""
    if not names:
        return {machine.name: {} for machine in machines}
    found = await asyncio.gather(*(_read(machine, names) for machine in machines))
    for machine, values in zip(machines, found, strict=True):
        if machine.name in routed and isinstance(machine, NetworkOwner):
            values[congestion.SYSCTL] = await congestion.read(machine, machine.interface) or _NOT_THERE
    return {machine.name: values for machine, values in zip(machines, found, strict=True)}


async def _read(machine: Machine, names: Sequence[str]) -> dict[str, str]:
    argv = ["sysctl", *names]
    # A container's own programs may lack sysctl.
    if isinstance(machine, NetworkOwner) and kernel.is_its_hosts(machine):
        return parse_sysctls((await machine.exec_in_network(argv)).text)
    return parse_sysctls((await machine.exec(argv)).text)


def parse_sysctls(text: str) -> dict[str, str]:
    """What `sysctl NAME...` prints: "NAME = VALUE" a line."""
    lines = (line.partition("=") for line in text.splitlines())
    return {name.strip(): " ".join(value.split()) for name, equals, value in lines if equals}


def _find_changes(one: MachineKernel, found: Mapping[str, str]) -> Iterable[Change]:
    if one.reach == "nothing":
        return
    for values, required in ((one.aligned, False), (one.asked, True)):
        for name, value in values.items():
            # One that is not there is no difference between kernels that alignment could mend.
            if name in found and found[name] != value:
                yield Change(on=one.machine.name, kind="sysctl", target=name, after=value, required=required)


def _find_held(one: MachineKernel, found: Mapping[str, str]) -> dict[str, str]:
    wanted = {**one.aligned, **one.asked}
    return {name: value for name, value in wanted.items() if found.get(name) == value}


def _find_problems(one: MachineKernel, found: Mapping[str, str]) -> Iterable[str]:
    for name, value in one.asked.items():
        if name not in found:
            yield f"the {one.machine.role} has no sysctl {name}: correct the name, or load the module that brings it"
        elif found[name] != value:
            where = f"the {one.machine.role} has {name} = {found[name]}, not {value}"
            if one.reach == "nothing":
                yield f"{where}: it has the network of its host, where nothing is set; set it there by hand"
            else:
                yield f"{where}: {' or '.join(['choose a value that its kernel takes there', *_find_remedy(name)])}"


def _find_remedy(name: str) -> tuple[str, ...]:
    if name != congestion.SYSCTL:
        return ()
    return ("add it to net.ipv4.tcp_allowed_congestion_control on the host",)


def _warn_of_kernels(
    wanted: Iterable[MachineKernel], found: Mapping[str, Mapping[str, str]], refused: Sequence[str]
) -> Iterable[Warned]:
    """Once a value and a role, whatever the machines are called."""
    texts: dict[str, None] = {}
    for one in wanted:
        for name, value in one.aligned.items():
            actual = found[one.machine.name].get(name)
            if actual is not None and actual != value and any(name in text for text in refused):
                kept = f"the {one.machine.role} keeps {name} = {actual}, because its kernel refuses {value} there"
                texts["; ".join([kept, *_find_remedy(name)])] = None
    yield from (Warned(code="change-refused", text=text) for text in texts)


def _show_by_role(
    machines: Iterable[Machine], found: Mapping[str, Mapping[str, str]], names: Iterable[str]
) -> dict[str, dict[str, str]]:
    """By role and sysctl: the value, or the values that there are, without those that no machine of the role has."""
    roles: dict[str, list[Mapping[str, str]]] = {}
    for machine in machines:
        roles.setdefault(machine.role, []).append(found[machine.name])
    told: dict[str, dict[str, str]] = {}
    for role, values in roles.items():
        told[role] = {}
        for name in names:
            there = [one.get(name, _NOT_THERE) for one in values]
            if set(there) != {_NOT_THERE}:
                told[role][name] = " | ".join(dict.fromkeys(there))
    return told
