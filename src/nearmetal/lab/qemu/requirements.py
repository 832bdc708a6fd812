"""What a site lacks for a virtual machine that was asked for, found out before anything is made."""

import asyncio
import difflib
import os
import socket

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot
from nearmetal.lab import cgroup, machine_image, probe, rootless
from nearmetal.lab.architecture import HERE, pc_alone
from nearmetal.lab.cpus import layout
from nearmetal.lab.host_checks import check_cpus, check_programs, check_provided, describe_place, finding
from nearmetal.lab.image import Recipe
from nearmetal.lab.image.transfer import Parts
from nearmetal.lab.local_site import read_memory, run_checked
from nearmetal.lab.machines import share as shares
from nearmetal.model import EnvironmentSpec, Finding, MachineSpec, Site
from nearmetal.units import show_size

from . import accelerator, arguments, cloud_image, kernel_override, machine_type
from .accelerator import BootProof
from .guest import LOOPBACK

_TOOLS = {"qemu-img": "qemu-utils", "ip": "iproute2", "taskset": "util-linux"}
"""Program to Debian package."""
LEAST_MEMORY = 128 * 2**20
"""Bytes. A guest's kernel keeps 46 MiB: with 112 MiB the smallest comes up too, with 96 its kernel panics."""
_LIST_ALL = f"`man {arguments.PROGRAM}` lists all"
_OVERHEAD = 256 * 2**20
"""Bytes that QEMU is given beyond the guest's memory when it is asked whether there is enough."""


async def check_guest(spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
    """Everything in question. An accelerator is tried where nothing else is missing, and nothing is known of it yet."""
    user, tun, tools, free, available = await asyncio.gather(
        run_checked(site, "id", "-u"),
        site.exec(["test", "-c", "/dev/net/tun"]),
        check_programs(site, _TOOLS if machine.vmm else {arguments.PROGRAM: HERE.qemu_package, **_TOOLS}),
        read_memory(site, "MemAvailable"),
        layout.find_usable(machine, site),
    )
    found = [
        rootless.find_root(user.decode().strip(), "machines cannot be made"),
        *tools,
        check_provided("probe", probe.path),
        machine_image.check_image(choose_proving_image(machine)),
        *await _vmm(machine, site),
        *await _kernel(machine, site),
        *await cloud_image.check_image(machine, spec.provision, site),
        finding("/dev/net/tun", tun.status == 0, "there is no such device", "run: modprobe tun"),
        finding(
            f"{show_size(machine.memory)} of memory",
            machine.memory >= LEAST_MEMORY or machine.brings_image,
            f"no guest of the lab's image boots with less than {show_size(LEAST_MEMORY)}",
            f"set machine.memory to {show_size(LEAST_MEMORY)} or more",
        ),
        finding(
            f"{machine.memory >> 20} MiB of memory",
            machine.memory + _OVERHEAD <= free,
            f"{free >> 20} MiB are available, and QEMU itself takes up to {_OVERHEAD >> 20}",
            "set machine.memory lower, or end something",
        ),
        check_cpus(machine.vcpus, len(available), ", and vCPUs that share one wait for each other"),
        finding(
            f"a {machine.disk_format} disk",
            machine.disk_format != "raw" or spec.provision != "restore",
            "a guest is restored on an overlay over its snapshot's disk, which a raw disk cannot be",
            'set machine.disk_format = "qcow2", or provision = "boot"',
        ),
        pc_alone("a restored guest", spec.provision == "restore", 'set provision = "boot"'),
        pc_alone(f"machine.kernel {machine.kernel}", machine.kernel is not None, "leave it out"),
        pc_alone(f"machine.disk {machine.disk}", machine.disk == "ide", 'set machine.disk = "virtio-blk"'),
        pc_alone(f"image {machine.image}", machine.brings_image, "make it an image of nearmetal's: image build --from"),
        *await shares.check_share(machine, site),
        rootless.find_quota(machine) if rootless.lacks_groups(site) else await cgroup.check_groups(site),
    ]
    if not all(one.ok for one in found):
        return found
    model, accelerators = await asyncio.gather(_cpu_model(machine, site), _accelerators(machine, site))
    found += [model, *accelerators]
    if not all(one.ok or not one.fatal for one in found):
        return found
    accel = await choose_accelerator(machine, site)
    board = machine.board or spec.options.get("machine") or arguments.MACHINE
    found += await machine_type.check_machine_type(board, machine, accel, site)
    if all(one.ok or not one.fatal for one in found) and machine.vmm_arguments:
        vmm, more = machine.vmm or arguments.PROGRAM, machine.vmm_arguments
        refused = await machine_type.try_devices(vmm, board, [], site, more)
        what = f"machine.vmm_arguments {' '.join(more)}"
        found.append(finding(what, refused is None, f"this QEMU refuses them: {refused}", _LIST_ALL))
    return found


async def require_loopback() -> None:
    """HostCannot unless this host reaches itself: a guest's agent and SSH server are reached by ports of its loopback.

    This is for a run that begins: a plan connects to nothing.
    """
    with socket.create_server((LOOPBACK, 0)) as server:
        try:
            async with asyncio.timeout(LIMITS.mute):
                _, writer = await asyncio.open_connection(*server.getsockname())
            writer.close()
            return
        except TimeoutError:
            why = "gave no answer: a firewall drops what comes in there"
        except OSError as error:
            why = f"failed: {os.strerror(error.errno or 0)}"
    remedy = "ip link set lo up; in a firewall that drops by default: iptables -I INPUT -i lo -j ACCEPT"
    raise HostCannot(f"a connection of this host to itself {why}", LOOPBACK, remedy)


async def _vmm(machine: MachineSpec, site: Site) -> list[Finding]:
    """Whether a program that the study names is a QEMU."""
    if machine.vmm is None:
        return []
    ended = await site.exec(["sh", "-c", 'command -v "$1" >/dev/null && exec "$1" --version', "vmm", machine.vmm])
    said = (ended.complaint or ended.text.strip()).partition("\n")[0][:200]
    is_qemu = ended.status == 0 and ended.text.startswith("QEMU emulator version ")
    detail = f"this is no QEMU: {said or 'there is no such program'}"
    remedy = f"name a QEMU for {HERE.title}, such as {arguments.PROGRAM}, by its name or its whole path"
    return [finding(f"machine.vmm {machine.vmm}", is_qemu, detail, remedy)]


async def _kernel(machine: MachineSpec, site: Site) -> list[Finding]:
    """Whether a guest can boot the kernel that the study names."""
    if machine.kernel is None or machine.brings_image:
        return []
    what = f"machine.kernel {machine.kernel}"
    try:
        image = machine_image.find_image(machine.image)
        await kernel_override.exchange_kernel(Parts("", "", ""), machine.kernel, image, site)
    except HostCannot as error:
        detail = error.what if error.where == kernel_override.WHERE else describe_place(error)
        return [Finding(what=what, ok=False, detail=detail, remedy=error.remedy)]
    return [Finding(what=what, ok=True)]


def choose_proving_image(spec: MachineSpec) -> str:
    """The image whose kernel is booted to see whether an accelerator works."""
    return Recipe().name if spec.brings_image else spec.image


async def _cpu_model(machine: MachineSpec, site: Site) -> Finding:
    """Whether QEMU knows it, and can have it with that accelerator: "host" is what only hardware can pass on."""
    vmm = machine.vmm or arguments.PROGRAM
    known = ["max"] if machine.cpu_model == "max" else await accelerator.list_cpu_models(site, vmm)
    is_passed_on = machine.cpu_model == "host" and await choose_accelerator(machine, site) == "tcg"
    near = difflib.get_close_matches(machine.cpu_model, known, n=1)
    return finding(
        f"CPU model {machine.cpu_model}",
        machine.cpu_model in known and not is_passed_on,
        "emulation has no such CPU" if is_passed_on else "this QEMU does not have it",
        f"set machine.cpu_model to {near[0] if near and not is_passed_on else 'max'!r}; `{vmm} -cpu help` lists all",
    )


async def choose_accelerator(machine: MachineSpec, site: Site) -> str:
    """The best that boots a guest where the study leaves it open. HostCannot if none does."""
    if machine.accel != "auto":
        return machine.accel
    image, vmm = machine_image.find_image(choose_proving_image(machine)), machine.vmm or arguments.PROGRAM
    return (await accelerator.choose_best(image, site, vmm)).accel


async def _accelerators(machine: MachineSpec, site: Site) -> list[Finding]:
    """Boots a guest on each that is in question, unless it is known since the site booted."""
    image = machine_image.find_image(choose_proving_image(machine))
    vmm = machine.vmm or arguments.PROGRAM
    offered = await accelerator.list_offered(site, vmm)
    if machine.accel != "auto":
        if machine.accel not in offered:
            remedy = f'set machine.accel to "auto", or one of: {", ".join(offered)}'
            return [Finding(what=machine.accel, ok=False, detail="this QEMU does not have it", remedy=remedy)]
        proof = await accelerator.find_proof(machine.accel, image, site, program=vmm)
        return [_as_finding(proof, fatal=True)]
    names = [name for name in accelerator.CANDIDATES if name in offered]
    proofs = [await accelerator.find_proof(name, image, site, program=vmm) for name in names]
    return [_as_finding(proof, fatal=not any(other.works for other in proofs)) for proof in proofs]


def _as_finding(proof: BootProof, *, fatal: bool) -> Finding:
    fallback = 'set machine.accel = "auto", which falls back to tcg (emulation)' if fatal else "tcg (emulation) is used"
    remedy = "" if proof.works else rootless.find_kvm_remedy(proof.detail) or fallback
    return Finding(what=f"{proof.accel} boots a guest", ok=proof.works, detail=proof.detail, remedy=remedy, fatal=fatal)
