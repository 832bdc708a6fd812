"""Where packets are taken: in a machine, or outside it on its site, which costs the machine nothing but the copying."""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from nearmetal.errors import NearmetalError, ToolFailed
from nearmetal.lab import kernel, network
from nearmetal.lab.identity import FirstProcess
from nearmetal.model import CaptureSpec, Commands, Machine, Running

READY = 10.0
"""Seconds within which tcpdump has to have opened its file: it takes packets by then."""
PAUSE = 0.05
FILTER = "(tcp or udp) and not tcp port 22"
"""Commands cross the same interface where a machine has no other."""
_PACKET = 16
"""Bytes that a pcap file spends on each packet besides the packet's own."""
_BUFFER_KIB = 16_384
"""For packets that wait to be written; what finds no room is counted as dropped."""
_COUNTER = re.compile(rb"(\d+) packets? (captured|received by filter|dropped by kernel)")


@runtime_checkable
class _Contained(Protocol):
    """A machine whose first process its site sees, and with it the machine's network namespace."""

    first: FirstProcess


@dataclass(frozen=True)
class Captured:
    """`content` is None when there is none."""

    content: bytes | None
    counters: dict[str, int | str]


def tapped(machine: Machine, inside: bool, setting: CaptureSpec) -> "Tap":
    """Inside when asked for, or where no outside is known; else in a container's namespace, or at a guest's tap."""
    most = max(1, setting.limit // (setting.snap + _PACKET))
    site = machine.site
    if inside or (machine.peer is None and not isinstance(machine, _Contained)):
        return Tap(machine, (), machine.interface, f"/tmp/{machine.name}.pcap", setting.snap, most, machine.name)
    if kernel.is_its_hosts(machine) and isinstance(machine, _Contained):
        namespace, interface = f"/proc/{machine.first.pid}/ns/net", machine.interface
    else:
        name, _, interface = str(machine.peer).partition("/")
        namespace = network.namespace_path(name)
    file = f"{site.state}/machines/{machine.name}/capture.pcap"
    launched = (site.probe, "launch", *site.bound, "--netns", namespace, "--")
    return Tap(site, launched, interface, file, setting.snap, most, f"{machine.name}, outside on {site.name}")


@dataclass
class Tap:
    """One tcpdump, bounded by a number of packets."""

    on: Commands
    launched: Sequence[str]
    """Words before tcpdump's own."""
    interface: str
    file: str
    snap: int
    most: int
    """Packets after which it ends by itself."""
    where: str
    running: Running | None = field(default=None, init=False)

    async def start(self) -> None:
        folder = self.file.rpartition("/")[0]
        await self.on.exec(["mkdir", "-p", "--", folder])
        await self.on.exec(["rm", "-f", self.file])
        tcpdump = ["tcpdump", "-i", self.interface, "-n", "-s", str(self.snap), "-B", str(_BUFFER_KIB), "-Z", "root"]
        bounded = ["--time-stamp-precision=nano", "-c", str(self.most), "-w", self.file, FILTER]
        self.running = await self.on.spawn([*self.launched, *tcpdump, *bounded])

    async def listening(self) -> None:
        """Return once its file is there, which it opens after its socket. ToolFailed."""
        until = time.monotonic() + READY
        while time.monotonic() < until:
            if (await self.on.exec(["cat", self.file])).status == 0:
                return
            await asyncio.sleep(PAUSE)
        assert self.running is not None
        said = (await self.running.stop()).stderr.decode("utf-8", "replace").strip()[-300:]
        raise ToolFailed(f"tcpdump took nothing: {said}", self.where, "install tcpdump there: apt-get install tcpdump")

    async def stop(self) -> Captured:
        """Its packets and what it counted. What went wrong is a `problem`."""
        assert self.running is not None
        try:
            ended = await self.running.stop()
            counters: dict[str, int | str] = {
                words.decode().replace(" ", "_"): int(count) for count, words in _COUNTER.findall(ended.stderr)
            }
            content = await self.on.get(self.file)
        except (NearmetalError, OSError) as error:
            return Captured(None, {"problem": f"the capture cannot be fetched: {error}"})
        finally:
            await self._tidy()
        if counters.get("captured") == self.most:
            counters["limit_reached"] = 1
        elif ended.status != 0:
            said = ended.stderr.decode("utf-8", "replace").strip()[-300:]
            counters["problem"] = f"tcpdump ended before the trial was over, with status {ended.status}: {said}"
        return Captured(content, counters)

    async def drop(self) -> None:
        """Let go of everything; a machine that is lost has nothing left to let go of."""
        try:
            if self.running is not None:
                await self.running.stop()
        except (NearmetalError, OSError):
            return
        await self._tidy()

    async def _tidy(self) -> None:
        try:
            await self.on.exec(["rm", "-f", self.file])
            if self.launched:
                # The machine's own folder stays: it is not empty, or its environment removes it.
                await self.on.exec(["rmdir", "--ignore-fail-on-non-empty", self.file.rpartition("/")[0]])
        except (NearmetalError, OSError):
            return
