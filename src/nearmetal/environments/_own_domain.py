"""Domains that nearmetal makes, for `kind = "libvirt"` without `domain`: of the image, kernel and devices of `qemu`.

What differs from `qemu` is who starts QEMU, and how: libvirt's own command line, its security driver, its own way
to pin. "boot" is as there: a fresh overlay over the image's disk, a fresh domain, a boot of the guest's kernel. A
domain is transient, so nothing of it stays when it stops, and libvirt destroys it when our connection ends.
"""

import asyncio
import contextlib
import hashlib
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast
from urllib.parse import urlsplit

from qemu.qmp import QMPClient

from nearmetal import plugins
from nearmetal.config import LIMITS, Paths
from nearmetal.errors import HostCannot, MachineLost, NotProvisioned
from nearmetal.lab import cgroup, machine_handle, machine_image, rootless
from nearmetal.lab.architecture import pc_alone
from nearmetal.lab.host_checks import check_programs, find_manager_there, finding
from nearmetal.lab.image import transfer
from nearmetal.lab.image.initrd import seed_archive
from nearmetal.lab.keys import lab_keys
from nearmetal.lab.libvirt import cgroups, domain, virsh
from nearmetal.lab.libvirt.options import Options
from nearmetal.lab.libvirt.virsh import Connection, MonitorClient
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.machines.init_process import FirstProcess
from nearmetal.lab.networks import network
from nearmetal.lab.packages import describe_install
from nearmetal.lab.qemu import arguments, guest_order, machine_type, process_privileges, template
from nearmetal.lab.qemu import guest as guests
from nearmetal.lab.qemu.monitor import Monitor
from nearmetal.model import (
    Cost,
    Description,
    EnvironmentSpec,
    Finding,
    Handle,
    Hardware,
    Login,
    MachineSpec,
    Order,
    Recorder,
    Running,
    Site,
)


class OwnDomains:
    def __init__(self) -> None:
        self._running: dict[str, Running] = {}
        """By machine name: the connection whose end destroys it."""
        self._attached: dict[str, list[DomainMachine]] = defaultdict(list)

    def describe(self) -> Description:
        return Description(
            family="guest",
            kernel="own",
            placement="switch",
            ignores=("board", "kernel", "network", "vmm", "vmm_arguments"),
        )

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        options = Options.model_validate(dict(spec.options))
        found = [
            rootless.find_root_of_host("0", "putting a domain on the switch takes root", site),
            *await check_programs(site, {virsh.PROGRAM: "libvirt-clients"}),
            finding(
                "a domain that is there already",
                spec.provision != "reuse",
                "domains that nearmetal makes are new for each boot of the study",
                'name one of yours: domain = "…"; or leave provision = "reuse" out',
            ),
            pc_alone("a domain that nearmetal makes", True, 'name one of yours: domain = "…"; or use kind = "qemu"'),
            machine_image.check_image(machine.image),
            finding(
                "a quota",
                machine.quota is None,
                "the CPU time of a domain is libvirt's to limit, and nearmetal does not ask it to",
                'leave machine.quota out, or use kind = "qemu"',
            ),
        ]
        if all(one.ok for one in found):
            found.append(await _check_connected(options.connect(site)))
        if all(one.ok for one in found):
            alike = EnvironmentSpec.model_validate({"kind": "qemu", "machine": options.machine})
            found += await plugins.load("environments", "qemu").check(alike, machine, site)
            if options.machine != arguments.MACHINE:
                found.append(await machine_type.check_express(options.machine, site))
        return found

    async def prepare(self, machine: MachineSpec, site: Site) -> None:
        await plugins.load("environments", "qemu").prepare(EnvironmentSpec(kind="qemu"), machine, site)

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        options = Options.model_validate(dict(order.options))
        connection = options.connect(site)
        parts = await transfer.place_parts(machine_image.find_image(order.spec.image), site)
        guest = await guest_order.order_guest(order.name, order.spec, options.machine, parts, order.port, site)
        folder, identity = machine_handle.name_folder(order.name, site), str(uuid.uuid4())
        # The tap's name until it moves: an interface's has 15 characters at most, a machine's may have more.
        tap = f"nm-{hashlib.sha256(order.name.encode()).hexdigest()[:12]}"
        handle = machine_handle.make_handle(
            "libvirt",
            order,
            site,
            uri=connection.uri,
            uuid=identity,
            folder=folder,
            tap=tap,
            share=order.spec.share,
        )
        ledger.creating(handle)
        # libvirt's QEMU may be another user's, who has to get to the files in it.
        await run_checked(site, "mkdir", "-p", "-m", "711", "--", folder)
        file = f"{folder}/{arguments.name_disk(guest.disk_format)}"
        disk = arguments.build_disk_command(guest.disk_format, parts.disk, parts.disk_format, file)
        seed = seed_archive(template.make_seed(lab_keys(Paths.default().state), order.name, order.logins))
        await asyncio.gather(
            run_checked(site, *disk, timeout=LIMITS.boot),
            transfer.write_initrd(parts.initrd, seed, f"{folder}/{arguments.INITRD}", site),
        )
        # libvirt looks for the tap in the network that it runs in itself. Only when it is open does it move.
        if order.port:
            await run_checked(site, "ip", "tuntap", "add", "dev", tap, "mode", "tap", "vnet_hdr")
        description = domain.describe(guest, identity, folder, tap, order.cpus)
        await site.put(description.encode(), f"{folder}/domain.xml", mode=0o600)
        try:
            self._running[order.name] = await connection.create(f"{folder}/domain.xml", LIMITS.command)
        except NotProvisioned as error:
            raise _make_refusal(error.what, order) from None
        if order.port:
            await network.move_tap(order.port, tap, site)
        hardware, first, data = await _find_started(connection, order.name, guest.accel, folder, site)
        await connection.run("resume", order.name)
        whole = handle.knowing(
            life=first.life,
            hardware=hardware.model_copy(update={"pinned": domain.pin_vcpus(guest.vcpus, order.cpus)}),
            login=Login(ssh_port=data["ssh_port"]) if order.logins else None,
            data=data,
        )
        ledger.creating(whole)
        return whole

    async def attach(self, handle: Handle, site: Site) -> "DomainMachine":
        ports = await guests.forward_ports(handle, site)
        machine = DomainMachine(handle, site, ports, None, handle.name in self._running)
        await machine.connect()
        self._attached[handle.name].append(machine)
        return machine

    async def destroy(self, handle: Handle, site: Site) -> None:
        for machine in self._attached.pop(handle.name, ()):
            await machine.close()
        await _end_domain(handle.data["uuid"], Connection(handle.data["uri"], site))
        running = self._running.pop(handle.name, None)
        if running:
            # One that ended with its connection cannot tell.
            with contextlib.suppress(MachineLost):
                await running.stop()
        await guests.withdraw_ports(handle, site)
        await site.exec(["ip", "link", "delete", handle.data["tap"]])  # where it did not come to move
        await network.unplug(handle.port, site)
        await run_checked(site, "rm", "-rf", "--", handle.data["folder"])


class DomainMachine(guests.QemuMachine):
    """A guest of a domain: reached as one of QEMU's own, and known by the process that libvirt started for it."""

    def __init__(self, handle: Handle, *more: Any) -> None:
        super().__init__(handle, *more)
        self._first = FirstProcess.in_ledger(handle)
        self._has_own_group: bool = handle.data.get("has_own_group", False)

    async def _is_running(self) -> bool:
        return await self._first.is_alive(self.site)

    async def cost(self) -> Cost:
        """Its memory is its control group's, as of any guest. Its time is QEMU's, which is all that runs in there: in
        which of the hierarchies the group is counted, if in any, is libvirt's own affair."""
        await self._first.require(self.site, self.name)
        seconds = await self._first.read_cpu_time(self.site)
        if not self._has_own_group:
            return Cost(cpu_seconds=seconds, memory_bytes=None)
        try:
            assert self._group is not None
            of_group = await cgroup.read_group_cost(self._group, self.site)
        except HostCannot:
            await self._first.require(self.site, self.name)
            raise
        return Cost(cpu_seconds=seconds, memory_bytes=of_group.memory_bytes)


_NO_CARD = "specified dev doesn't exist"
"""What libvirt says of a card that is not in the network that it runs in."""


def _make_refusal(reason: str, order: Order) -> NotProvisioned:
    if _NO_CARD not in reason:
        return NotProvisioned(reason, order.name)
    what = "libvirt does not find its card: it runs in another network namespace than the switch, as in a container"
    return NotProvisioned(what, order.name, "start libvirtd in that of its host, or name another: uri = …")


async def _end_domain(uuid: str, connection: Connection) -> None:
    """Of a domain, wherever it is; nothing where it is gone, or goes by itself at that moment."""

    async def is_there() -> bool:
        return uuid in await connection.run("list", "--all", "--uuid")

    if await is_there():
        try:
            await connection.run("destroy", uuid)
        except HostCannot:
            if await is_there():
                raise


def _is_qemus_here(uri: str) -> bool:
    """Whether guests at a URI can boot the lab's image, and hang on the switch of the host where it is opened. Pure."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    return parts.scheme.partition("+")[0] == "qemu" and not parts.hostname


async def _check_connected(connection: Connection) -> Finding:
    """Whether there is a libvirt at its URI whose guests can be put on the lab's switch."""
    what = f"libvirt at {connection.uri}"
    if not _is_qemus_here(connection.uri):
        detail = "this URI is none of QEMU's driver on its own host, such as qemu:///system, where domains are made"
        remedy = (
            'write uri = "qemu:///system", or "qemu+unix:///system?socket=…"; any other connection takes a domain of '
            'yours: domain = "…"; nearmetal\'s own are placed on other hosts by machine.host'
        )
        return finding(what, False, detail, remedy)
    try:
        version = await connection.run("version", "--daemon")
    except HostCannot as error:
        # A libvirtd without the user that this package makes for QEMU ends as soon as it is started.
        install = describe_install(await find_manager_there(connection.site), "libvirt-daemon-system")
        remedy = f"install it ({install}), start it (systemctl start libvirtd), or name another: uri = …"
        return finding(what, False, error.what, remedy)
    running = next((line for line in version.splitlines() if line.startswith("Running hypervisor")), "")
    return Finding(what=what, ok=True, detail=running)


async def _find_started(
    connection: Connection, name: str, accel: str, folder: str, site: Site
) -> tuple[Hardware, FirstProcess, Mapping[str, Any]]:
    """What QEMU tells of a domain that was started, its process, and what its handle's data has besides."""
    monitor = Monitor(cast(QMPClient, MonitorClient(connection, name)))
    (thread, *_) = await monitor.threads()
    pid = int(process_privileges.read_status((await site.get(f"/proc/{thread}/status")).decode())["Tgid"])
    first = await FirstProcess.of(pid, site)
    if first is None:
        raise NotProvisioned("its QEMU has ended at once", name)
    group = cgroups.find_domain_group(await cgroup.find_group(pid, site))
    data = {
        **await monitor.forwarded(),
        "group": asdict(group),
        "has_own_group": await cgroups.is_own(group, pid, site),
    }
    return await monitor.hardware(accel, folder), first, data
