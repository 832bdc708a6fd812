"""What a boot lays and starts around its machines: a trunk between hosts, a link, neighbours on a server's CPUs."""

import contextlib
from dataclasses import dataclass, field
from typing import Any

from nearmetal.errors import TimedOut
from nearmetal.lab.lab import Lab
from nearmetal.lab.networks import link as links
from nearmetal.lab.networks import network
from nearmetal.lab.networks.link import Link
from nearmetal.lab.networks.trunk import Trunk
from nearmetal.lab.networks.underlay import Underlay
from nearmetal.lab.stage import LabStage
from nearmetal.model import Readback, Resolved, Running
from nearmetal.run.site_resources import list_other_hosts


@dataclass
class Neighbour:
    argv: tuple[str, ...]
    running: Running


@dataclass
class BootSurroundings:
    trunk: Trunk | Underlay | None = None
    link: Link | None = None
    neighbours: list[Neighbour] = field(default_factory=list)

    async def join_hosts(self, asked: Resolved, lab: Lab, stage: LabStage) -> dict[str, Any]:
        """Join servers and clients that hang on switches of different hosts; what there is to be told of it."""
        if others := list_other_hosts(asked):
            if (bridge := links.choose_bridge(asked.link, "client")) is None:
                self.trunk = await lab.connect(stage.servers, stage.clients)
            else:
                servers, clients = await lab.site(asked.server.host), [await lab.site(name) for name in others]
                self.trunk = await lab.join(asked.link.tunnel or "vxlan", servers, clients, bridge)
            return {}
        return {} if lab.mtu == network.MTU else {"trunk": {"by": "none", "mtu": lab.mtu}}

    async def lay_link(self, asked: Resolved, lab: Lab, stage: LabStage, cpus: str, *, seed: int) -> None:
        """Lay the way between servers and clients, where it is not simply the switch."""
        if asked.link.is_laid:
            ends = [(stage.facing(number).name, client.name) for number, client in enumerate(stage.clients)]
            self.link = await lab.lay(asked.link, ends, cpus, stage.servers[0].site, seed=seed)

    async def verify(self) -> list[tuple[str, Readback]]:
        """Whether each is as it should be, by its name."""
        found = await self.verify_way()
        if self.neighbours:
            found.append(("neighbours", await self._read_neighbours()))
        return found

    async def verify_way(self) -> list[tuple[str, Readback]]:
        """Whether trunk and link, which lie between servers and clients, are as they should be, by name."""
        found: list[tuple[str, Readback]] = []
        if self.trunk is not None:
            found.append(("trunk", await self.trunk.verify()))
        if self.link is not None:
            found.append(("link", await self.link.verify()))
        return found

    async def _read_neighbours(self) -> Readback:
        values = {"running": [" ".join(one.argv) for one in self.neighbours]}
        for one in self.neighbours:
            with contextlib.suppress(TimedOut):
                ended = await one.running.wait(0)
                said = ended.complaint[-300:]
                reason = f"`{' '.join(one.argv)}` ended with {ended.status}: {said}"
                return Readback(values=values, ok=False, reason=reason)
        return Readback(values=values)
