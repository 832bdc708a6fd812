"""How machines of vSphere are found, borrowed and given back: what is asked of vSphere, in which order."""

import asyncio
import getpass
import socket
from collections.abc import Awaitable, Callable

from nearmetal.errors import HostCannot
from nearmetal.lab.vmware import vmware_machine as machines
from nearmetal.lab.vmware.vmware_machine import BorrowingRecord, Reconfiguration, VsphereMachine
from nearmetal.lab.vmware.vsphere import Vsphere
from nearmetal.spelling import did_you_mean

ADDRESS = 300.0
"""Seconds that a guest may take from its power to an address."""
_PAUSE = 0.5
"""Seconds between two looks for it."""
_SHOWN = 20
"""Names of machines that are told."""


def describe_borrower(name: str) -> str:
    """Who borrows a machine, for whoever finds it."""
    return f"{name} ({getpass.getuser()} on {socket.gethostname()})"


async def find_machine(api: Vsphere, name: str) -> VsphereMachine:
    """The machine of this name, which may have folders before it. HostCannot when there is none, or another one."""
    names = await api.names()
    called = [one for one, its in names.items() if machines.is_called(its, name)]
    if not called:
        alike = [one for one, its in names.items() if machines.is_called(its, name.rpartition("/")[2])]
        called = [one for one in alike if f"/{await api.place(one)}".endswith(f"/{name}")]
    if len(called) > 1:
        places = " and ".join(sorted([await api.place(one) for one in called]))
        raise HostCannot(f"{len(called)} machines are called {name!r}: {places}", remedy="name it with its folders")
    seen = await api.seen(called[0]) if called else None
    if seen is None:
        remedy = did_you_mean(name, sorted(names.values())[:_SHOWN], "there are")
        raise HostCannot(f"no machine that you may see is called {name!r}", remedy=remedy)
    return seen


async def make_clone(api: Vsphere, template: VsphereMachine, name: str, loan: BorrowingRecord) -> VsphereMachine:
    """A clone, marked, off. Its card is still the template's."""
    change = machines.find_change(template.hardware, loan.given, loan.mark).model_copy(update={"nic": ""})
    return await _require_machine(api, await api.clone(template.reference, name, change))


async def borrow_machine(api: Vsphere, seen: VsphereMachine, loan: BorrowingRecord) -> VsphereMachine:
    """A machine of the user's, marked, off."""
    await api.configure(seen, Reconfiguration(mark=loan.mark))
    marked = await _require_machine(api, seen.reference)
    if marked.mark != loan.mark:
        raise HostCannot(f"{marked.mark or 'somebody'} has borrowed it at the same moment", seen.name)
    if marked.power == "on":
        if not loan.was_on:
            raise HostCannot("somebody has started it at this moment", seen.name, "stop it for the study")
        await api.stop(marked.reference)
        marked = await _require_machine(api, marked.reference)
    return marked


async def start_borrowed(api: Vsphere, machine: VsphereMachine, loan: BorrowingRecord) -> None:
    """A machine that was configured as it was asked for. HostCannot when it is not so."""
    await api.start(machine.reference)
    differs = machines.list_differences((await _require_machine(api, machine.reference)).hardware, loan.given)
    if differs:
        raise HostCannot(f"it was not made as asked: {'; '.join(differs)}", machine.name)


async def _require_machine(api: Vsphere, reference: str) -> VsphereMachine:
    seen = await api.seen(reference)
    if seen is None:
        raise HostCannot("somebody has removed the machine", reference)
    return seen


async def wait_address(api: Vsphere, machine: VsphereMachine) -> str:
    """What its tools tell, as soon as they do."""
    until = asyncio.get_running_loop().time() + ADDRESS
    while True:
        seen = await _require_machine(api, machine.reference)
        address = machines.choose_address(seen.addresses)
        if address is not None:
            return address
        if seen.power != "on":
            raise HostCannot("it went off before it had an address", machine.name, "look at its console")
        if asyncio.get_running_loop().time() > until:
            remedy = (
                "look at its console: it may wait for an answer, or its network for a card of another model; "
                'where no tools run, name it: address = "192.168.7.2"'
            )
            raise HostCannot(f"its tools told no address within {ADDRESS:g} s", machine.name, remedy)
        await asyncio.sleep(_PAUSE)


async def remove_clone(api: Vsphere, clone: VsphereMachine) -> None:
    await api.settled(clone.reference)
    if (now := await api.seen(clone.reference)) is not None:
        if now.power == "on":
            await api.stop(now.reference)
        await api.remove(now.reference)


async def give_machine_back(
    api: Vsphere, now: VsphereMachine, loan: BorrowingRecord, leave: Callable[[], Awaitable[None]]
) -> None:
    """As it was found; `leave` takes away what is ours in the guest, before it is stopped.

    HostCannot while it runs for somebody else, and once for what somebody else has changed.
    """
    way = machines.plan_restore(loan, now)
    if way is None:
        return
    if way.runs:
        what = "somebody has started it, so that it cannot get back what it had"
        raise HostCannot(what, now.name, "stop it, then: nearmetal clean")
    if way.stop:
        await leave()
        await api.stop(now.reference)
    if way.change != Reconfiguration():
        await api.configure(await _require_machine(api, now.reference), way.change)
    if way.start:
        await api.start(now.reference)
    await api.configure(await _require_machine(api, now.reference), Reconfiguration(mark=""))
    if way.left:
        raise HostCannot(f"not all is as it was: {'; '.join(way.left)}", now.name, "see whether that is right")
