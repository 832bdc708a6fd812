"""What is asked of vSphere: a session's calls, and what they mean."""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from nearmetal.errors import HostCannot
from nearmetal.lab.vmware import conversion
from nearmetal.lab.vmware.account import Account
from nearmetal.lab.vmware.session import PAUSE, Session
from nearmetal.lab.vmware.vmware_machine import Power, Reconfiguration, VsphereMachine

CONFIGURE = ("VirtualMachine.Config.CPUCount", "VirtualMachine.Config.Memory", "VirtualMachine.Config.AdvancedConfig")
CARD = ("VirtualMachine.Config.AddRemoveDevice",)
POWER = ("VirtualMachine.Interact.PowerOn", "VirtualMachine.Interact.PowerOff")
CLONE = ("VirtualMachine.Provisioning.DeployTemplate",)
"""Privileges, as vSphere calls them."""
CLONING = 3600.0
"""Seconds that disks may take to be copied."""
SHUTDOWN = 120.0
"""Seconds that a guest may take to shut down, before its power is taken from it."""


class Vsphere:
    """Each call may raise HostCannot with what vSphere said, Unreachable, and MachineLost when it lets nobody in again.

    Machines go by the references in which vSphere calls them.
    """

    def __init__(self, account: Account) -> None:
        self._session = Session(account)

    async def can_clone(self) -> bool:
        """A host of ESXi by itself cannot."""
        kind = await self._session.ask("tell what it is", lambda instance: instance.content.about.apiType)
        return bool(kind == "VirtualCenter")

    async def names(self) -> Mapping[str, str]:
        """Of all machines, by their references."""
        return await self._session.ask("list its machines", _names)

    async def place(self, reference: str) -> str:
        """The folders that a machine is in, with its name."""

        def look(instance: Any) -> str:
            names, thing = [], _machine(instance, reference)
            while thing is not None:
                names.append(thing.name)
                thing = _parent(instance, thing)
            return "/".join(reversed(names))

        return await self._session.ask("tell where a machine is", look)

    async def seen(self, reference: str) -> VsphereMachine | None:
        """None for one that is no more."""
        from pyVmomi import vmodl

        def look(instance: Any) -> VsphereMachine | None:
            try:
                return conversion.read_machine(
                    reference, _read(instance, _machine(instance, reference), conversion.READ)
                )
            except vmodl.fault.ManagedObjectNotFound:
                return None

        return await self._session.ask("tell of a machine", look)

    async def denied(self, reference: str, privileges: Sequence[str]) -> list[str]:
        """Those that we do not have on a machine."""
        from pyVmomi import vmodl

        def look(instance: Any) -> list[str]:
            content = instance.content
            session = content.sessionManager.currentSession.key
            ask = content.authorizationManager.HasPrivilegeOnEntities
            try:
                (told,) = ask([_machine(instance, reference)], session, list(privileges))
            except (vmodl.fault.MethodNotFound, vmodl.fault.NotSupported):
                return []  # one that does not tell; what is denied is told when it is asked for
            return [one.privId for one in told.privAvailability if not one.isGranted]

        return await self._session.ask("tell our privileges", look)

    async def clone(self, template: str, name: str, change: Reconfiguration) -> str:
        """A machine beside the one it is made of, off; its reference."""

        def begin(instance: Any) -> Any:
            source = _machine(instance, template)
            spec = conversion.make_clone_spec(source, _pool(instance, source), change)
            return source.CloneVM_Task(folder=_parent(instance, source), name=name, spec=spec)

        made: str = (await self._session.done(f"clone {name}", begin, CLONING))._GetMoId()
        return made

    async def configure(self, machine: VsphereMachine, change: Reconfiguration) -> None:
        """Of one that is on nobody's loan, refused when somebody has changed it since it was seen."""

        def begin(instance: Any) -> Any:
            found = _machine(instance, machine.reference)
            version = None if machine.mark else machine.version
            return found.ReconfigVM_Task(spec=conversion.make_config_spec(found, version, change))

        await self._session.done(f"configure {machine.name!r}", begin)

    async def start(self, reference: str) -> None:
        await self._session.done("power a machine on", lambda instance: _machine(instance, reference).PowerOnVM_Task())

    async def stop(self, reference: str) -> None:
        """By the guest itself where its tools can, else by its power."""
        from pyVmomi import vim

        def ask_guest(instance: Any) -> bool:
            try:
                _machine(instance, reference).ShutdownGuest()
            except (vim.fault.ToolsUnavailable, vim.fault.InvalidState):
                return False
            return True

        if await self._session.ask("shut a guest down", ask_guest):
            until = time.monotonic() + SHUTDOWN
            while time.monotonic() < until:
                if await self._power(reference) != "on":
                    return
                await asyncio.sleep(PAUSE)
        if await self._power(reference) == "on":
            await self._session.done(
                "power a machine off", lambda instance: _machine(instance, reference).PowerOffVM_Task()
            )

    async def _power(self, reference: str) -> Power | None:
        found = await self.seen(reference)
        return found.power if found else None

    async def remove(self, reference: str) -> None:
        """With its disks."""
        await self._session.done("remove a machine", lambda instance: _machine(instance, reference).Destroy_Task())

    async def settled(self, reference: str) -> None:
        """Return when nothing that was begun on a machine goes on any more."""
        from pyVmomi import vmodl

        def going_on(instance: Any) -> list[str]:
            try:
                tasks = _machine(instance, reference).recentTask
                return [task._GetMoId() for task in tasks if task.info.state in ("queued", "running")]
            except vmodl.fault.ManagedObjectNotFound:
                return []

        for task in await self._session.ask("tell what goes on", going_on):
            with contextlib.suppress(HostCannot):  # how it ended is seen from the machine itself
                await self._session.ended("end what it began", task, CLONING)


def _machine(instance: Any, reference: str) -> Any:
    from pyVmomi import vim

    return vim.VirtualMachine(reference, instance._GetStub())


def _read(instance: Any, thing: Any, paths: list[str]) -> dict[str, Any]:
    """These properties, at one moment."""
    from pyVmomi import vmodl

    collector = vmodl.query.PropertyCollector
    wanted = collector.PropertySpec(type=type(thing), pathSet=paths, all=False)
    spec = collector.FilterSpec(propSet=[wanted], objectSet=[collector.ObjectSpec(obj=thing)])
    (told,) = instance.content.propertyCollector.RetrieveContents([spec])
    for missing in told.missingSet:
        raise missing.fault
    return {one.name: one.val for one in told.propSet}


def _names(instance: Any) -> Mapping[str, str]:
    from pyVmomi import vim, vmodl

    content = instance.content
    view = content.viewManager.CreateContainerView(content.rootFolder, [vim.VirtualMachine], True)
    try:
        collector = vmodl.query.PropertyCollector
        each = collector.TraversalSpec(name="each", path="view", skip=False, type=vim.view.ContainerView)
        spec = collector.FilterSpec(
            propSet=[collector.PropertySpec(type=vim.VirtualMachine, pathSet=["name"], all=False)],
            objectSet=[collector.ObjectSpec(obj=view, skip=True, selectSet=[each])],
        )
        told = content.propertyCollector.RetrieveContents([spec])
        return {one.obj._GetMoId(): one.propSet[0].val for one in told if one.propSet}
    finally:
        view.DestroyView()


def _parent(instance: Any, thing: Any) -> Any:
    return _read(instance, thing, ["parent"]).get("parent")


def _pool(instance: Any, machine: Any) -> Any:
    """What it computes from; for a template, which computes nothing, all that its host has."""
    told = _read(instance, machine, ["resourcePool", "runtime.host"])
    return told.get("resourcePool") or _parent(instance, told["runtime.host"]).resourcePool
