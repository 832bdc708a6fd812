"""Virtual machines made by QEMU: the image as a copy-on-write disk, its kernel booted directly, and commands go to the
probe's agent in it. A disk image of the user's own is booted by its own loader, and reached by SSH.

What "boot" means here: a fresh overlay over the image's disk, a fresh QEMU, a boot of the guest's kernel. "restore": a
fresh overlay over a snapshot's disk, a fresh QEMU, the snapshot's memory; docs/adr/restored-guests.md says how. QEMU
runs on exactly the CPUs that a container in its place would have (docs/adr/vcpus-and-cpusets.md), and dies with the
process that made it; create it from a thread that lives as long as the machine shall.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from nearmetal import cpu_lists
from nearmetal.config import LIMITS, Paths
from nearmetal.errors import BadInput, HostCannot, MachineLost, NotProvisioned
from nearmetal.lab import cgroup, machine_handle, machine_image
from nearmetal.lab.commands.process import LocalProcess
from nearmetal.lab.image import Image, transfer
from nearmetal.lab.image.initrd import seed_archive
from nearmetal.lab.image.transfer import Parts
from nearmetal.lab.keys import LabKeys, lab_keys
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.machines.init_process import FirstProcess
from nearmetal.lab.networks import network
from nearmetal.lab.qemu import (
    arguments,
    cloud_image,
    files,
    guest_order,
    identity,
    kernel_override,
    least_privilege,
    monitor,
    process_privileges,
    requirements,
    snapshot,
    template,
    user_arguments,
)
from nearmetal.lab.qemu import guest as guests
from nearmetal.lab.qemu.arguments import GuestSpec
from nearmetal.lab.qemu.entry_command import make_guest_door
from nearmetal.lab.qemu.monitor import Monitor
from nearmetal.lab.qemu.snapshot import Snapshot
from nearmetal.model import (
    ControlGroup,
    Description,
    Door,
    EnvironmentSpec,
    Finding,
    Frozen,
    Handle,
    Hardware,
    Login,
    MachineImage,
    MachineSpec,
    Monitoring,
    Order,
    Port,
    ProcessId,
    Provision,
    Recorder,
    Running,
    Site,
)

_NO_SUCH_PROGRAM = 127


class Options(Frozen):
    machine: str | None = None


class QemuEnvironment:
    kind: ClassVar[str] = "qemu"
    Options: ClassVar[type[Frozen]] = Options
    provisions: ClassVar[tuple[Provision, ...]] = ("boot", "restart", "restore")
    typical_ready: ClassVar[float] = 6.0

    def __init__(self) -> None:
        self._monitors: dict[str, Running] = {}
        """The QEMU of each machine made by this process, for what it says when it ends."""
        self._attached: dict[str, list[guests.Guest]] = defaultdict(list)

    def describe(self, options: Mapping[str, Any], spec: MachineSpec) -> Description:
        """BadInput for what no guest can have."""
        _choose_board(options, spec)
        user_arguments.check_arguments(spec.vmm_arguments)
        if spec.kernel is not None and spec.brings_image:
            what = f"the boot loader of {spec.image} decides which kernel runs"
            raise BadInput(what, kernel_override.WHERE, "leave machine.kernel out, or use an image of nearmetal's")
        return Description(family="guest", kernel="own", placement="switch", ignores=("network",))

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        if spec.provision == "restore" and machine.share:
            what = "a guest with a share cannot be restored: QEMU saves none that sees a directory of its host"
            raise BadInput(what, "machine.share", 'leave it out, or set provision = "boot"')
        return await requirements.check_guest(spec, machine, site)

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        asked = await site.exec([arguments.PROGRAM, "--version"])
        if asked.status == _NO_SUCH_PROGRAM:
            return {}  # a study names its own: machine.vmm, which is read back from each guest's
        told = await run_checked(site, arguments.PROGRAM, "--version")
        return {"QEMU": told.decode().partition("\n")[0].removeprefix("QEMU emulator version ")}

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """On another host the image's parts are sent once; every guest's disk is an overlay over the image's.

        Where machines are restored, the snapshot is made.
        """
        if site.spec is None:
            await requirements.require_loopback()
        if machine.brings_image:
            return
        image = machine_image.find_image(machine.image)
        parts = await _place_parts(image, machine, site)
        if spec.provision == "restore":
            guest = await _guest(
                "", machine, _choose_board(spec.options, machine), parts, network.make_port("", 1), site
            )
            await _provide_snapshot(guest, image, parts, site)

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        board = _choose_board(order.options, order.spec)
        image = None if order.spec.brings_image else machine_image.find_image(order.spec.image)
        if image is None:
            parts = await cloud_image.find_parts(order.spec.image, site)
        else:
            parts = await _place_parts(image, order.spec, site)
        guest = await _guest(order.name, order.spec, board, parts, order.port, site)
        if image is None or order.provision != "restore":
            start = _GuestStart(arguments.build_command(guest), guest, parts, parts.disk)
            return await self._start(order, start, site, ledger)
        await _provide_snapshot(guest, image, parts, site)
        async with snapshot.use_snapshots():
            saved = await _provide_snapshot(guest, image, parts, site)
            guest = template.describe_restored(guest, saved)
            start = _GuestStart(arguments.build_restored(guest), guest, parts, str(saved.disk), saved)
            return await self._start(order, start, site, ledger)

    async def _start(self, order: Order, start: "_GuestStart", site: Site, ledger: Recorder) -> Handle:
        folder = machine_handle.name_folder(order.name, site)
        handle = machine_handle.make_handle(
            self.kind,
            order,
            site,
            MachineImage(
                name=(cloud_image.describe_image if order.spec.brings_image else machine_image.describe_image)(
                    order.spec.image
                ),
                brings_kernel=not start.guest.kernel,
                snapshot=start.snapshot.name if start.snapshot else None,
            ),
            folder=folder,
            command=start.command,
            share=order.spec.share,
        )
        ledger.creating(handle)
        await run_checked(site, "mkdir", "-p", "-m", "700", "--", folder)
        group = await _prepare(order, start, folder, lab_keys(Paths.default().state), site)
        tap = ("--tap", f"{order.port.switch}:{order.port.outside}") if order.port else ()
        place = ("--chdir", folder, *group.joined, *tap)
        command = files.build_launch(start.guest, order.name, start.command, site, *place)
        self._monitors[order.name] = await site.spawn(command)
        try:
            hardware, ports = await self._begin_guest(order, start, folder, group, site)
            life = group if group.version else await _find_process(self._monitors[order.name], site)
        except NotProvisioned as error:
            raise NotProvisioned(error.what, order.name) from None
        login = Login(ssh_port=ports["ssh_port"]) if order.logins or handle.image.brings_kernel else None
        whole = handle.knowing(life=life, hardware=hardware, login=login, data=ports)
        ledger.creating(whole)
        return whole

    async def _begin_guest(
        self, order: Order, start: "_GuestStart", folder: str, group: ControlGroup, site: Site
    ) -> tuple[Hardware, Mapping[str, int]]:
        """Put the threads where they belong and let the guest run; what QEMU tells of it, and the ports into it."""
        running, saved = self._monitors[order.name], start.snapshot
        ended = partial(template.find_last_words, running)
        async with monitor.open_monitor(site, folder, LIMITS.command, ended) as qemu:
            hardware = await qemu.hardware(start.guest.accel, folder)
            ports, threads = await qemu.forwarded(), await qemu.threads()
            monitoring = await _find_monitoring(start.guest, qemu, threads[0], site)
            pinned = await monitor.pin_threads(site, threads, cpu_lists.parse(order.cpus))
            if saved:
                snapshot.note_use(saved)
                await template.load(saved, qemu, running)
            await qemu.go()
        if saved:
            secret = lab_keys(Paths.default().state).agent_of(order.name)
            await identity.tell_identity(order.name, secret, order.port, site, folder, ended)
        quota = await cgroup.read_quota(group, site)
        found = {"pinned": pinned, "quota": quota, "monitoring": monitoring, "kernel": start.parts.banner or None}
        return hardware.model_copy(update=found), ports

    async def attach(self, handle: Handle, site: Site) -> guests.Guest:
        """NotProvisioned also if it was never whole."""
        running, ports = self._monitors.get(handle.name), await guests.forward_ports(handle, site)
        machine: guests.Guest
        if handle.image.brings_kernel:
            # With asyncssh, which takes as long to import as a guest to restore.
            from nearmetal.lab.qemu.cloud_image_guest import CloudImageGuest

            machine = CloudImageGuest(handle, site, ports, running)
        else:
            machine = guests.QemuMachine(handle, site, ports, running, running is not None)
        await machine.connect()
        # Its monitor has one listener at a time: whoever made it.
        if running and not self._attached[handle.name]:
            machine.watch()
        self._attached[handle.name].append(machine)
        return machine

    async def open_door(self, handle: Handle) -> Door:
        return make_guest_door(handle)

    async def destroy(self, handle: Handle, site: Site) -> None:
        for machine in self._attached.pop(handle.name, ()):
            await machine.close()
        # Whatever is in the machine's control group is ours, whatever process ids have been given to others since.
        await cgroup.remove_group(handle.name, site)
        running = self._monitors.pop(handle.name, None)
        if running:
            # One that ended with its connection cannot tell.
            with contextlib.suppress(MachineLost):
                await running.stop()
        await guests.withdraw_ports(handle, site)
        await network.unplug(handle.port, site)
        await run_checked(site, "rm", "-rf", "--", handle.data["folder"])


async def _find_process(running: Running, site: Site) -> ProcessId:
    """What a guest lives by that has no control group. NotProvisioned."""
    assert isinstance(running, LocalProcess)
    found = await FirstProcess.of(running.pid, site)
    if found is None:
        raise NotProvisioned("QEMU has ended")
    return found.life


def _choose_board(options: Mapping[str, Any], spec: MachineSpec) -> str:
    """The machine type. BadInput where it is written twice."""
    machine = Options.model_validate(dict(options)).machine
    if machine is not None and spec.board is not None:
        what = f"`machine` of the environment is {machine!r}, and machine.board, another word for it, {spec.board!r}"
        raise BadInput(what, "machine.board", "leave one of them out")
    return spec.board or machine or arguments.MACHINE


async def _place_parts(image: Image, spec: MachineSpec, site: Site) -> Parts:
    return await kernel_override.exchange_kernel(await transfer.place_parts(image, site), spec.kernel, image, site)


async def _guest(name: str, spec: MachineSpec, board: str, parts: Parts, port: Port | None, site: Site) -> GuestSpec:
    guest = await guest_order.order_guest(name, spec, board, parts, port, site)
    power = await least_privilege.find_privilege(guest.vmm, guest.accel, site, guest.vmm_arguments, guest.share)
    return replace(guest, privilege=power)


# What runs by now, whatever the name was by which it was started: a script's is that of what it starts.
_WHICH = """
file=$(command -v "$1")
case $(head -c 2 -- "$file") in '#!') echo;; *) readlink -f -- "$file";; esac
readlink "/proc/$2/exe"
"""


async def _find_monitoring(guest: GuestSpec, qemu: Monitor, thread: int, site: Site) -> Monitoring:
    """What runs a guest, by its own word and by the kernel's."""
    board, is_board = await qemu.board(guest.machine)
    asked, program = (
        (await run_checked(site, "sh", "-c", _WHICH, "which", guest.vmm, str(thread))).decode().splitlines()
    )
    words = (await site.get(f"/proc/{thread}/cmdline")).decode("utf-8", "replace").split("\0")
    status = process_privileges.read_status((await site.get(f"/proc/{thread}/status")).decode())
    difference = guest.privilege.find_difference(guest.name, status)
    unlike = {
        f"its board is {board} instead of {guest.machine}": not is_board,
        f"its QEMU is {program} instead of {asked}": bool(asked) and asked != program,
        "its QEMU was started without machine.vmm_arguments": not _is_within(guest.vmm_arguments, words),
        f"its QEMU {difference}": difference is not None,
    }
    return Monitoring(
        program=program,
        version=await qemu.version(),
        board=board,
        power=process_privileges.describe_status(status, is_ordinary=guest.privilege.users is None),
        unlike=tuple(sentence for sentence, holds in unlike.items() if holds),
    )


def _is_within(asked: Sequence[str], words: Sequence[str]) -> bool:
    """Whether some words stand among others, in their order and without a gap. Pure."""
    size = len(asked)
    return any(tuple(words[at : at + size]) == tuple(asked) for at in range(len(words) - size + 1))


async def _provide_snapshot(guest: GuestSpec, image: Image, parts: Parts, site: Site) -> Snapshot:
    if site.spec is not None:
        what = "guests are restored on this host only, where their snapshots lie"
        raise HostCannot(what, site.name, 'set provision = "boot" for environments on other hosts')
    return await template.provide_snapshot(guest, image, parts, lab_keys(Paths.default().state), site)


@dataclass(frozen=True)
class _GuestStart:
    """What a guest is started with; the snapshot when it is restored."""

    command: list[str]
    guest: GuestSpec
    parts: Parts
    disk: str
    """What its disk is made of, in the format qcow2."""
    snapshot: Snapshot | None = None


async def _prepare(order: Order, start: _GuestStart, folder: str, keys: LabKeys, site: Site) -> ControlGroup:
    """All that QEMU is started with, made at the same time."""
    kind, made_of = start.guest.disk_format, start.parts.disk_format
    disk = arguments.build_disk_command(kind, start.disk, made_of, f"{folder}/{arguments.name_disk(kind)}")
    group = asyncio.create_task(cgroup.create_group(order.name, order.spec, order.cpus, site, limit_memory=False))
    steps: list[Awaitable[object]] = [
        group,
        run_checked(site, *disk, timeout=LIMITS.boot),
        _seed_guest(order, start, folder, keys, site),
    ]
    if order.port:
        steps.append(network.plug_tap(order.port, site))
    if start.snapshot:
        # What was said before it was saved is part of what this guest has said.
        steps.append(run_checked(site, "cp", "--", str(start.snapshot.console), f"{folder}/{arguments.CONSOLE}"))
    for result in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
    await files.hand_folder_over(folder, start.guest, start.guest.privilege.owner(order.name), site)
    return group.result()


async def _seed_guest(order: Order, start: _GuestStart, folder: str, keys: LabKeys, site: Site) -> None:
    """What a guest finds at its boot that is its own: in its initial RAM disk, or where cloud-init looks."""
    if start.guest.kernel:
        # Saved guests let people in, whoever is to have them: so do these when they boot again by themselves.
        logins = order.logins or start.snapshot is not None
        seed = template.make_seed(
            keys, order.name, logins, identity.restore_mac(order.port) if start.snapshot else None
        )
        await transfer.write_initrd(start.parts.initrd, seed_archive(seed), f"{folder}/{arguments.INITRD}", site)
        return
    for name, content in cloud_image.make_seed(order.name, order.port, keys).items():
        await site.put(content, f"{folder}/{arguments.SEED}/{name}", mode=0o600)


plugin = QemuEnvironment()
