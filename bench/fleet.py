"""What a fleet costs: blocks an hour on 1 to 8 sites against linear, and the controller's CPU for each trial.

A block has ten trials, pretended ones that sleep, so that this says nothing of real machines: it says what is lost to
the fleet itself. All sites are on this host. python bench/fleet.py [--sites 1 2 4 8] [--blocks 3] [--seconds 1]

With --simulated N, the same for N sites: Dask workers in this process, which hear from the controller by Dask's
messages and keep spools as any site does. In the place of a block's process, one waits as long as the block would take,
and writes what a block told that was measured here before. With --vanish a tenth of the sites vanishes in the middle.
--spread is by what share of their length blocks differ: 0 has a thousand sites end theirs at once.
"""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import dask
from distributed import Scheduler, Worker, get_worker

from nearmetal.config import LIMITS
from nearmetal.fleet import site as on_site
from nearmetal.fleet.cluster import reach_scheduler
from nearmetal.fleet.controller import Controller
from nearmetal.fleet.dask import LOOPBACK, SITE, configure_dask
from nearmetal.fleet.fleet_executor import FleetExecutor
from nearmetal.fleet.messages import ARTIFACTS, EVENTS, BlockOrder
from nearmetal.model import HostSpec, Identity, Resolved, TrialAddress, TrialStatus, identify_assignment
from nearmetal.progress_messages import Say, ignore_text
from nearmetal.run import study_execution
from nearmetal.run.block_events import BlockFinished, write_event
from nearmetal.run.block_executor import BlockExecutor, Listeners, RunBlocks
from nearmetal.run.boot import address_trial
from nearmetal.run.events import TrialEnded
from nearmetal.run.progress import Progress
from nearmetal.store.events import BlockDispatched, BlockEnded, BootStarted, Event, RunEnded, RunStarted
from nearmetal.store.journal import read_events
from nearmetal.store.run_folder import RunFolder
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
repeats = {repeats}
"""


def _make_request(folder: Path, blocks: int, repeats: int, seconds: float) -> study_execution.RunRequest:
    text = _STUDY.format(seconds=seconds, blocks=blocks, repeats=repeats)
    return study_execution.RunRequest(read(text, "fleet.toml"), text, (), False, folder, available=False)


async def measure(sites: int, blocks_each: int, repeats: int, seconds: float) -> dict[str, float]:
    """From the first dispatch to the end of the run, so that the start of workers does not count."""
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
        request = _make_request(Path(place) / "run", sites * blocks_each, repeats, seconds)
        progress = await study_execution.start_run(request, ignore_text, (see,), FleetExecutor(f"local:{sites}"))
    trials = sum(progress.counts.values())
    return {
        "sites": sites,
        "blocks": sites * blocks_each,
        "seconds": round(ended - began, 2),
        "blocks an hour": round(3600 * sites * blocks_each / (ended - began)),
        "controller's CPU ms a trial": round(1000 * (ended_cpu - cpu) / trials, 1),
    }


# ── Simulated sites ───────────────────────────────────────────────────────────────────────────────────────────────

_T = TypeVar("_T")
_AT_ONCE = 50
"""Workers that start together."""


class AtOnce(ThreadPoolExecutor):
    """Has no threads. Each of theirs would wait for Python's lock at each file of a block."""

    def submit(self, work: Callable[..., _T], /, *arguments: Any, **named: Any) -> "Future[_T]":
        done: Future[_T] = Future()
        try:
            done.set_result(work(*arguments, **named))
        except Exception as error:
            done.set_exception(error)
        return done


class LoopThread:
    """A thread with an event loop, so that its CPU is told from that of the others."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(AtOnce())
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    @property
    def cpu(self) -> float:
        return _read_cpu(self._thread)


def _read_cpu(thread: threading.Thread) -> float:
    assert thread.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


class RecordedBlock:
    """What a block told and kept here, for others of the same study to leave in their spools."""

    def __init__(self, events: Sequence[Event], folder: RunFolder) -> None:
        self._trials: dict[Identity | None, list[TrialAddress]] = defaultdict(list)
        """Of each boot."""
        self._files: dict[str, list[tuple[str, bytes]]] = defaultdict(list)
        """Of each trial, by its id."""
        self._writing = threading.Lock()
        told: dict[Identity | None, bytes] = defaultdict(bytes)
        boot = None
        for event in events:
            if isinstance(event, BootStarted):
                boot = identify_assignment(event.treatment)
            if isinstance(event, TrialEnded):
                self._trials[boot].append(event.record.trial)
            if not isinstance(event, RunStarted | BlockEnded | RunEnded):
                told[boot] += write_event(event)
        self._texts = {boot: self._divide_text(lines, self._trials[boot]) for boot, lines in told.items()}
        """Of each boot, and before the first. Each second part names a trial."""
        for file in folder.artifacts.glob("*/*"):
            self._files[file.parent.name].append((file.name, file.read_bytes()))
        self._end = write_event(BlockFinished(modules=sorted(sys.modules)))

    @staticmethod
    def _divide_text(lines: bytes, trials: Sequence[TrialAddress]) -> list[bytes]:
        if not trials:
            return [lines]
        names = [*map(_write_address, trials), *(trial.id.encode() for trial in trials)]
        return re.split(b"(" + b"|".join(map(re.escape, names)) + b")", lines)

    def write(self, order: BlockOrder, spool: Path) -> None:
        """As the process of the order's block would have. One at a time: real sites do not share an interpreter."""
        with self._writing:
            self._write(order, spool)

    def _write(self, order: BlockOrder, spool: Path) -> None:
        block = order.task.block
        told = list(self._texts[None])
        for boot in block.boots:
            identity = identify_assignment(boot.treatment)
            planned = {trial.repeat: trial for trial in boot.trials}
            names: dict[bytes, bytes] = {}
            for before in self._trials[identity]:
                now = address_trial(block.index, block.attempt, boot.treatment, planned[before.repeat])
                names |= {_write_address(before): _write_address(now), before.id.encode(): now.id.encode()}
                (spool / ARTIFACTS / now.id).mkdir(parents=True)
                for name, content in self._files[before.id]:
                    (spool / ARTIFACTS / now.id / name).write_bytes(content)
            told.extend(names.get(part, part) for part in self._texts[identity])
        number = b'"block":%d,"attempt":%d,'
        lines = b"".join(told).replace(number % (0, 0), number % (block.index, block.attempt))
        (spool / EVENTS).write_bytes(lines + self._end)


def _write_address(trial: TrialAddress) -> bytes:
    return json.dumps(asdict(trial), separators=(",", ":")).encode()


class Turn(NamedTuple):
    """A site had a block."""

    block: int
    began: float
    ended: float


class SimulatedSites:
    """Dask's scheduler, and its workers, each in a thread of this process."""

    def __init__(self, count: int, recorded: RecordedBlock, seconds: float, spread: float) -> None:
        self.scheduler, self.workers = LoopThread(), LoopThread()
        self.turns: list[Turn] = []
        self.vanished_at = 0.0
        self.lost: set[int] = set()
        """Blocks of sites that vanished."""
        self._recorded = recorded
        self._seconds = seconds
        self._spread = spread
        self._names = [f"site-{number:04}" for number in range(count)]
        self._workers: dict[str, Worker] = {}
        self._gone = {name: threading.Event() for name in self._names}
        self._running: dict[str, int] = {}

    async def start(self, folder: Path) -> str:
        """The scheduler's address."""
        dask.config.set(
            {
                # A site is alone on its host. A thousand in one process would look a thousand times at the same.
                "distributed.admin.system-monitor.interval": "1h",
                "distributed.admin.tick.interval": "1h",
                "distributed.scheduler.worker-ttl": None,
                "distributed.worker.http.routes": [],
                "distributed.worker.use-file-locking": False,
            }
        )
        on_site._run_order = self._run_order
        paths = list(sys.path)
        address = await self.scheduler.run(self._start_scheduler())
        for first in range(0, len(self._names), _AT_ONCE):
            await self.workers.run(self._start_workers(address, self._names[first : first + _AT_ONCE], folder))
        sys.path[:] = paths  # each worker adds its folder, and every import would look there
        return address

    async def _start_scheduler(self) -> str:
        self._scheduler = await Scheduler(
            protocol="inproc", dashboard=False, dashboard_address=LOOPBACK, allowed_failures=0
        )
        return str(self._scheduler.address)

    async def _start_workers(self, address: str, names: Sequence[str], folder: Path) -> None:
        for name in names:  # as `nearmetal worker` does
            self._workers[name] = Worker(
                address,
                nthreads=1,
                # A thread of Dask's own executor wakes each second: a thousand of one interpreter wait for its lock.
                executor=ThreadPoolExecutor(max_workers=1),
                resources={SITE: 1},
                name=name,
                memory_limit=0,
                dashboard_address=LOOPBACK,
                local_directory=str(folder),
            )
        await asyncio.gather(*(self._workers[name] for name in names))
        for name in names:
            # A thousand heartbeats are little for a scheduler, and too much for one process that also makes them.
            for idle in ("heartbeat", "find-missing"):
                self._workers[name].periodic_callbacks[idle].stop()

    def _run_order(self, order: BlockOrder, stands: Callable[[], bool]) -> None:
        """In the place of a block's process, in the thread that waits for it."""
        name, block = get_worker().name, order.task.block.index
        spool = on_site._spool_of(order.run, order.dispatch)
        spool.mkdir(parents=True)
        with on_site._hold_dispatch(spool):
            self._running[name] = block
            began = time.monotonic()
            if self._gone[name].wait(self._draw_length(order)) or not stands():
                return
            self._recorded.write(order, spool)
        self.turns.append(Turn(block, began, time.monotonic()))
        del self._running[name]

    def _draw_length(self, order: BlockOrder) -> float:
        """Seconds of a block: those of real ones differ, so that their sites do not all end at once."""
        drawn = random.Random(f"{order.task.block.index}-{order.task.block.attempt}")
        return self._seconds * drawn.uniform(1 - self._spread, 1 + self._spread)

    def vanish(self) -> None:
        """A tenth of the sites, of those that have a block."""
        self.workers.loop.call_soon_threadsafe(self._vanish)

    def _vanish(self) -> None:
        count = len(self._names) // 10
        if len(self._running) < count:  # what was dispatched is still on its way
            self.workers.loop.call_later(0.1, self._vanish)
            return
        self.vanished_at = time.monotonic()
        for name in random.Random(1).sample(sorted(self._running), count):
            self.lost.add(self._running[name])
            self._gone[name].set()
            worker = self._workers[name]
            for callback in worker.periodic_callbacks.values():
                callback.stop()
            worker.stop()
            for comm in (worker.batched_stream.comm, *worker._comms):
                comm.abort()

    @property
    def share_lost(self) -> float:
        """Of the time of all sites while blocks were left to begin, that without a block."""
        first, last = (choose(turn.began for turn in self.turns) for choose in (min, max))
        busy = sum(min(turn.ended, last) - turn.began for turn in self.turns)
        return 1 - busy / (len(self._names) * (last - first))

    @property
    def recoveries(self) -> list[float]:
        """Seconds until each lost block ran elsewhere."""
        began = {turn.block: turn.began for turn in self.turns}
        return [began[block] - self.vanished_at for block in self.lost]


@dataclass
class SimulatedSitesExecutor:
    """A `BlockExecutor`."""

    sites: SimulatedSites
    count: int
    folder: Path
    told: dict[str, float] = field(default_factory=dict)

    def refuse_run(self, folder: RunFolder, happened: Sequence[Mapping[str, Any]]) -> None:
        return

    @asynccontextmanager
    async def open(self, resolved: Sequence[Resolved], run: str, say: Say) -> AsyncIterator[RunBlocks]:
        configure_dask()
        began = time.monotonic()
        address = await self.sites.start(self.folder)
        started = time.monotonic()
        async with reach_scheduler(address, f"local:{self.count}", None, self.count, LIMITS.boot) as fleet:
            self.told["seconds to start the workers"] = started - began
            self.told["seconds to find the sites"] = time.monotonic() - started

            async def run_blocks(
                folder: RunFolder,
                hosts: Mapping[str, HostSpec],
                listeners: Listeners,
                changed: Mapping[str, tuple[str, str]],
            ) -> Progress:
                before = self._read_clocks()
                progress = await Controller(folder, fleet, hosts, listeners, say).run(changed)
                taken = {name: now - before[name] for name, now in self._read_clocks().items()}
                self.told["seconds of the run"] = taken.pop("")
                trials = sum(progress.counts.values())
                self.told |= {f"CPU ms a trial, {name}": 1000 * cpu / trials for name, cpu in taken.items()}
                return progress

            yield run_blocks

    def _read_clocks(self) -> dict[str, float]:
        helping = [thread for thread in threading.enumerate() if thread.name.startswith("asyncio")]
        apart = {
            "controller": time.thread_time() + sum(map(_read_cpu, helping)),
            "Dask's scheduler": self.sites.scheduler.cpu,
            "Dask's workers": self.sites.workers.cpu,
        }
        every = time.process_time()
        return {"": time.monotonic(), **apart, "threads of sites": every - sum(apart.values()), "all": every}


async def simulate(
    sites: int, blocks_each: int, repeats: int, seconds: float, spread: float, is_vanishing: bool
) -> None:
    """One block on this host, which all sites then repeat. Print what that took."""
    blocks = sites * blocks_each
    events: list[Event] = []
    dispatched = 0
    with TemporaryDirectory() as place:
        os.environ["NEARMETAL_HOME"] = place

        async def run(count: int, folder: Path, listeners: Listeners, executor: BlockExecutor | None) -> Progress:
            return await study_execution.start_run(
                _make_request(folder, count, repeats, 0), ignore_text, listeners, executor
            )

        one, every = Path(place) / "one", Path(place) / "all"
        await run(1, one, (events.append,), None)
        simulated = SimulatedSites(sites, RecordedBlock(events, RunFolder(one)), 2 * repeats * seconds, spread)
        executor = SimulatedSitesExecutor(simulated, sites, Path(place) / "dask")

        def see(event: Event) -> None:
            nonlocal dispatched
            dispatched += isinstance(event, BlockDispatched)
            if is_vanishing and isinstance(event, BlockDispatched) and dispatched == blocks // 2:
                simulated.vanish()

        progress = await run(blocks, every, (see,), executor)
        happened = read_events(RunFolder(every).journal)
        ended = [event["block"] for event in happened if event["event"] == "BlockEnded" and event["whole"]]
        assert ended == list(range(blocks)), "each block ends once, in its turn"
        told = {
            "sites": sites,
            "blocks": blocks,
            "trials": progress.counts[TrialStatus.OK],
            "trials lost": progress.counts[TrialStatus.LOST],
            **executor.told,
            "share of time lost": simulated.share_lost,
            "megabytes at most": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        if is_vanishing:
            seconds_each = simulated.recoveries
            told |= {
                "blocks lost": len(seconds_each),
                "seconds until half of them ran again": statistics.median(seconds_each),
                "seconds until all ran again": max(seconds_each),
            }
        # Before the files of all trials are removed, which may take as long.
        print(json.dumps({name: round(value, 3) for name, value in told.items()}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--blocks", type=int, default=3, help="for each site")
    parser.add_argument("--repeats", type=int, default=5, help="of both treatments, in a block")
    parser.add_argument("--seconds", type=float, default=1.0, help="that a trial sleeps")
    parser.add_argument("--simulated", type=int, metavar="N", help="sites that are simulated in this process")
    parser.add_argument("--spread", type=float, default=0.2, help="of the lengths of simulated blocks")
    parser.add_argument("--vanish", action="store_true", help="a tenth of the simulated sites, in the middle")
    given = parser.parse_args()
    if given.simulated:
        asked = (given.simulated, given.blocks, given.repeats, given.seconds, given.spread, given.vanish)
        asyncio.run(simulate(*asked))
        return
    one = 0.0
    for sites in given.sites:
        found = asyncio.run(measure(sites, given.blocks, given.repeats, given.seconds))
        one = one or found["blocks an hour"] / found["sites"]
        print(json.dumps({**found, "of linear": round(found["blocks an hour"] / sites / one, 2)}), flush=True)


if __name__ == "__main__":
    main()
