"""What a fleet costs: blocks an hour on 1 to 8 sites against linear, and the controller's CPU for each trial.

A block has ten trials, pretended ones that sleep, so that this says nothing of real machines: it says what is lost to
the fleet itself. All sites are on this host. python bench/fleet.py [--sites 1 2 4 8] [--blocks 3] [--seconds 1]

With --simulated N, what the controller takes for N sites that answer at once, from this process: they give back the
events of a block that was measured here before. Dask's messages are not in it, nor is what the simulation takes.
"""

import argparse
import asyncio
import hashlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from nearmetal.fleet import site as on_site
from nearmetal.fleet.cluster import Fleet
from nearmetal.fleet.controller import Controller
from nearmetal.fleet.engine import OnAFleet
from nearmetal.fleet.orders import EVENTS, BlockOrder, Outcome, Spool, SpooledFile
from nearmetal.model import HostSpec, Resolved, identify_assignment
from nearmetal.run import session
from nearmetal.run.block_lines import BlockFinished, write_event
from nearmetal.run.boot import address_trial
from nearmetal.run.engine import Engine, Listeners, RunBlocks
from nearmetal.run.events import BlockDispatched, BlockEnded, Event, RunEnded, RunStarted, TrialEnded
from nearmetal.run.progress import Progress
from nearmetal.say import Say, ignore_text
from nearmetal.store.folder import RunFolder
from nearmetal.study.study_file import read

_STUDY = """
name = "fleet"
reference = {{ environment = "base" }}
[environments.base]
kind = "mock"
[environments.slow]
kind = "mock"
[factors]
environment = ["base", "slow"]
[clients]
environment = "mock"
[[workloads]]
name = "web"
kind = "http"
server = "api"
duration = "1s"
[services.api]
start = ["lighttpd"]
port = 8080
ready = ["sleep", "{seconds}"]
[design]
seed = 1
blocks = {blocks}
repeats = 5
"""


async def measure(sites: int, blocks_each: int, seconds: float) -> dict[str, float]:
    """From the first dispatch to the end of the run, so that the start of workers does not count."""
    text = _STUDY.format(seconds=seconds, blocks=sites * blocks_each)
    began = cpu = 0.0
    ended = ended_cpu = 0.0

    def see(event: Event) -> None:
        nonlocal began, cpu, ended, ended_cpu
        if isinstance(event, BlockDispatched) and not began:
            began, cpu = time.monotonic(), time.process_time()
        if isinstance(event, RunEnded):
            ended, ended_cpu = time.monotonic(), time.process_time()

    with TemporaryDirectory() as place:
        os.environ["NEARMETAL_HOME"] = place
        request = session.Request(read(text, "fleet.toml"), text, (), False, Path(place) / "run", available=False)
        progress = await session.start(request, ignore_text, (see,), OnAFleet(f"local:{sites}"))
    trials = sum(progress.counts.values())
    return {
        "sites": sites,
        "blocks": sites * blocks_each,
        "seconds": round(ended - began, 2),
        "blocks an hour": round(3600 * sites * blocks_each / (ended - began)),
        "controller's CPU ms a trial": round(1000 * (ended_cpu - cpu) / trials, 1),
    }


class SimulatedFleet:
    """What the controller asks of a `Fleet`. `events` are a block's, as this host told them."""

    scheduler = "simulated"
    patience = 1.0

    def __init__(self, count: int, events: Sequence[Event]) -> None:
        self.sites = tuple(f"site-{number:04}" for number in range(count))
        self.facts: Mapping[str, Mapping[str, str]] = {name: {} for name in self.sites}
        self.kept_to: frozenset[str] | None = None
        self.cpu = 0.0
        """Seconds that the simulation took."""
        self._events = events
        self._spools: dict[int, bytes] = {}

    async def find_sites(self) -> None:
        return

    async def run_order(self, name: str, key: str, order: BlockOrder) -> Outcome:
        await asyncio.sleep(0)
        began = time.process_time()
        block = order.task.block
        addresses = {
            (identify_assignment(boot.treatment), trial.repeat): address_trial(
                block.index, block.attempt, boot.treatment, trial
            )
            for boot in block.boots
            for trial in boot.trials
        }
        lines = []
        for event in self._events:
            if isinstance(event, TrialEnded):
                trial = event.record.trial
                told = addresses[identify_assignment(trial.treatment), trial.repeat]
                event = event.model_copy(update={"record": event.record.model_copy(update={"trial": told})})
            lines.append(write_event(event))
        self._spools[order.dispatch] = b"".join([*lines, write_event(BlockFinished(modules=[]))])
        self.cpu += time.process_time() - began
        return Outcome()

    async def ask_site(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        await asyncio.sleep(0)
        began = time.process_time()
        try:
            if function is on_site.close_dispatch:
                content = self._spools[arguments[1]]
                sha256 = hashlib.sha256(content).hexdigest()
                file = SpooledFile(path=EVENTS, size=len(content), sha256=sha256)
                return Spool(is_running=False, files=(file,)).model_dump_json()
            if function is on_site.read_chunk:
                _, dispatch, _, offset = arguments
                return self._spools[dispatch][offset:]
            if function is on_site.forget_dispatch:
                del self._spools[arguments[1]]
        finally:
            self.cpu += time.process_time() - began


@dataclass
class OnSimulatedSites:
    """An `Engine`."""

    count: int
    events: Sequence[Event]
    cpu: float = 0.0
    """Seconds that the controller took, and nobody else."""

    def refuse_run(self, folder: RunFolder, happened: Sequence[Mapping[str, Any]]) -> None:
        return

    @asynccontextmanager
    async def open(self, resolved: Sequence[Resolved], say: Say) -> AsyncIterator[RunBlocks]:
        fleet = SimulatedFleet(self.count, self.events)

        async def run_blocks(
            folder: RunFolder,
            hosts: Mapping[str, HostSpec],
            listeners: Listeners,
            changed: Mapping[str, tuple[str, str]],
        ) -> Progress:
            began = time.process_time()
            controller = Controller(folder, cast("Fleet", fleet), hosts, listeners, say)
            progress = await controller.run(changed)
            self.cpu = time.process_time() - began - fleet.cpu
            return progress

        yield run_blocks


async def simulate(sites: int, blocks: int) -> dict[str, float]:
    """One block on this host, whose events are then those of each block."""
    events: list[Event] = []
    with TemporaryDirectory() as place:
        os.environ["NEARMETAL_HOME"] = place

        async def run(count: int, listeners: Listeners, engine: Engine | None, name: str) -> Progress:
            text = _STUDY.format(seconds=0, blocks=count)
            request = session.Request(read(text, "fleet.toml"), text, (), False, Path(place) / name, available=False)
            return await session.start(request, ignore_text, listeners, engine)

        await run(1, (events.append,), None, "one")
        of_block = [event for event in events if not isinstance(event, RunStarted | RunEnded | BlockEnded)]
        simulated = OnSimulatedSites(sites, of_block)
        progress = await run(blocks, (), simulated, "all")
    trials = sum(progress.counts.values())
    per_trial = round(1000 * simulated.cpu / trials, 2)
    return {"simulated sites": sites, "blocks": blocks, "trials": trials, "controller's CPU ms a trial": per_trial}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--blocks", type=int, default=3, help="for each site")
    parser.add_argument("--seconds", type=float, default=1.0, help="that a trial sleeps")
    parser.add_argument("--simulated", type=int, metavar="N", help="sites that are simulated in this process")
    given = parser.parse_args()
    if given.simulated:
        print(json.dumps(asyncio.run(simulate(given.simulated, given.simulated))))
        return
    one = 0.0
    for sites in given.sites:
        found = asyncio.run(measure(sites, given.blocks, given.seconds))
        one = one or found["blocks an hour"] / found["sites"]
        print(json.dumps({**found, "of linear": round(found["blocks an hour"] / sites / one, 2)}), flush=True)


if __name__ == "__main__":
    main()
