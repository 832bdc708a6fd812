"""What the environment `vmware` asks of vSphere. The one that is real is `vsphere.Vsphere`."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from nearmetal.lab.vmware.vmware_machine import Reconfiguration, VsphereMachine

CONFIGURE = ("VirtualMachine.Config.CPUCount", "VirtualMachine.Config.Memory", "VirtualMachine.Config.AdvancedConfig")
CARD = ("VirtualMachine.Config.AddRemoveDevice",)
POWER = ("VirtualMachine.Interact.PowerOn", "VirtualMachine.Interact.PowerOff")
CLONE = ("VirtualMachine.Provisioning.DeployTemplate",)
"""Privileges, as vSphere calls them."""


class Api(Protocol):
    """Each call may raise HostCannot with what vSphere said, Unreachable, and MachineLost when it lets nobody in again.

    Machines go by the references in which vSphere calls them.
    """

    async def can_clone(self) -> bool:
        """A host of ESXi by itself cannot."""
        ...

    async def names(self) -> Mapping[str, str]:
        """Of all machines, by their references."""
        ...

    async def place(self, reference: str) -> str:
        """The folders that a machine is in, with its name."""
        ...

    async def seen(self, reference: str) -> VsphereMachine | None:
        """None for one that is no more."""
        ...

    async def denied(self, reference: str, privileges: Sequence[str]) -> list[str]:
        """Those that we do not have on a machine."""
        ...

    async def clone(self, template: str, name: str, change: Reconfiguration) -> str:
        """A machine beside the one it is made of, off; its reference."""
        ...

    async def configure(self, machine: VsphereMachine, change: Reconfiguration) -> None:
        """Of one that is on nobody's loan, refused when somebody has changed it since it was seen."""
        ...

    async def start(self, reference: str) -> None: ...

    async def stop(self, reference: str) -> None:
        """By the guest itself where its tools can, else by its power."""
        ...

    async def remove(self, reference: str) -> None:
        """With its disks."""
        ...

    async def settled(self, reference: str) -> None:
        """Return when nothing that was begun on a machine goes on any more."""
        ...
