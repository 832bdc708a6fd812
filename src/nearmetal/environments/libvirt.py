"""Guests that libvirt runs: domains that nearmetal makes (_own_domain.py), or one that is somebody's
(_existing_domain.py). Options in [environments.NAME]: docs/environments.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from nearmetal.environments._own_domain import OwnDomains
from nearmetal.lab.libvirt.options import Options
from nearmetal.lab.qemu.entry_command import make_guest_door
from nearmetal.model import (
    Description,
    Door,
    EnvironmentSpec,
    Finding,
    Frozen,
    Handle,
    Machine,
    MachineSpec,
    Order,
    Provision,
    Recorder,
    Site,
)

if TYPE_CHECKING:
    from nearmetal.environments._existing_domain import ExistingDomains


class LibvirtEnvironment:
    kind: ClassVar[str] = "libvirt"
    Options: ClassVar[type[Frozen]] = Options
    provisions: ClassVar[tuple[Provision, ...]] = ("boot", "restart", "reuse")
    typical_ready: ClassVar[float] = 7.0

    def __init__(self) -> None:
        self._own = OwnDomains()

    @cached_property
    def _existing(self) -> ExistingDomains:
        # With asyncssh, whose import takes longer than most commands in a machine of ours.
        from nearmetal.environments._existing_domain import ExistingDomains

        return ExistingDomains()

    def _choose_domains(self, options: Mapping[str, Any]) -> OwnDomains | ExistingDomains:
        is_named = Options.model_validate(dict(options)).domain is not None
        return self._existing if is_named else self._own

    def _domains_of(self, handle: Handle) -> OwnDomains | ExistingDomains:
        return self._existing if handle.stays else self._own

    def describe(self, options: Mapping[str, Any], spec: MachineSpec) -> Description:
        return self._choose_domains(options).describe()

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        return await self._choose_domains(spec.options).check(spec, machine, site)

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        """Of the daemon's own library, and of the hypervisor that it runs, in the words of `virsh version`."""
        version = await Options.model_validate(dict(options)).connect(site).run("version", "--daemon")
        lines = (line.partition(": ")[2].rpartition(" ") for line in version.splitlines())
        return {name: version for name, _, version in lines if name in ("libvirt", "QEMU")}

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        await self._choose_domains(spec.options).prepare(machine, site)

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        return await self._choose_domains(order.options).create(order, site, ledger)

    async def attach(self, handle: Handle, site: Site) -> Machine:
        return await self._domains_of(handle).attach(handle, site)

    async def open_door(self, handle: Handle) -> Door | None:
        return None if handle.stays else make_guest_door(handle)

    async def destroy(self, handle: Handle, site: Site) -> None:
        await self._domains_of(handle).destroy(handle, site)


plugin = LibvirtEnvironment()
