"""The host itself as an environment: the image's root filesystem in namespaces of its own, on the host's kernel.

docs/adr/machines-die-with-their-controller.md says what "boot" means here, and what a machine lives by: create it from
a thread that lives as long as the machine shall.

A machine that is not to hang on the lab's switch has the network of its host instead of one of its own: so do the
clients of servers that are reached by that network, and the image as a chroot on a machine of the user's.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from nearmetal.config import LIMITS
from nearmetal.errors import MachineLost, NotProvisioned
from nearmetal.lab import cgroup, container_privileges, machine_handle, machine_image, probe, rootless
from nearmetal.lab.cpus.limits import check_limits
from nearmetal.lab.host_checks import check_programs, check_provided
from nearmetal.lab.image import transfer
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.machines import namespace_machine
from nearmetal.lab.machines import share as shares
from nearmetal.lab.machines.namespace_machine import HeldMachine
from nearmetal.lab.machines.shared_kernel import check_isolation
from nearmetal.lab.networks import network
from nearmetal.model import (
    VIRTUAL_HARDWARE,
    ControlGroup,
    Description,
    Door,
    EnvironmentSpec,
    Finding,
    Frozen,
    Handle,
    MachineSpec,
    Order,
    Provision,
    Recorder,
    Site,
    SiteRunning,
)

_REMOVING = 120.0
"""Seconds for deleting all that a machine wrote."""


class HostEnvironment:
    kind: ClassVar[str] = "host"
    Options: ClassVar[type[Frozen]] = Frozen
    provisions: ClassVar[tuple[Provision, ...]] = ("boot",)
    typical_ready: ClassVar[float] = 0.3

    def __init__(self) -> None:
        self._holders: dict[str, SiteRunning] = {}
        """By machine name."""

    def describe(self, options: Mapping[str, Any], spec: MachineSpec) -> Description:
        return Description(
            family="metal",
            kernel="host",
            placement="switch",
            can_share_network=True,
            ignores=tuple(sorted({*VIRTUAL_HARDWARE, "network"})),
        )

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        user = (await run_checked(site, "id", "-u")).decode().strip()
        packages = {**network.TOOLS, "unshare": "util-linux", "tar": "tar"}
        return [
            rootless.find_root(user, "machines cannot be made"),
            *container_privileges.find_missing(site, container_privileges.PRIVILEGED),
            *await check_programs(site, packages),
            await namespace_machine.check_scratch(site),
            check_provided("probe", probe.path),
            machine_image.check_image(machine.image),
            *await check_limits(machine, site),
            *await check_isolation(machine, site),
            *await shares.check_share(machine, site),
        ]

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        """Nothing: its kernel makes them."""
        return {}

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """On another host the image's files are sent once; here they are used where they lie."""
        await transfer.place_root(machine_image.find_image(machine.image), site)

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        root = await transfer.place_root(machine_image.find_image(order.spec.image), site)
        folder = machine_handle.name_folder(order.name, site)
        handle = machine_handle.make_handle(self.kind, order, site, folder=folder)
        ledger.creating(handle)
        laid_out = asyncio.create_task(namespace_machine.make_scratch(folder, site))
        try:
            group = await cgroup.create_group(order.name, order.spec, order.cpus, site, limit_memory=True)
        finally:
            await laid_out
        holder = self._holders[order.name] = await namespace_machine.start_holder(
            order.name, root, folder, group, site, own_network=not order.shared, share=order.spec.share
        )
        first = await namespace_machine.find_first_process(holder, order.name, site)
        if order.port:
            await network.plug_veth(order.port, first.pid, site)
        whole = handle.knowing(life=first.life, is_limited=group.version != 0, data={"group": asdict(group)})
        ledger.creating(whole)
        return whole

    async def attach(self, handle: Handle, site: Site) -> "HostMachine":
        attached = HostMachine(handle, _group_of(handle), site)
        if not await attached.first.is_alive(site):
            raise NotProvisioned("its first process is gone", handle.name)
        return attached

    async def open_door(self, handle: Handle) -> Door:
        return namespace_machine.build_held_door(handle, _group_of(handle))

    async def destroy(self, handle: Handle, site: Site) -> None:
        await cgroup.remove_group(handle.name, site)
        holder = self._holders.pop(handle.name, None)
        if holder:
            # One that ended with its connection cannot tell.
            with contextlib.suppress(MachineLost):
                # Without a control group, nothing has ended it yet.
                await (holder.stop() if rootless.lacks_groups(site) else holder.wait(LIMITS.stop))
        await network.unplug(handle.port, site)
        await run_checked(site, "rm", "-rf", "--", handle.data["folder"], timeout=_REMOVING)


def _group_of(handle: Handle) -> ControlGroup:
    """NotProvisioned if the machine's creation was interrupted."""
    if "group" not in handle.data:
        raise NotProvisioned("its creation was interrupted", handle.name)
    return ControlGroup(**handle.data["group"])


class HostMachine(HeldMachine):
    """A `Machine` of processes on the host's own kernel."""

    called = "a machine of kind 'host'"


plugin = HostEnvironment()
