"""Where packets are taken: in a machine, or outside it on its site, which costs the machine nothing but the copying."""

import asyncio
import contextlib
import re
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from nearmetal.errors import NearmetalError, TimedOut, ToolFailed
from nearmetal.lab import machine_handle
from nearmetal.lab.commands.background_commands import limit_output
from nearmetal.lab.machines import kernel, scratch
from nearmetal.lab.machines.init_process import ContainedMachine
from nearmetal.lab.networks import network
from nearmetal.model import CaptureSpec, Commands, Completed, Machine, Running

_FILE_HEADER = 24
_PACKET_HEADER = struct.Struct("<IIII")
_BIG_ENDIAN = struct.Struct(">IIII")
_MAGIC_BIG = (b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d")


@dataclass(frozen=True)
class JoinedCapture:
    content: bytes
    held: int
    """Packets."""


def join_captures(files: Sequence[bytes]) -> JoinedCapture:
    """Captures of one interface as one, by the time of their first packet. A packet that is cut ends its file."""
    walked = sorted((_walk_packets(one) for one in files if len(one) >= _FILE_HEADER), key=lambda one: one[0])
    if not walked:
        return JoinedCapture(b"", 0)
    header = next(one for one in files if len(one) >= _FILE_HEADER)[:_FILE_HEADER]
    return JoinedCapture(header + b"".join(packets for _, _, packets in walked), sum(count for _, count, _ in walked))


def _walk_packets(content: bytes) -> tuple[tuple[int, int], int, bytes]:
    """The time of the first packet, how many there are, and all of them."""
    header = _BIG_ENDIAN if content[:4] in _MAGIC_BIG else _PACKET_HEADER
    place, count, first = _FILE_HEADER, 0, (2**32, 0)
    while place + header.size <= len(content):
        seconds, fraction, captured, _ = header.unpack_from(content, place)
        if place + header.size + captured > len(content):
            break
        first = first if count else (seconds, fraction)
        count += 1
        place += header.size + captured
    return first, count, content[_FILE_HEADER:place]


READY = 10.0
"""Seconds within which tcpdump has to have opened its file: it takes packets by then."""
PAUSE = 0.05
FILTER = "(tcp or udp) and not tcp port 22"
"""Commands cross the same interface where a machine has no other."""
_FILE, _PACKET = 24, 16
"""Bytes that a pcap file spends on itself, and on each packet besides the packet's own."""
_UNIT = 1_000_000
"""Bytes by which tcpdump measures the files of a ring."""
_BUFFER_KIB = 16_384
"""For packets that wait to be written; what finds no room is counted as dropped."""
_COUNTER = re.compile(rb"(\d+) packets? (captured|received by filter|dropped by kernel)")

_ODD = re.compile(r"[^\w/-]")
"""What a pattern might take for more than itself."""


@dataclass(frozen=True)
class CaptureResult:
    """`content` is None when there is none."""

    content: bytes | None
    counters: dict[str, int | float | str]


def make_tap(machine: Machine, inside: bool, setting: CaptureSpec) -> "Tap":
    """Inside when asked for, or where no outside is known; else in a container's namespace, or at a guest's tap."""
    bound = CaptureLimit.from_setting(setting)
    site = machine.site
    if inside or (machine.peer is None and not isinstance(machine, ContainedMachine)):
        file = f"{scratch.name_scratch(machine.name, '/tmp', 'capture')}/capture.pcap"
        return Tap(machine, (), machine.interface, file, setting.snap, bound, machine.name)
    if kernel.is_its_hosts(machine) and isinstance(machine, ContainedMachine):
        namespace, interface = f"/proc/{machine.first.pid}/ns/net", machine.interface
    else:
        name, _, interface = str(machine.peer).partition("/")
        namespace = network.namespace_path(name)
    file = f"{machine_handle.name_folder(machine.name, site)}/capture/capture.pcap"
    launched = (site.probe, "launch", *site.bound, "--netns", namespace, "--")
    return Tap(site, launched, interface, file, setting.snap, bound, f"{machine.name}, outside on {site.name}")


@dataclass(frozen=True)
class CaptureLimit:
    """What keeps a capture from growing: a number of packets, or two files that take turns."""

    longest: int
    """Bytes of a file, at the most."""
    packets: int
    """After which it ends by itself; 0 for a ring."""
    each: int = 0
    """The millions of bytes of each of two files, which may then take one packet more."""

    @classmethod
    def from_setting(cls, setting: CaptureSpec) -> "CaptureLimit":
        longest = _FILE + setting.limit + _PACKET + setting.snap
        if setting.ring:
            return cls(longest, 0, (setting.limit // 2 - setting.snap - _PACKET - _FILE) // _UNIT)
        return cls(longest, max(1, setting.limit // (setting.snap + _PACKET)))

    @property
    def words(self) -> list[str]:
        return ["-C", str(self.each), "-W", "2"] if self.each else ["-c", str(self.packets)]

    def list_files(self, name: str) -> list[str]:
        """What tcpdump calls them."""
        return [f"{name}{number}" for number in (0, 1)] if self.each else [name]


@dataclass
class Tap:
    on: Commands
    launched: Sequence[str]
    """Words before tcpdump's own."""
    interface: str
    file: str
    snap: int
    bound: CaptureLimit
    where: str
    running: Running | None = field(default=None, init=False)
    began: float | None = field(default=None, init=False)
    """CPU seconds that it had taken when it began to listen: starting takes milliseconds, and no packet costs them."""

    async def start(self) -> None:
        """ToolFailed where the folder for its file cannot be made."""
        folder = self._folder
        if self.launched:
            await self.on.exec(["mkdir", "-p", "--", str(PurePosixPath(folder).parent)])
        # Nobody else reads packets, and where anybody may write, what lies there may be anything, and lead elsewhere.
        await self.on.exec(["rm", "-rf", "--", folder])
        made = await self.on.exec(["mkdir", "-m", "700", "--", folder])
        if made.status != 0:
            raise ToolFailed(f"no folder for its packets can be made: {made.complaint[-300:]}", self.where)
        tcpdump = ["tcpdump", "-i", self.interface, "-n", "-s", str(self.snap), "-B", str(_BUFFER_KIB), "-Z", "root"]
        bounded = ["--time-stamp-precision=nano", *self.bound.words, "-w", self.file, FILTER]
        self.running = await self.on.spawn([*self.launched, *tcpdump, *bounded])

    @property
    def _folder(self) -> str:
        """Its own."""
        return str(PurePosixPath(self.file).parent)

    async def wait_listening(self) -> None:
        """Return once its file is there, which it opens after its socket. ToolFailed."""
        assert self.running is not None
        until = time.monotonic() + READY
        while time.monotonic() < until:
            if (await self.on.exec(["cat", self.bound.list_files(self.file)[0]])).status == 0:
                self.began = await self._read_cpu_time()
                return
            with contextlib.suppress(TimedOut):
                await self.running.wait(PAUSE)
                break
        said = (await self.running.stop()).complaint[-300:]
        raise ToolFailed(f"tcpdump took nothing: {said}", self.where, "install tcpdump there: apt-get install tcpdump")

    async def stop(self) -> CaptureResult:
        """Its packets and what it counted. What went wrong is a `problem`."""
        assert self.running is not None
        counters: dict[str, int | float | str] = {}
        try:
            used = await self._read_cpu_time()
            ended = await self.running.stop()
            told = _COUNTER.findall(ended.stderr)
            counters |= {words.decode().replace(" ", "_"): int(count) for count, words in told}
            content, held = await self._read_content()
        except (NearmetalError, OSError) as error:
            return CaptureResult(None, {"problem": f"the capture cannot be fetched: {error}"})
        finally:
            await self._remove_files()
        if used is not None and self.began is not None:
            counters["cpu"] = round(used - self.began, 9)
        return CaptureResult(content, {**counters, **self._describe_end(ended, counters.get("captured"), held)})

    def _describe_end(
        self, ended: Completed, captured: int | float | str | None, held: int | None
    ) -> dict[str, int | str]:
        """Whether the file has all, and if not, why."""
        if held is not None and captured is not None and held != captured:
            return {"held": held, "limit_reached": 1}
        if captured == self.bound.packets:
            return {"limit_reached": 1}
        if ended.status != 0:
            said = ended.complaint[-300:]
            return {"problem": f"tcpdump ended before the trial was over, with status {ended.status}: {said}"}
        return {}

    async def _read_content(self) -> tuple[bytes, int | None]:
        """The capture; of a ring also how many packets it has."""
        first, *others = self.bound.list_files(self.file)
        with limit_output(self.bound.longest):
            contents = [await self.on.get(first)]
            # A ring whose first file was never full has no other.
            there = [file for file in others if (await self.on.exec(["test", "-e", file])).status == 0]
            contents += [await self.on.get(file) for file in there]
        if not others:
            return contents[0], None
        ring = await asyncio.to_thread(join_captures, contents)
        return ring.content, ring.held

    async def _read_cpu_time(self) -> float | None:
        """CPU seconds that tcpdump took so far; None where that is not told, or it has ended."""
        pattern = f"^tcpdump .*-w {_ODD.sub('.', self.file)} "
        found = (await self.on.exec(["pgrep", "-f", "--", pattern])).text.split()
        if len(found) != 1:
            return None
        told = (await self.on.exec(["cat", f"/proc/{found[0]}/schedstat"])).text.split()
        return int(told[0]) / 1e9 if told else None

    async def drop(self) -> None:
        """Let go of everything; a machine that is lost has nothing left to let go of."""
        with contextlib.suppress(NearmetalError, OSError):
            if self.running is not None:
                await self.running.stop()
            await self._remove_files()

    async def _remove_files(self) -> None:
        with contextlib.suppress(NearmetalError, OSError):
            # Pretended machines have files alone.
            await self.on.exec(["rm", "-rf", "--", self._folder, *self.bound.list_files(self.file)])
