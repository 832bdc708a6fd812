"""The lab of one run: its sites, switches and machines, all of them in the ledger before they exist."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import IO

from nearmetal import plugins
from nearmetal.errors import HostCannot, MachineGone, NearmetalError, message_of
from nearmetal.lab import machine_image
from nearmetal.lab.access_denials import naming_denials
from nearmetal.lab.changes import change_applier
from nearmetal.lab.changes.change_applier import ChangeOutcome, UndoNotRecorded, UndoOutcome
from nearmetal.lab.changes.ledger import Ledger
from nearmetal.lab.commands import orphans
from nearmetal.lab.leftovers import Leftover
from nearmetal.lab.local_site import BoundCommands
from nearmetal.lab.networks import link as links
from nearmetal.lab.networks import network
from nearmetal.lab.networks import trunk as trunks
from nearmetal.lab.networks import underlay as underlays
from nearmetal.lab.networks.link import Link
from nearmetal.lab.networks.trunk import Trunk, Tunnel
from nearmetal.lab.networks.underlay import Underlay
from nearmetal.model import (
    Change,
    Commands,
    Handle,
    LinkSpec,
    Machine,
    MachineSpec,
    Order,
    Port,
    ResolvedEnvironment,
    Role,
    SharedNetwork,
    Site,
)

_WIRES = (links.KIND, trunks.KIND)

OpenSite = Callable[[str], Awaitable[Site]]


@dataclass(frozen=True)
class ClearOutcome:
    """What became of what a lab had changed, in words, and of what it had made that is still there."""

    restored: tuple[str, ...]
    left: tuple[Leftover, ...]


class Lab:
    """Makes and removes. `token` tells this lab's things from everybody else's."""

    def __init__(self, token: str, ledger: Ledger, open_site: OpenSite, mtu: int = network.MTU) -> None:
        orphans.sign_process(token)
        self.token = token
        self.ledger = ledger
        self.mtu = mtu
        self._open_site = open_site
        self.sites: dict[str, Site] = {}
        self._switches: dict[str, Handle] = {}
        self._machines: dict[str, tuple[Handle, Machine]] = {}
        self._ports: dict[str, Port] = {}
        """By machine name."""
        self._places: dict[str, Port] = {}
        """By machine name, its place on its host's own network: where its port is to be patched to."""
        self._link: Link | None = None
        self._images: dict[str, IO[bytes] | None] = {}
        """By name, those that are kept from being removed."""
        self._switching = asyncio.Lock()
        self._made = 0
        self.left_told: set[str] = set()
        """What was told to be left behind: it is tried again after every boot, and told once."""

    async def site(self, name: str) -> Site:
        if name not in self.sites:
            site = await self._open_site(name)
            if site.spec is not None:
                self.ledger.reached(name, site.spec)
            self.sites[name] = site
        return self.sites[name]

    async def create(
        self,
        environment: ResolvedEnvironment,
        spec: MachineSpec,
        role: Role,
        cpuset: str,
        site: Site,
        bridge: str | None = network.BRIDGE,
        shared: SharedNetwork | None = None,
        logins: bool = False,
    ) -> Handle:
        """One machine, running. Its name and its place on the switch follow from how many there have been.

        `shared`: it has its site's own network instead of a place on the switch. `logins`: people log in to it.
        """
        plugin = plugins.load("environments", environment.kind)
        if not self._images.get(spec.image):
            self._images[spec.image] = machine_image.hold_image(spec.image)
        self._made += 1
        number, name = self._made, f"nm-{self.token}-{self._made}"  # others are made meanwhile
        if environment.description.is_on_switch and shared is None:
            self._ports[name] = network.make_port(await self._switch(site), number, bridge, self.mtu)
        order = Order(
            name=name,
            role=role,
            spec=spec,
            options=environment.options,
            provision=environment.provision,
            port=self._ports.get(name),
            shared=shared,
            cpus=cpuset,
            logins=logins,
        )
        async with naming_denials(site):
            return await plugin.create(order, site, self.ledger)

    async def _switch(self, site: Site) -> str:
        """The name of the switch on a site. Hosts may share their namespaces, so that names must not clash."""
        async with self._switching:
            if site.name in self._switches:
                return self._switches[site.name].name
            name = f"nm-{self.token}" if site.spec is None else f"nm-{self.token}-{site.name}"
            self._switches[site.name] = await network.create_switch(name, site, self.ledger)
            return name

    async def join(self, tunnel: Tunnel, servers: Site, clients: Sequence[Site], bridge: str) -> Trunk:
        """A trunk from a site's switch to those of other sites, at this bridge of each; it lies until `take_up`."""
        namespaces = {site.name: await self._switch(site) for site in (servers, *clients)}
        pairs = [await trunks.find_ends(servers, site) for site in clients]
        return await trunks.lay_trunk(f"nm-{self.token}", tunnel, pairs, namespaces, bridge, self.ledger)

    async def find_mtu(self, servers: Site, clients: Sequence[Site]) -> int:
        """Bytes that all interfaces carry by which these hosts reach each other. HostCannot."""
        return min(end.mtu for end in (await underlays.find_interfaces(servers, clients)).values())

    async def connect(self, servers: Sequence[Machine], clients: Sequence[Machine]) -> Underlay:
        """Give machines a place on their hosts' own network: clients here, servers by `lay`. HostCannot."""
        center = servers[0].site
        sites = {one.site.name: one.site for one in clients if one.site.name != center.name}
        interfaces = await underlays.find_interfaces(center, list(sites.values()))
        machines = [*servers, *clients]
        ports = [(self._ports[one.name], interfaces[one.site.name]) for one in machines]
        underlay, places = await underlays.lay_underlay(f"nm-{self.token}", ports, self.ledger)
        self._places = {
            one.name: port.model_copy(update={"outside": places[port]})
            for one, (port, _) in zip(machines, ports, strict=True)
        }
        for one in clients:
            port, place = self._ports[one.name], self._places[one.name]
            await network.patch_links(port.outside, place.outside, network.name_namespace(port), one.site)
        return underlay

    async def lay(
        self, spec: LinkSpec, pairs: Sequence[tuple[str, str]], cpuset: str, site: Site, *, seed: int
    ) -> Link:
        """The way between these servers and clients, by their names; it lies until `take_up`."""
        ends = [(self._ports[server], self._places.get(server, self._ports[client])) for server, client in pairs]
        ends = list(dict.fromkeys(ends))  # a server has one place on its host's network for all clients
        switch = self._switches[site.name].name
        self._link = await links.lay_link(switch, spec, ends, cpuset, site, self.ledger, seed=seed)
        return self._link

    async def take_up(self) -> list[Leftover]:
        """Remove link and trunk, where they lie or were begun, before their machines go; what could not be."""
        left: list[Leftover] = []
        if self._link is not None:
            link, self._link = self._link, None
            try:
                await link.remove()
            except NearmetalError as error:
                left.append(Leftover(str(error)))
        self._places.clear()
        wires = [handle for handle in self.ledger.outstanding().handles if handle.kind in _WIRES]
        return left + await self.destroy_all(wires)

    async def destroy_all(self, handles: Sequence[Handle]) -> list[Leftover]:
        """At the same time. What could not be destroyed; it stays in the ledger."""
        left: list[Leftover] = []
        ended = await asyncio.gather(*(self.destroy(handle) for handle in handles), return_exceptions=True)
        for handle, error in zip(handles, ended, strict=True):
            if isinstance(error, Exception):
                left.append(Leftover(f"{handle.kind} {handle.name} on {handle.site}", message_of(error)))
            elif error is not None:
                raise error
        return left

    async def attach(self, handle: Handle) -> Machine:
        plugin = plugins.load("environments", handle.kind)
        site = await self.site(handle.site)
        async with naming_denials(site):
            machine = await plugin.attach(handle, site)
        if lacking := plugins.describe_lacking(Machine, machine):
            raise HostCannot(f"of what {handle.kind!r} attaches: {lacking}", handle.name, "ask whoever made the plugin")
        self._machines[machine.name] = (handle, machine)
        return machine

    async def apply(self, wanted: list[Change]) -> ChangeOutcome:
        return await change_applier.apply_changes(wanted, self.ledger, self.reach)

    async def undo(self) -> list[UndoOutcome]:
        """Put back every value. UndoNotRecorded."""
        return await change_applier.undo_changes(self.ledger, self.reach)

    async def undo_first(self) -> list[UndoOutcome]:
        """Put back values before machines are removed. What cannot be noted is left to the `undo` after that."""
        try:
            return await self.undo()
        except UndoNotRecorded as error:
            return error.undone

    async def reach(self, on: str) -> Commands:
        """What a change is made on: "site:NAME", or a machine's name. MachineGone when it has been removed."""
        if on.startswith("site:"):
            return BoundCommands(await self.site(on.removeprefix("site:")))
        if on not in self._machines:
            held = [handle for handle in self.ledger.outstanding().handles if handle.name == on]
            if not held:
                raise MachineGone("the machine is removed, and its changes with it", on)
            await self.attach(held[0])
        return self._machines[on][1]

    async def destroy(self, handle: Handle) -> None:
        await remove(handle, await self.site(handle.site))
        self._machines.pop(handle.name, None)
        self._ports.pop(handle.name, None)
        self.ledger.destroyed(handle)

    def machines(self) -> list[Handle]:
        """Handles of all machines that are there, newest first; also of those that never came up."""
        return [handle for handle in self.ledger.outstanding().handles if handle.kind not in (network.KIND, *_WIRES)]

    async def close(self) -> list[str]:
        """Put back and remove whatever is still there, machines first; what could not be, in words."""
        return [str(one) for one in (await self.clear()).left]

    async def clear(self) -> ClearOutcome:
        """As `close`; also what was put back. Each thing is told once, as it is at the end."""
        held = self.ledger.outstanding().handles
        undone = await self.undo_first()
        left = await self.destroy_all([handle for handle in held if handle.kind in _WIRES])
        left += await self.destroy_all(self.machines())
        # A machine whose values could not be put back has taken them with it, now that it is removed.
        try:
            again = await self.undo()
        except UndoNotRecorded as error:
            again = error.undone
            left.append(Leftover(str(self.ledger.path), error.strerror or str(error)))
        left += await self.destroy_all([handle for handle in held if handle.kind == network.KIND])
        self._switches.clear()
        for image in filter(None, self._images.values()):
            image.close()
        self._images.clear()
        failed = {one.change.on for one in undone if one.outcome == "failed"}
        kept = {handle.name for handle in held if handle.name in failed and _is_still_there(handle)}
        return ClearOutcome(
            restored=tuple(one.told for one in (*undone, *again) if one.outcome in ("restored", "already so")),
            left=(
                *(one.left for one in undone if one.outcome == "left"),
                *(one.left for one in undone if one.outcome == "failed" and one.change.on in kept),
                *(one.left for one in again if one.outcome in ("left", "failed") and one.change.on not in kept),
                *left,
            ),
        )


def _is_still_there(handle: Handle) -> bool:
    """Whether a machine stays when it is given back. One whose plugin cannot be loaded was not given back by it."""
    try:
        plugins.load("environments", handle.kind)
    except NearmetalError:
        return True
    return handle.stays


async def remove(handle: Handle, site: Site) -> None:
    """Remove what a handle stands for, whoever made it."""
    if handle.kind == network.KIND:
        await network.destroy_switch(handle, site)
    elif handle.kind == links.KIND:
        await links.remove_link(handle, site)
    elif handle.kind == trunks.KIND:
        await trunks.remove_end(handle, site)
    elif handle.kind == "engine":
        # With Docker's SDK, which most that is removed has no need of.
        from nearmetal.lab.containers.private_engine import remove as remove_engine

        await remove_engine(handle)
    else:
        await plugins.load("environments", handle.kind).destroy(handle, site)
