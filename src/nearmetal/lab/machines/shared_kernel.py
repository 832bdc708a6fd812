"""A machine that runs on its host's kernel: what a container and a chroot in namespaces of its own have in common."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from nearmetal import cpu_lists
from nearmetal.errors import HostCannot, MachineLost
from nearmetal.lab import cgroup, machine_files
from nearmetal.lab.host_checks import finding
from nearmetal.lab.machines import kernel
from nearmetal.lab.machines.init_process import FirstProcess
from nearmetal.lab.networks import network
from nearmetal.model import Commands, Completed, ControlGroup, Cost, Finding, Handle, MachineSpec, Site

_ISOLATED = "/sys/devices/system/cpu/isolated"


class SharedKernelMachine(Commands, ABC):
    """A `Machine` but for its `probe`, and for how commands run in it, which those who inherit tell."""

    owned = True
    called: ClassVar[str]
    """What such a machine is called, with its article."""

    def __init__(self, handle: Handle, site: Site) -> None:
        port = handle.port
        self.name = handle.name
        self.role: str = handle.role
        self.site = site
        self.arch = site.arch
        shared = handle.shared
        self.address = port.address if port else shared.address if shared else ""
        self.interface = shared.interface if shared else network.INSIDE
        self.peer = network.name_peer(port)
        self.first = FirstProcess.in_ledger(handle)
        self.boot_id = self.first.boot_id(site)

    @abstractmethod
    async def group(self) -> ControlGroup:
        """The control group that it runs in."""

    async def exec_in_network(self, argv: Sequence[str]) -> Completed:
        """Run a program of its host's in its network namespace. MachineLost, HostCannot."""
        await self.first.require(self.site, self.name)
        return await self.site.exec(["nsenter", f"--net=/proc/{self.first.pid}/ns/net", "--", *argv])

    async def wait_lost(self) -> MachineLost:
        await self.first.wait_end(self.site)
        return MachineLost("its first process is gone", self.name)

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        await machine_files.put_file(self, content, path, mode)

    async def get(self, path: str) -> bytes:
        return await machine_files.read_file(self, path)

    async def reboot(self) -> None:
        raise HostCannot(
            f"{self.called} is made anew for each boot, and cannot be rebooted",
            self.name,
            'use kind = "qemu", or kind = "ssh" for a machine that may be rebooted',
        )

    async def paused(self, since: float) -> float:
        return 0.0  # its clock is its host's, and nobody is known to pause it

    async def cost(self) -> Cost:
        # What was killed keeps its group, and the group its figures, until somebody has noticed.
        await self.first.require(self.site, self.name)
        try:
            return await cgroup.read_group_cost(await self.group(), self.site, self.first.pid)
        except HostCannot:
            await self.first.require(self.site, self.name)
            raise


async def check_isolation(machine: MachineSpec, site: Site) -> list[Finding]:
    """Whether its last CPU can be one that its kernel keeps free; nothing to tell where that is not asked for.

    A kernel that others run on is not booted for a machine: what it was booted with is what there is.
    """
    if not kernel.keeps_cpus(machine):
        return []
    what = "a CPU that the kernel keeps free"
    isolated = cpu_lists.parse((await site.exec(["cat", _ISOLATED])).text)
    if not isolated or not machine.cpus:
        detail = "it runs on its host's kernel, which keeps none free"
        remedy = (
            'leave isolation by the kernel out for it, by the `when` of the factor (isolation = "user" takes no '
            "boot), or boot its host so: nearmetal isolate on --boot"
        )
        return [finding(what, bool(isolated), detail, remedy)]
    theirs = f"none of those that its kernel keeps free, which are {cpu_lists.show(isolated)}"
    detail = f"the last of CPUs {machine.cpus} is {theirs}"
    is_last = max(cpu_lists.parse(machine.cpus)) in isolated
    return [finding(what, is_last, detail, "name CPUs in machine.cpus whose last is one of those")]
