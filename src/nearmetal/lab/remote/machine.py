"""Machines that are reached from outside, by whatever way: what they are, and how one comes back from a reboot."""

import asyncio
import contextlib
from abc import abstractmethod

from nearmetal.config import LIMITS
from nearmetal.errors import MachineLost, NotProvisioned, TimedOut
from nearmetal.lab import probe
from nearmetal.lab.networks import network
from nearmetal.lab.remote.commands import RemoteCommands
from nearmetal.lab.remote.readiness import AGAIN
from nearmetal.model import Cost, Site


class ReachedMachine(RemoteCommands):
    """A `Machine`. Those who inherit connect to it."""

    interface = network.INSIDE
    boot_limit = LIMITS.boot
    """Seconds until it has to answer."""

    def __init__(self, *, name: str, role: str, site: Site, owned: bool, address: str, peer: str | None) -> None:
        super().__init__(name)
        self.role = role
        self.site = site
        self.owned = owned
        self.address = address
        self.peer = peer
        self.probe = probe.INSIDE
        self.arch = ""
        self.boot_id = ""

    async def ready(self) -> bool:
        """Whether it is worth while to try to connect; may raise what makes waiting pointless."""
        return True

    async def connect(self) -> None:
        """As soon as it answers; then see what it is, and which boot. NotProvisioned when it does not in time."""
        await self.reach()

    @abstractmethod
    async def reach(self) -> None:
        """What `connect` does, by one way."""

    @abstractmethod
    def abort(self) -> None:
        """Let go of the connection at once; the machine goes on."""

    async def reboot(self) -> None:
        before = self.boot_id
        with contextlib.suppress(MachineLost, TimedOut):
            await self.exec(["reboot"], timeout=LIMITS.stop)
        try:
            async with asyncio.timeout(self.boot_limit):
                while self.boot_id == before:
                    await self._connect_again()
        except TimeoutError:
            raise NotProvisioned(f"it did not come back within {self.boot_limit:g} s", self.name) from None

    async def _connect_again(self) -> None:
        """It may still be the boot that is ending which answers."""
        # A machine that restarts at once says no goodbye: its connection would seem to live on.
        self.abort()
        await asyncio.sleep(AGAIN)
        with contextlib.suppress(MachineLost, TimedOut):
            await self.connect()

    async def cost(self) -> Cost | None:
        return None

    async def close(self) -> None:
        """Let go of the connection; the machine goes on."""
        self.abort()
