"""The observer `capture`: the packets of a trial as its clients see them, by tcpdump on each data NIC.

It costs time itself, so it is off unless the study asks; as a factor (`capture = [false, true]`) its cost is measured.
"""

import asyncio
import re
import time
from typing import ClassVar

from nearmetal.errors import ToolFailed
from nearmetal.model import CaptureSpec, Machine, Observation, Running, Stage

READY = 10.0
"""Seconds within which tcpdump has to have opened its file."""
HEADER = 24
"""Bytes of a pcap file's header: once they are there, packets are being taken."""

_COUNTER = re.compile(rb"(\d+) packets? (captured|received by filter|dropped by kernel)")


class Capture:
    name: ClassVar[str] = "capture"
    around: ClassVar[bool] = False

    def __init__(self, setting: CaptureSpec) -> None:
        self._snap = setting.snap

    async def start(self, stage: Stage) -> "CaptureWatch":
        watch = CaptureWatch()
        for machine in stage.clients:
            file = f"/tmp/{machine.name}.pcap"
            argv = ["tcpdump", "-i", machine.interface, "-s", str(self._snap), "-w", file, "-U", "-n", "tcp or udp"]
            watch.tapped.append((machine, file, await machine.spawn(argv)))
        for machine, file, running in watch.tapped:
            await _until_listening(machine, file, running)
        return watch


async def _until_listening(machine: Machine, file: str, running: Running) -> None:
    until = time.monotonic() + READY
    while time.monotonic() < until:
        if len((await machine.exec(["cat", file])).stdout) >= HEADER:
            return
        await asyncio.sleep(0.05)
    ended = await running.stop()
    raise ToolFailed(f"tcpdump took nothing: {ended.stderr.decode('utf-8', 'replace')[-300:]}", machine.name)


class CaptureWatch:
    """A tcpdump on each client."""

    def __init__(self) -> None:
        self.tapped: list[tuple[Machine, str, Running]] = []

    async def stop(self) -> Observation:
        """One pcap file a client, and what tcpdump counted: packets taken, and those the kernel had to drop."""
        artifacts: dict[str, bytes] = {}
        counters: dict[str, dict[str, int]] = {}
        for index, (machine, file, running) in enumerate(self.tapped):
            ended = await running.stop()
            artifacts[f"client-{index}.pcap"] = await machine.get(file)
            await machine.exec(["rm", "-f", file])
            counters[f"client-{index}"] = {
                words.decode().replace(" ", "_"): int(count) for count, words in _COUNTER.findall(ended.stderr)
            }
        return Observation(artifacts=artifacts, counters=counters)


plugin = Capture
