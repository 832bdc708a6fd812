"""What a site lacks for a virtual machine that was asked for, found out before anything is made."""

import asyncio
import difflib

from nearmetal.config import Paths
from nearmetal.lab import machine as lab_machine
from nearmetal.lab import probe
from nearmetal.lab.cpus import layout
from nearmetal.lab.findings import enough_cpus, finding, programs, provided
from nearmetal.lab.image import Recipe
from nearmetal.lab.machines import share as shares
from nearmetal.lab.site import memory, must
from nearmetal.model import EnvironmentSpec, Finding, MachineSpec, Site
from nearmetal.units import show_size

from . import accelerator, arguments, machine_type, own_disk
from .accelerator import Proof

_TOOLS = {arguments.PROGRAM: "qemu-system-x86", "qemu-img": "qemu-utils", "ip": "iproute2", "taskset": "util-linux"}
"""Program to Debian package."""
LEAST_MEMORY = 128 * 2**20
"""Bytes. A guest's kernel keeps 46 MiB: with 112 MiB the smallest comes up too, with 96 its kernel panics."""
_OVERHEAD = 256 * 2**20
"""Bytes that QEMU is given beyond the guest's memory when it is asked whether there is enough."""


async def findings(spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
    """Everything in question. An accelerator is tried where nothing else is missing, and nothing is known of it yet."""
    user, tun, tools, free, available = await asyncio.gather(
        must(site, "id", "-u"),
        site.exec(["test", "-c", "/dev/net/tun"]),
        programs(site, _TOOLS),
        memory(site, "MemAvailable"),
        layout.usable(machine, site),
    )
    found = [
        finding("root", user.strip() == b"0", "taps and control groups take root", "run nearmetal as root"),
        *tools,
        provided("probe", probe.path),
        lab_machine.image_found(proving(machine)),
        *await own_disk.findings(machine, spec.provision, site),
        finding("/dev/net/tun", tun.status == 0, "there is no such device", "run: modprobe tun"),
        finding(
            f"{show_size(machine.memory)} of memory",
            machine.memory >= LEAST_MEMORY or machine.brings_image,
            f"no guest of the lab's image boots with less than {show_size(LEAST_MEMORY)}",
            f"set machine.memory to {show_size(LEAST_MEMORY)} or more",
        ),
        _memory(machine.memory, free),
        enough_cpus(machine.vcpus, len(available), ", and vCPUs that share one wait for each other"),
        finding(
            f"a {machine.disk_format} disk",
            machine.disk_format != "raw" or spec.provision != "restore",
            "a guest is restored on an overlay over its snapshot's disk, which a raw disk cannot be",
            'set machine.disk_format = "qcow2", or provision = "boot"',
        ),
        *await shares.findings(machine, site),
    ]
    if not all(one.ok for one in found):
        return found
    model, accelerators = await asyncio.gather(_cpu_model(machine, site), _accelerators(machine, site))
    found += [model, *accelerators]
    if not all(one.ok or not one.fatal for one in found):
        return found
    accel = "tcg" if await _emulates(machine, site) else "kvm"
    return [*found, *await machine_type.findings(spec.options.get("machine", arguments.MACHINE), machine, accel, site)]


def proving(spec: MachineSpec) -> str:
    """The image whose kernel is booted to see whether an accelerator works."""
    return Recipe().name if spec.brings_image else spec.image


def _memory(wanted: int, available: int) -> Finding:
    return finding(
        f"{wanted >> 20} MiB of memory",
        wanted + _OVERHEAD <= available,
        f"{available >> 20} MiB are available, and QEMU itself takes up to {_OVERHEAD >> 20}",
        "set machine.memory lower, or end something",
    )


async def _cpu_model(machine: MachineSpec, site: Site) -> Finding:
    """Whether QEMU knows it, and can have it with that accelerator: "host" is what only hardware can pass on."""
    known = ["max"] if machine.cpu_model == "max" else await accelerator.cpu_models(site)
    is_passed_on = machine.cpu_model == "host" and await _emulates(machine, site)
    near = difflib.get_close_matches(machine.cpu_model, known, n=1)
    return finding(
        f"CPU model {machine.cpu_model}",
        machine.cpu_model in known and not is_passed_on,
        "emulation has no such CPU" if is_passed_on else "this QEMU does not have it",
        f"set machine.cpu_model to {near[0] if near and not is_passed_on else 'max'!r}; "
        f"`{arguments.PROGRAM} -cpu help` lists all",
    )


async def _emulates(machine: MachineSpec, site: Site) -> bool:
    if machine.accel != "auto":
        return machine.accel == "tcg"
    return (await accelerator.best(lab_machine.image(proving(machine)), Paths.default().cache, site)).accel == "tcg"


async def _accelerators(machine: MachineSpec, site: Site) -> list[Finding]:
    """Boots a guest on each that is in question, unless it is known since the site booted."""
    image, cache = lab_machine.image(proving(machine)), Paths.default().cache
    offered = await accelerator.offered(site)
    if machine.accel != "auto":
        if machine.accel not in offered:
            remedy = f'set machine.accel to "auto", or one of: {", ".join(offered)}'
            return [Finding(what=machine.accel, ok=False, detail="this QEMU does not have it", remedy=remedy)]
        proof = await accelerator.proved(machine.accel, image, cache, site)
        return [_as_finding(proof, fatal=True)]
    proofs = [await accelerator.proved(name, image, cache, site) for name in accelerator.CANDIDATES if name in offered]
    return [_as_finding(proof, fatal=not any(other.works for other in proofs)) for proof in proofs]


def _as_finding(proof: Proof, *, fatal: bool) -> Finding:
    fallback = 'set machine.accel = "auto", which falls back to tcg (emulation)' if fatal else "tcg (emulation) is used"
    return Finding(
        what=f"{proof.accel} boots a guest",
        ok=proof.works,
        detail=proof.detail,
        remedy="" if proof.works else fallback,
        fatal=fatal,
    )
