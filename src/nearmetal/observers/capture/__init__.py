"""The observer `capture`: the packets of a trial at both ends, by tcpdump, and what the probe's `trace` finds in them.

It costs time itself, so it is off unless the study asks; as a factor (`capture = [false, true]`) its cost is measured.
While a trial measures, packets go to a file where they are taken and nowhere else; all else happens afterwards.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from nearmetal.errors import NearmetalError
from nearmetal.model import CaptureSpec, Observation, Stage
from nearmetal.observers.capture import counters as capture_counters
from nearmetal.observers.capture.taps import Tap, make_tap
from nearmetal.system.temporary_folders import temporary_folder
from nearmetal.trace import analyser, events
from nearmetal.trace.record_figures import make_figures

SETTLE = 1.1
"""Seconds after the measuring until tcpdump is told to end: it is handed packets by the second."""


class Capture:
    name: ClassVar[str] = "capture"
    around: ClassVar[bool] = False
    takes: ClassVar[float] = SETTLE + 1.0

    def __init__(self, setting: CaptureSpec) -> None:
        self._setting = setting

    async def start(self, stage: Stage) -> "CaptureWatch":
        """Return when packets are taken everywhere. ToolFailed when one tcpdump does not begin."""
        watch = CaptureWatch(stage)
        places = [
            *((f"client-{index}", machine, True) for index, machine in enumerate(stage.clients)),
            *((f"server-{index}", machine, self._setting.inside) for index, machine in enumerate(stage.servers)),
        ]
        try:
            for name, machine, inside in places:
                watch.taps[name] = tap = make_tap(machine, inside, self._setting)
                await tap.start()
            for tap in watch.taps.values():
                await tap.wait_listening()
            watch.before = await watch.read_kernels()
        except BaseException:
            await watch.drop()
            raise
        return watch


class CaptureWatch:
    """A tcpdump at each end, by the end's name: "client-0", "server-0", …"""

    def __init__(self, stage: Stage) -> None:
        self.taps: dict[str, Tap] = {}
        self.before: Mapping[str, Mapping[str, int]] = {}
        self._stage = stage

    async def read_kernels(self) -> dict[str, Mapping[str, int]]:
        """What each end's kernel has counted of TCP so far; nothing of one that cannot be asked."""
        machines = {f"client-{index}": one for index, one in enumerate(self._stage.clients)}
        machines |= {f"server-{index}": one for index, one in enumerate(self._stage.servers)}
        read = await asyncio.gather(*map(capture_counters.read, machines.values()))
        return dict(zip(machines, read, strict=True))

    async def drop(self) -> None:
        await asyncio.gather(*(tap.drop() for tap in self.taps.values()))

    async def stop(self) -> Observation:
        """A capture and its counters from each end; of each client what its requests were. It raises nothing:

        an end whose capture failed, or cannot be fetched, has a `problem` in its counters.
        """
        after = await self.read_kernels()
        await asyncio.sleep(SETTLE)
        ended = await asyncio.gather(*(tap.stop() for tap in self.taps.values()))
        artifacts: dict[str, bytes] = {}
        counters: dict[str, dict[str, Any]] = {}
        for name, taken in zip(self.taps, ended, strict=True):
            counted = capture_counters.subtract_counters(self.before.get(name, {}), after.get(name, {}))
            counters[name] = {**taken.counters, **counted}
            if taken.content is not None:
                artifacts[f"{name}.pcap"] = taken.content
        for name, ends in _join_with_servers(self._stage, artifacts).items():
            document, counters[name] = await _analyse_traces({end: artifacts[end] for end in ends})
            if document:
                artifacts[f"{name}.json"] = document
        return Observation(artifacts=artifacts, counters=counters)


def _join_with_servers(stage: Stage, captured: Mapping[str, bytes]) -> dict[str, Sequence[str]]:
    """Each client's capture with its server's, whose other clients are then left out of it."""
    joins: dict[str, Sequence[str]] = {}
    is_shared = stage.connect == "shared" and len(stage.clients) > 1
    for index in range(len(stage.clients)):
        client, server = f"client-{index}.pcap", f"server-{0 if is_shared else index}.pcap"
        there = [end for end in (client, server) if end in captured]
        # Of a server alone it cannot be told which requests are this client's.
        if there and not (is_shared and client not in captured):
            joins[f"trace-{index}"] = there
    return joins


async def _analyse_traces(captures: Mapping[str, bytes]) -> tuple[bytes, dict[str, Any]]:
    """The probe's document, and a handful of its figures for the record."""
    with temporary_folder() as folder:
        lines = Path(folder, "requests.jsonl")
        files = [Path(folder, name) for name in captures]
        try:
            for file, content in zip(files, captures.values(), strict=True):
                await asyncio.to_thread(file.write_bytes, content)
            traced = await analyser.analyse_captures(files, lines)
            typical = await asyncio.to_thread(_find_typical, lines, traced.document)
        except (NearmetalError, OSError) as error:
            return b"", {"problem": f"the captures cannot be analysed: {error}".replace(f"{folder}/", "")}
    counters: dict[str, Any] = {**make_figures(traced.document), **typical}
    if traced.problem is not None:
        counters["problem"] = traced.problem.replace(f"{folder}/", "")
    return analyser.as_text(traced.document).replace(f"{folder}/", "").encode(), counters


def _find_typical(lines: Path, document: analyser.Document) -> dict[str, float]:
    """The median of each event, named `at.EVENT`."""
    with lines.open("rb") as file:
        clocks = events.Clocks.from_document(document)
        medians = events.find_typical(events.find_events(line, clocks) for line in events.parse_lines(file))
    return {f"at.{name}": round(time, 9) for name, time in medians.items()}


plugin = Capture
