"""A guest of QEMU's that runs: how it is reached, and what is known of it from outside.

The lab's image has an agent in it; the user's own are reached otherwise (cloud_image_guest.py).
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

from qemu.qmp import QMPError

from nearmetal.config import LIMITS, Paths
from nearmetal.errors import HostCannot, MachineError, MachineLost, NotProvisioned, TimedOut, ToolFailed
from nearmetal.lab import cgroup
from nearmetal.lab.commands.process import LocalProcess
from nearmetal.lab.keys import lab_keys
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.machines.init_process import FirstProcess
from nearmetal.lab.machines.pause_events import PauseRecorder
from nearmetal.lab.networks import network
from nearmetal.lab.remote import agent
from nearmetal.lab.remote.machine import ReachedMachine
from nearmetal.lab.remote.readiness import first_to_speak
from nearmetal.lab.service import describe_end
from nearmetal.model import ControlGroup, Cost, Handle, Running, SharedFolder, Site

from . import arguments, monitor, template
from .console import Console
from .livelock import Spinning

LOOPBACK = "127.0.0.1"
_PORTS = ("ssh_port", "agent_port")
_LOOK_AGAIN = 1.0
_LONG = 3600.0
"""Seconds after which one waits for QEMU's end again."""
_LONGEST_STOP = 6.0
"""Seconds for which a signal may stop QEMU before the guest counts as lost."""
_BOUND_AGAIN = 10.0
"""Seconds between two looks at the size of a console: a serial line carries less than 100 MB in that time."""
_FAR_PAUSE = 0.25
"""Seconds between two looks at a guest that boots on another host: each look starts programs beside it."""
# What the host changes is seen at once: nothing is cached. A machine that is attached again has it already.
_MOUNT = """
set -e
while read -r tag at rest; do [ "$tag" != "$1" ] || exit 0; done </proc/mounts
modprobe -a 9pnet_virtio 9p
mkdir -p -- "$2"
exec mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=none,ro "$1" "$2"
"""


async def forward_ports(handle: Handle, site: Site) -> Mapping[str, int]:
    """The ports of our own loopback that lead into the guest, wherever it is, by their names in the handle.

    NotProvisioned when it was never whole.
    """
    if handle.hardware is None:
        raise NotProvisioned("its creation was interrupted", handle.name)
    return {name: await site.forward(handle.data[name]) for name in _PORTS}


async def withdraw_ports(handle: Handle, site: Site) -> None:
    for name in _PORTS:
        if name in handle.data:
            await site.withdraw(handle.data[name])


class Guest(ReachedMachine):
    """What is the same however the guest is reached."""

    remedy = (
        "as its console suggests, change machine.memory, machine.kernel_arguments or machine.accel; "
        "`nearmetal doctor` tries the accelerators"
    )
    """What to do about one that does not come up."""

    def __init__(self, handle: Handle, site: Site, running: Running | None, **reach: Any) -> None:
        port, hardware = handle.port, handle.hardware
        assert hardware is not None
        super().__init__(
            name=handle.name,
            role=handle.role,
            site=site,
            owned=True,
            address=port.address if port else "",
            peer=network.name_peer(port),
            **reach,
        )
        self.accel = hardware.accel
        self._group = handle.life if isinstance(handle.life, ControlGroup) else None
        if "group" in handle.data:
            self._group = ControlGroup(**handle.data["group"])
        self._process = None if self._group else FirstProcess.in_ledger(handle)
        """Its QEMU, if it has no control group."""
        self._console = Console(site, f"{handle.data['folder']}/{arguments.CONSOLE}")
        self._mtu = port.mtu if port else network.MTU
        self._share = SharedFolder.parse(handle.data["share"]) if handle.data.get("share") else None
        self._running = running
        self._folder: str = handle.data["folder"]
        self._watching: asyncio.Future[tuple[None, None, None]] | None = None
        self._pause_recorder: PauseRecorder | None = None

    async def connect(self) -> None:
        """NotProvisioned with the end of the console and a remedy when the guest does not come up."""
        try:
            await super().connect()
            await self._settle_in_time()
        except NotProvisioned as error:
            said = await template.find_last_words(self._running) if self._running else None
            what = f"{error.what}: {said}" if said else error.what
            raise NotProvisioned(f"{what}\n{await self._console.tail()}", self.name, self.remedy) from None
        if self._mtu != network.MTU:
            await run_checked(self, "ip", "link", "set", self.interface, "mtu", str(self._mtu))
        if self._share:
            await run_checked(self, "sh", "-c", _MOUNT, "mount", arguments.SHARE, self._share.mountpoint)

    async def _settle_in_time(self) -> None:
        try:
            async with asyncio.timeout(self.boot_limit):
                await self.settle()
        except TimeoutError:
            raise NotProvisioned(f"it answers, but is not ready within {self.boot_limit:g} s", self.name) from None

    async def settle(self) -> None:
        """What a guest of its kind needs once it answers."""

    async def ready(self) -> bool:
        """An attempt before it may be up would be lost and repeated only seconds later."""
        if self.site.spec is not None:
            await asyncio.sleep(_FAR_PAUSE)
        if not await self._is_running():
            raise NotProvisioned("QEMU has ended", self.name)
        return True

    async def _is_running(self) -> bool:
        if self.site.spec is not None and self._running is not None:
            return await template.find_last_words(self._running) is None  # costs nothing there
        if self._process:
            return await self._process.is_alive(self.site)
        for folder in self._group.folders if self._group else ():
            with contextlib.suppress(ToolFailed):
                if await self.site.get(f"{folder}/cgroup.procs"):
                    return True
        return False

    def watch(self) -> None:
        """Until `close`: when its disk fails or QEMU ends, it is lost for that reason. That a signal stopped QEMU is
        heard."""
        self._watching = asyncio.gather(self._until_trouble(), self._until_ended(), self._look_after())
        if isinstance(self._running, LocalProcess):  # what runs on another host is no child of ours
            self._pause_recorder = PauseRecorder(self._running.pid)

    async def paused(self, since: float) -> float:
        """A pause by the monitor is told by the guest's clock."""
        return self._pause_recorder.sum_seconds(since) if self._pause_recorder else 0.0

    async def _until_trouble(self) -> None:
        async def ended() -> str | None:
            return None if await self._is_running() else "it has ended"

        with contextlib.suppress(EOFError, OSError, QMPError, MachineError):
            async with monitor.open_monitor(self.site, self._folder, LIMITS.command, ended) as qemu:
                self.lose(await qemu.trouble(self.name, self.site.state))

    async def _until_ended(self) -> None:
        """On another host it may be the connection that ends, of which whatever is asked there tells."""
        with contextlib.suppress(MachineError):
            while self._running is not None:
                with contextlib.suppress(TimedOut):
                    ended = await self._running.wait(_LONG)
                    self.lose(MachineLost(f"its {describe_end('QEMU', ended)}", self.name))
                    return

    def lose(self, why: MachineLost) -> None:
        super().lose(why)
        self.abort()

    async def _look_after(self) -> None:
        """The console is bounded; a panic, and a QEMU that stays stopped, are the end of the guest.

        On another host the console is bounded where its cost is asked: a program that runs there would be measured too.
        """
        bounded = time.monotonic()
        while self.site.spec is None and self.trouble is None:
            await asyncio.sleep(_LOOK_AGAIN)
            with contextlib.suppress(HostCannot, OSError):
                if (end := await self.find_end()) is not None:
                    self.lose(end)
                if time.monotonic() >= bounded + _BOUND_AGAIN:
                    await self._console.bound()
                    bounded = time.monotonic()

    async def find_end(self) -> MachineLost | None:
        """Why it counts as lost, as its host sees it."""
        if self._pause_recorder and (seconds := self._pause_recorder.seconds_stopped) >= _LONGEST_STOP:
            return MachineLost(f"a signal has stopped its QEMU for {seconds:.0f} s", self.name)
        await self._console.look()
        if self._console.has_panicked:
            return MachineLost(f"the guest's kernel panicked; {await self._console.tail()}", self.name)
        return None

    async def close(self) -> None:
        if self._watching:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await super().close()

    async def reboot(self) -> None:
        await self._console.forget()
        await super().reboot()

    async def cost(self) -> Cost:
        # The group outlives a QEMU that was killed, and has its figures still.
        if not await self._is_running():
            raise self.lost()
        if self.site.spec is not None:
            with contextlib.suppress(HostCannot):
                await self._console.bound()
        try:
            if self._process:
                return Cost(cpu_seconds=await self._process.read_cpu_time(self.site), memory_bytes=None)
            assert self._group is not None
            return await cgroup.read_group_cost(self._group, self.site)
        except HostCannot:
            if not await self._is_running():
                raise self.lost() from None
            raise


class QemuMachine(Guest, agent.AgentMachine):
    """A guest of the lab's image."""

    def __init__(
        self, handle: Handle, site: Site, ports: Mapping[str, int], running: Running | None, is_made_here: bool
    ) -> None:
        secret = lab_keys(Paths.default().state).agent_of(handle.name)
        endpoint = agent.AgentEndpoint(LOOPBACK, ports["agent_port"], secret)
        super().__init__(handle, site, running, endpoint=endpoint)
        self.ssh_port = ports["ssh_port"] if handle.login else None
        """Of our loopback, where people may log in."""
        self._spinning: Spinning | None = None
        self._is_fresh = is_made_here and not handle.image.snapshot

    def watch(self) -> None:
        super().watch()
        if isinstance(self._running, LocalProcess):
            self._spinning = Spinning(self._running.pid)

    async def find_end(self) -> MachineLost | None:
        asked = min(self.unanswered.values(), default=None)
        livelock = self._spinning.look(asked, self.name) if self._spinning else None
        return await super().find_end() or livelock

    async def ready(self) -> bool:
        if not await super().ready():
            return False
        await self._console.look()
        if self._console.is_up:
            return True
        if self._console.has_panicked:
            raise NotProvisioned("the guest's kernel panicked", self.name)
        return False

    async def settle(self) -> None:
        """Where people are to log in, they can: one that was just booted may not let them in yet."""
        if self.ssh_port is not None and self._is_fresh:
            (await first_to_speak(LOOPBACK, self.ssh_port, super().ready)).close()
