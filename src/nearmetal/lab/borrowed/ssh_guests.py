"""Machines behind SSH, at an address that is known only when they run: guests of the user's, or of a tool of theirs.

Such a machine is used as one of kind `ssh` is (machine.py), but it is no site of its own: its handle says how
one logs in, and its site is the host that it is started from.
"""

import asyncio
import contextlib
from typing import TypeVar

from nearmetal import cpu_lists
from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, MachineLost, NearmetalError, NotProvisioned, Unreachable
from nearmetal.lab import host_lock
from nearmetal.lab.borrowed.borrowed_machine import TOOLS, BorrowedMachine, Borrowing, check_address
from nearmetal.lab.host_checks import check_programs, finding
from nearmetal.lab.local_site import list_available_cpus
from nearmetal.lab.ssh.ssh_site import SshSite
from nearmetal.model import Cost, Finding, Handle, HostSpec, MachineSpec, Order, Provision, Recorder, Site
from nearmetal.progress_messages import ignore_text

_PARTING = 3.0
"""Seconds for a machine to answer that it goes: one that is gone at once never does."""
_PAUSE = 1.0
"""Seconds between two attempts to log in."""


def check_permitted(provision: Provision | None, machine: MachineSpec) -> list[Finding]:
    """What a study asks for that is not done to a machine behind SSH. Pure."""
    return [
        finding(
            "kernel arguments",
            not machine.kernel_arguments or provision == "restart",
            "they take another boot of the machine, which is not booted again unless you say so",
            'set provision = "restart", or leave isolation by the kernel out',
        ),
        finding(
            "neighbours",
            not machine.neighbours,
            "what goes on beside it comes from the lab's image, and it has the machine's own programs",
            "leave contention out for it",
        ),
    ]


async def check_inside(way: HostSpec, machine: MachineSpec) -> list[Finding]:
    """What speaks against a machine that runs already, as it is seen when one logs in."""
    try:
        there = await SshSite.open("guest", way, ignore_text)
    except NearmetalError as error:
        return [Finding(what=f"a way into {way.ssh}", ok=False, detail=error.what, remedy=error.remedy)]
    try:
        found = [
            *await check_programs(there, TOOLS),
            await _cpus_found(machine, there),
            await host_lock.check_holder(there),
        ]
        return [*found, await check_address(there)] if found[0].ok else found
    finally:
        await there.close()


async def _cpus_found(machine: MachineSpec, there: Site) -> Finding:
    has = len(await list_available_cpus(there))
    remedy = f"set machine.vcpus to at most {has}, or give it more"
    return finding(f"{machine.vcpus} CPUs in it", machine.vcpus <= has, f"it has {has}", remedy)


class GuestBehindSsh(BorrowedMachine):
    """A `Machine` on a host that is not looked into: what it costs there is not known."""

    async def cost(self) -> Cost | None:
        return None


Kind = TypeVar("Kind", bound=BorrowedMachine)


class BehindSsh:
    """The machines of one environment, each known by its handle's name.

    The environment's `create` starts a machine, finds its address and calls `enter`; its `attach` calls `attach`; its
    `destroy` calls `leave` for one that stays up, and `let_go` for one that it stops.
    """

    def __init__(self) -> None:
        self._there: dict[str, SshSite] = {}
        self._borrowing = Borrowing()

    async def enter(self, handle: Handle, order: Order, way: HostSpec, ledger: Recorder) -> Handle:
        """Log in as soon as it answers, keep everybody else from measuring on it, and confine what will run there.

        The handle, and the ledger, then have all that is needed to come back. `way` says how one logs in, as root;
        its `trunk` is the address to measure where SSH reaches another. NotProvisioned, with what helps.
        """
        there = await self._reach(handle.name, way, LIMITS.boot)
        try:
            needed = [*await check_programs(there, TOOLS), await _cpus_found(order.spec, there)]
            if lacking := next((one for one in needed if not one.ok), None):
                raise HostCannot(f"{lacking.what}: {lacking.detail}", there.where, lacking.remedy)
            await host_lock.hold_host(there)
            known = handle.knowing(data={"way": way.model_dump(mode="json")})
            cpus = cpu_lists.show(range(order.spec.vcpus))
            return await self._borrowing.borrow(known, order, cpus, there, ledger)
        except HostCannot as error:
            raise NotProvisioned(error.what, error.where, error.remedy) from None

    async def attach(self, kind: type[Kind], handle: Handle, site: Site) -> Kind:
        """NotProvisioned when it does not answer, or was not entered."""
        return await self._borrowing.attach(kind, handle, await self._again(handle), site)

    async def leave(self, handle: Handle) -> None:
        """Take away what is ours in it. Idempotent; NotProvisioned when it cannot be reached for that."""
        if "way" in handle.data:
            await self._borrowing.give_back(handle.name, await self._again(handle))
        await self.let_go(handle)

    async def try_to_leave(self, handle: Handle) -> None:
        """Take away what is ours in a machine that is about to be stopped, if it answers. Idempotent."""
        with contextlib.suppress(NearmetalError):
            await self.leave(handle)

    async def power_off(self, handle: Handle) -> bool:
        """Tell it from inside to power itself off, where one gets in, and close what leads there. Whether it heard."""
        is_told = False
        if "way" in handle.data:
            await self.try_to_leave(handle)
            with contextlib.suppress(NearmetalError):
                telling = await (await self._again(handle)).spawn(["poweroff"])
                is_told = True
                is_told = (await telling.wait(_PARTING)).status == 0
        await self.let_go(handle)
        return is_told

    async def let_go(self, handle: Handle) -> None:
        """Close what leads there; what still runs there ends. Idempotent."""
        self._borrowing.let_go(handle.name)
        if there := self._there.pop(handle.name, None):
            await there.close()

    async def _again(self, handle: Handle) -> SshSite:
        if "way" not in handle.data:
            raise NotProvisioned("its creation was interrupted", handle.name)
        return await self._reach(handle.name, HostSpec.from_json(handle.data["way"]), LIMITS.command)

    async def _reach(self, name: str, way: HostSpec, within: float) -> SshSite:
        """The machine as a site. Who is refused is told at once; that nobody answers, when the time is over."""
        until = asyncio.get_running_loop().time() + within
        while name not in self._there:
            try:
                self._there[name] = await SshSite.open(name, way, ignore_text)
            except (Unreachable, MachineLost) as error:
                if asyncio.get_running_loop().time() > until:
                    raise NotProvisioned(error.what, name, "look at its console") from None
                await asyncio.sleep(_PAUSE)
            except HostCannot as error:
                raise NotProvisioned(error.what, error.where, error.remedy) from None
        return self._there[name]
