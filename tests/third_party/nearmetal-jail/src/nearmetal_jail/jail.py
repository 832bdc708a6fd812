"""The environment `jail`: the lab's root filesystem in namespaces of its own, and a port on the lab's switch.

Not isolated: the kernel, which is the host's, and what it counts for all. Machines are made on this host alone.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from nearmetal.errors import MachineLost, NotProvisioned
from nearmetal.lab.api import (
    LIMITS,
    NETWORK_TOOLS,
    HeldMachine,
    build_held_door,
    check_image,
    check_isolation,
    check_limits,
    check_programs,
    create_group,
    find_first_process,
    find_image,
    make_finding,
    make_handle,
    make_scratch,
    place_root,
    plug_veth,
    remove_group,
    run_checked,
    start_holder,
    unplug,
)
from nearmetal.model import (
    VIRTUAL_HARDWARE,
    ControlGroup,
    Description,
    Door,
    Environment,
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


class JailMachine(HeldMachine):
    called = "a jail"


class Jail:
    kind: ClassVar[str] = "jail"
    Options: ClassVar[type[Frozen]] = Frozen
    provisions: ClassVar[tuple[Provision, ...]] = ("boot",)
    typical_ready: ClassVar[float] = 0.3

    def __init__(self) -> None:
        self._holders: dict[str, SiteRunning] = {}

    def describe(self, options: Mapping[str, Any], spec: MachineSpec) -> Description:
        return Description(
            family="container", kernel="host", placement="switch", ignores=tuple(sorted(VIRTUAL_HARDWARE))
        )

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        return [
            make_finding("this host", site.spec is None, "jails are made here alone", "leave machine.host out"),
            *await check_programs(site, {**NETWORK_TOOLS, "unshare": "util-linux"}),
            check_image(machine.image),
            *await check_limits(machine, site),
            *await check_isolation(machine, site),
        ]

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        return {}

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        await place_root(find_image(machine.image), site)

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        root = await place_root(find_image(order.spec.image), site)
        folder = f"{site.state}/jails/{order.name}"
        handle = make_handle(self.kind, order, site, folder=folder)
        ledger.creating(handle)
        await make_scratch(folder, site)
        group = await create_group(order.name, order.spec, order.cpus, site, limit_memory=True)
        holder = await start_holder(order.name, root, folder, group, site, share=order.spec.share)
        self._holders[order.name] = holder
        first = await find_first_process(holder, order.name, site)
        if order.port:
            await plug_veth(order.port, first.pid, site)
        whole = handle.knowing(life=first.life, data={"group": asdict(group)})
        ledger.creating(whole)
        return whole

    async def attach(self, handle: Handle, site: Site) -> JailMachine:
        machine = JailMachine(handle, _group_of(handle), site)
        if not await machine.first.is_alive(site):
            raise NotProvisioned("its first process is gone", handle.name)
        return machine

    async def open_door(self, handle: Handle) -> Door:
        return build_held_door(handle, _group_of(handle))

    async def destroy(self, handle: Handle, site: Site) -> None:
        await remove_group(handle.name, site)
        holder = self._holders.pop(handle.name, None)
        if holder:
            with contextlib.suppress(MachineLost):
                await holder.wait(LIMITS.stop)
        await unplug(handle.port, site)
        await run_checked(site, "rm", "-rf", "--", handle.data["folder"], timeout=LIMITS.boot)


def _group_of(handle: Handle) -> ControlGroup:
    if "group" not in handle.data:
        raise NotProvisioned("its creation was interrupted", handle.name)
    return ControlGroup(**handle.data["group"])


plugin: Environment = Jail()
