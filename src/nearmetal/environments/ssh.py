"""A machine of the user's own, reached by SSH: bare metal, a cloud instance, a guest of whatever hypervisor.

Options in [environments.NAME]: docs/environments.md. The machine is a site of its own, and it is used as it is: never
destroyed, and booted again only with `provision = "restart"`. What is measured runs in a control group with the CPUs
and the memory that the study asks for, in the machine's own network; docs/adr/machines-of-the-users.md says why, and
how clients reach it. A chroot is a machine of kind `host` there, and says so in the ledger.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import IPvAnyAddress

from nearmetal import plugins
from nearmetal.config import LIMITS
from nearmetal.lab import host_lock, machine_image
from nearmetal.lab.borrowed.borrowed_machine import (
    TOOLS,
    BorrowedMachine,
    Borrowing,
    check_address,
    find_measured,
    wait_answer,
)
from nearmetal.lab.cpus.limits import check_limits
from nearmetal.lab.host_checks import check_programs, finding
from nearmetal.lab.ssh.ssh_site import SshSite
from nearmetal.model import (
    VIRTUAL_HARDWARE,
    Description,
    Door,
    EnvironmentSpec,
    Finding,
    Frozen,
    Handle,
    HostSpec,
    MachineSpec,
    Order,
    Provision,
    Recorder,
    Site,
)
from nearmetal.model.study import SshTarget

ANSWER = LIMITS.boot
"""Seconds that a machine may be away, as one is that somebody boots again, before a trial is lost for it."""


class Options(Frozen):
    address: SshTarget
    data: IPvAnyAddress | None = None
    image: Literal["own", "chroot"] = "own"
    key: str | None = None
    host_key: str | None = None
    jump: SshTarget | None = None


class SshEnvironment:
    kind: ClassVar[str] = "ssh"
    Options: ClassVar[type[Frozen]] = Options
    provisions: ClassVar[tuple[Provision, ...]] = ("reuse", "restart")
    typical_ready: ClassVar[float] = 0.5

    def __init__(self) -> None:
        self._borrowing = Borrowing()

    def describe(self, options: Mapping[str, Any], spec: MachineSpec) -> Description:
        given = Options.model_validate(dict(options))
        return Description(
            family="unknown",
            kernel="own",
            placement="host",
            is_one=True,
            host=HostSpec(ssh=given.address, trunk=given.data, key=given.key, host_key=given.host_key, jump=given.jump),
            ignores=tuple(sorted({*VIRTUAL_HARDWARE, "network"})),
        )

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        options = Options.model_validate(dict(spec.options))
        found = [
            *await check_programs(site, TOOLS),
            *_check_permitted(options, spec.provision, machine),
            *await check_limits(machine, site),
            await host_lock.check_holder(site),
        ]
        if found[0].ok:
            found.append(await check_address(site))
        if options.image == "chroot":
            found.append(machine_image.check_image(machine.image))
        return found

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        """Nothing: its machines are there already."""
        return {}

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """From here on nobody else measures on it; and it has the image, where it is to have it."""
        await host_lock.hold_host(site)
        if Options.model_validate(dict(spec.options)).image == "chroot":
            await plugins.load("environments", "host").prepare(spec, machine, site)

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        await wait_answer(site, ANSWER)
        await host_lock.hold_host(site)
        if Options.model_validate(dict(order.options)).image == "chroot":
            chroot = order.model_copy(update={"shared": await find_measured(site)})
            return await plugins.load("environments", "host").create(chroot, site, ledger)
        handle = Handle(kind=self.kind, name=order.name, site=site.name, stays=True)
        return await self._borrowing.borrow(handle, order, order.cpus, site, ledger)

    async def attach(self, handle: Handle, site: Site) -> BorrowedMachine:
        assert isinstance(site, SshSite)
        return await self._borrowing.attach(BorrowedMachine, handle, site, site)

    async def open_door(self, handle: Handle) -> Door | None:
        return None

    async def destroy(self, handle: Handle, site: Site) -> None:
        """What was made there goes; the machine stays."""
        await self._borrowing.give_back(handle.name, site)


def _check_permitted(options: Options, provision: Provision | None, machine: MachineSpec) -> list[Finding]:
    """What a study asks for that is not done to a machine of the user's unless they allow it. Pure."""
    is_chroot = options.image == "chroot"
    return [
        finding(
            "a chroot that is booted",
            not (is_chroot and provision == "restart"),
            "a chroot runs on the machine's kernel, which is not booted for it",
            'set provision = "reuse", or image = "own"',
        ),
        finding(
            "kernel arguments",
            not machine.kernel_arguments or (provision == "restart" and not is_chroot),
            "they take a boot of the machine, which is not booted unless you say so",
            'set provision = "restart" and image = "own", or leave isolation by the kernel out',
        ),
        finding(
            "neighbours",
            not machine.neighbours or is_chroot,
            "what goes on beside it comes from the lab's image, and the machine is to use its own programs",
            'set image = "chroot", or leave contention out',
        ),
    ]


plugin = SshEnvironment()
