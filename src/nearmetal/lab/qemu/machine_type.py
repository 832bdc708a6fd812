"""The machine type that a study names: whether QEMU has it, a guest's devices fit, and one boots on it."""

import difflib
from collections.abc import Sequence

from nearmetal.lab import machine_image
from nearmetal.lab.host_checks import finding
from nearmetal.model import Finding, MachineSpec, Site

from . import accelerator, arguments

_REMEDY = f'set machine.board = "{arguments.MACHINE}", or leave it out'


async def check_machine_type(machine_type: str, machine: MachineSpec, accel: str, site: Site) -> list[Finding]:
    """Of the default nothing is in question: the accelerator was seen to boot a guest on it."""
    program = machine.vmm or arguments.PROGRAM
    if machine_type == arguments.MACHINE and program == arguments.PROGRAM:
        return []
    what = f"machine type {machine_type}"
    known = await accelerator.list_machine_types(site, program)
    if machine_type not in known:
        near = difflib.get_close_matches(machine_type, known, n=1)
        remedy = f"set it to {near[0] if near else arguments.MACHINE!r}; `{program} -machine help` lists all"
        return [Finding(what=what, ok=False, detail="this QEMU does not have it", remedy=remedy)]
    problem = await _misfit(machine_type, machine, site)
    if problem or machine.brings_image:
        return [finding(what, problem is None, problem or "", _REMEDY)]
    image = machine_image.find_image(machine.image)
    proof = await accelerator.find_proof(accel, image, site, machine_type, program)
    return [Finding(what=what, ok=proof.works, detail=proof.detail, remedy="" if proof.works else _REMEDY)]


async def check_express(machine_type: str, site: Site) -> Finding:
    """Whether it has PCI Express, where guests made by libvirt have their control network."""
    refused = await try_devices(arguments.PROGRAM, machine_type, [f"{arguments.RNG},bus={arguments.EXPRESS}"], site)
    return finding(f"machine type {machine_type}", refused is None, "it has no PCI Express", _REMEDY)


async def _misfit(machine_type: str, machine: MachineSpec, site: Site) -> str | None:
    """Which of a guest's devices does not fit such a machine."""
    program = machine.vmm or arguments.PROGRAM
    if await try_devices(program, machine_type, [arguments.RNG], site) is not None:
        return "it has no PCI bus, on which a guest's devices are"
    refused = await try_devices(program, machine_type, [f"{arguments.name_device(machine.nic)},romfile="], site)
    return None if refused is None else f"it has no place for the NIC {machine.nic}: {refused}"


async def try_devices(
    program: str, machine_type: str, devices: Sequence[str], site: Site, more: Sequence[str] = ()
) -> str | None:
    """What a QEMU says that is to have these devices and arguments and nothing else; None when it starts."""
    bare = ("-no-user-config", "-nodefaults", "-display", "none", "-machine", arguments.machine_option(machine_type))
    asked = [word for device in devices for word in ("-device", device)]
    ended = await site.exec([program, *bare, *asked, *more, "-S", "-monitor", "stdio"], stdin=b"quit\n")
    if ended.status == 0:
        return None
    return ended.complaint.rpartition(": ")[2] if not more else ended.complaint[-300:]
