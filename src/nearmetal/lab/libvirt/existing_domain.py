"""A domain that is somebody's, such as those of virt-manager: used while it runs, or started and shut down again.

Nothing of its definition is changed, and its power is never cut: one that does not shut down is told. A run that is
started here bears a mark, in what libvirt keeps of that run alone, so that no other is taken for it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from nearmetal import units
from nearmetal.errors import HostCannot, NotProvisioned, ToolFailed
from nearmetal.lab.libvirt import output
from nearmetal.lab.libvirt.output import Address
from nearmetal.lab.libvirt.virsh import Connection
from nearmetal.model import Cost, Provision

RUNS, OFF, PAUSED = "running", "shut off", "paused"
_STATES_THAT_RUN = (RUNS, "idle", "blocked")
"""Xen says "idle" of a domain that runs and has nothing to do."""
_SOURCES = ("lease", "agent", "arp")
_ADDRESS = 300.0
"""Seconds that a domain which was started may take to have an address: a whole distribution boots, emulated perhaps."""
_DOWN = 180.0
_AGAIN = 15.0
"""Seconds until it is told again."""
_PAUSE = 0.5
_MARKS = "urn:nearmetal:run"
"""The namespace of the element that has the mark."""
_UNMARKED = "metadata not found"
NO_ADDRESS = (
    "put it on a network of libvirt's, install qemu-guest-agent in it, "
    'or take kind = "ssh" with address = "root@…" while it runs'
)

T = TypeVar("T")


@dataclass(frozen=True)
class DomainState:
    name: str
    uuid: str
    state: str
    has_saved: bool
    """Whether its memory was saved when it was stopped, and starting it would use that up."""
    vcpus: int
    memory: int
    """Bytes."""

    @property
    def runs(self) -> bool:
        return self.state in _STATES_THAT_RUN


async def find(connection: Connection, name: str) -> DomainState:
    """HostCannot where libvirt does not answer, or none or two have the name."""
    uuids = output.parse_uuids(await connection.run("list", "--all", "--uuid", "--name"), name)
    if not uuids:
        names = ", ".join((await connection.run("list", "--all", "--name")).split("\n")).strip(", ")
        raise HostCannot(f"there is no domain {name!r}", connection.uri, f"name one of: {names or '(there is none)'}")
    if len(uuids) > 1:
        raise HostCannot(f"{len(uuids)} domains are called {name!r}", connection.uri, "rename one: virsh domrename")
    facts = output.parse_facts(await connection.run("dominfo", uuids[0]))
    return DomainState(
        name=name,
        uuid=uuids[0],
        state=facts.get("State", "unknown"),
        has_saved=facts.get("Managed save") == "yes",
        vcpus=int(facts["CPU(s)"]),
        memory=units.parse_size(facts["Max memory"].replace(" ", "")),
    )


def refuse_unready(found: DomainState, provision: Provision) -> None:
    """HostCannot where a domain in this state cannot be had so. Pure."""
    if found.state != OFF and not found.runs:
        raise HostCannot(f"{found.name} is {found.state}", remedy=f"see: virsh domstate {found.name}; then start it")
    if found.has_saved and not found.runs:
        raise HostCannot(
            f"{found.name} was saved as it ran, and goes on from there but once",
            remedy=f"start it yourself, or forget what was saved: virsh managedsave-remove {found.name}",
        )
    if provision == "boot" and found.runs:
        raise HostCannot(
            f"{found.name} runs, and each boot is to start it",
            remedy='set provision = "reuse" to measure it as it is, or shut it down',
        )


class Domain:
    """One that is somebody's, by its UUID."""

    def __init__(self, connection: Connection, uuid: str) -> None:
        self._connection = connection
        self.uuid = uuid

    async def address(self) -> Address | None:
        """What the network's leases, the guest's agent or the host's neighbours say of it, whichever knows."""
        macs = output.parse_macs(await self._connection.run("domiflist", self.uuid))
        for source in _SOURCES:
            with contextlib.suppress(HostCannot):  # no such network, no agent: the next may know
                found = output.parse_address(
                    await self._connection.run("domifaddr", self.uuid, "--source", source), macs
                )
                if found:
                    return found
        return None

    async def start(self, mark: str) -> None:
        """Marked before its first instruction. HostCannot; where libvirt keeps no marks, nothing is started."""
        await self.mark()
        await self._connection.run("start", self.uuid, "--paused")
        element = f'<run mark="{mark}"/>'
        await self._connection.run("metadata", self.uuid, _MARKS, "--live", "--key", "nearmetal", "--set", element)
        await self.resume()

    async def resume(self) -> None:
        await self._connection.run("resume", self.uuid)

    async def mark(self) -> str | None:
        """Of the run that goes on; None where nobody marked it, or it is off. HostCannot where libvirt keeps none."""
        try:
            return output.parse_mark(await self._connection.run("metadata", self.uuid, _MARKS))
        except HostCannot as error:
            if _UNMARKED in error.what:
                return None
            raise

    async def state(self) -> str:
        return (await self._connection.run("domstate", self.uuid)).strip()

    async def addressed(self) -> Address:
        """As soon as it has an address. NotProvisioned when it has none in time, or ends."""
        until = asyncio.get_running_loop().time() + _ADDRESS
        while True:
            found = await self.address()
            if found:
                return found
            if not await self.runs():
                raise self._ended()
            if asyncio.get_running_loop().time() > until:
                raise NotProvisioned(f"nothing tells its address within {_ADDRESS:g} s", self.uuid, NO_ADDRESS)
            await asyncio.sleep(_PAUSE)

    async def while_it_runs(self, work: Awaitable[T]) -> T:
        """What comes of work on a domain; NotProvisioned as soon as that runs no more, whatever the work waits for."""

        async def watch() -> None:
            while True:
                if not await self.runs():
                    return
                await asyncio.sleep(_PAUSE)

        working, watching = asyncio.ensure_future(work), asyncio.ensure_future(watch())
        try:
            await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
            if not working.done() and watching.exception() is None:
                raise self._ended()
            return await working
        finally:
            for task in (working, watching):
                task.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)

    def _ended(self) -> NotProvisioned:
        return NotProvisioned("it has shut down while it booted", self.uuid, "see its console")

    async def runs(self) -> bool:
        """Not where it is there no more."""
        return self.uuid in (await self._connection.run("list", "--uuid")).split()

    async def run_id(self) -> str:
        """Which of its runs this is, as long as its libvirtd goes on: the next one counts anew. "-" while it is off."""
        return (await self._connection.run("domid", self.uuid)).strip() if await self.runs() else "-"

    async def bears(self, mark: str) -> bool:
        """Whether it runs, and that run is the one with this mark."""
        return await self.runs() and await self.mark() == mark

    async def shut_down(self, name: str, mark: str, tell: Callable[[], Awaitable[bool]]) -> None:
        """Return when the run with this mark is over. HostCannot when it goes on.

        `tell` has it power itself off from inside, and says whether it heard: a guest that has nobody to hear libvirt
        hears nothing from outside. One that boots hears neither, so it is told again.
        """
        now = asyncio.get_running_loop().time
        until, again = now() + _DOWN, 0.0
        while await self.bears(mark):
            if await self.state() == PAUSED:
                await self.resume()  # it hears nothing otherwise
            if now() > until:
                raise HostCannot(
                    f"{name} still runs {_DOWN:g} s after it was to shut down",
                    self._connection.uri,
                    f"log in and shut it down, or cut its power: virsh --connect {self._connection.uri} "
                    f"destroy {self.uuid}",
                )
            if now() > again:
                again = now() + _AGAIN
                if not await tell():
                    with contextlib.suppress(HostCannot):  # it may be off by now
                        await self._connection.run("shutdown", self.uuid)
            await asyncio.sleep(_PAUSE)

    async def cost(self) -> Cost | None:
        """None where libvirt does not tell."""
        try:
            return output.parse_cost(await self._connection.run("domstats", "--cpu-total", self.uuid))
        except (HostCannot, ToolFailed):
            return None
