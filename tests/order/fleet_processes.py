"""A fleet's processes for tests that kill them: forked from one that has imported what they need."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from nearmetal.fleet.dask import LOOPBACK, configure_dask
from nearmetal.fleet.fleet_executor import FleetExecutor
from nearmetal.fleet.worker import run_worker
from nearmetal.progress_messages import ignore_text
from nearmetal.run import study_execution
from nearmetal.store.events import Event
from nearmetal.store.run_folder import RunFolder
from tests import fork_server
from tests.order import mock_run

fork_server.preload(__name__, "distributed", "nearmetal.fleet.controller")


def start_scheduler() -> tuple[BaseProcess, str]:
    """And its address."""
    ours, theirs = fork_server.FORKING.Pipe()
    process = fork_server.FORKING.Process(target=_schedule, args=(theirs,), daemon=True)
    process.start()
    assert ours.poll(60)
    return process, ours.recv()


def _schedule(told: Connection) -> None:
    async def stand() -> None:
        from distributed import Scheduler

        async with Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address=LOOPBACK) as scheduler:
            told.send(scheduler.address)
            await scheduler.finished()

    configure_dask()
    asyncio.run(stand())


def start_worker(address: str, name: str, told: Connection | None = None) -> BaseProcess:
    """It joins later, and sends its name then."""
    process = fork_server.FORKING.Process(target=_work, args=(os.environ["NEARMETAL_HOME"], address, name, told))
    process.start()
    return process


def start_workers(address: str, names: Sequence[str]) -> list[BaseProcess]:
    """That have joined: a controller that finds one of them goes on without the others."""
    ours, theirs = fork_server.FORKING.Pipe()
    processes = [start_worker(address, name, theirs) for name in names]
    joined = set[str]()
    while joined != set(names):
        assert ours.poll(60), f"of {names} only {joined} joined"
        joined.add(ours.recv())
    return processes


def _work(home: str, address: str, name: str, told: Connection | None) -> None:
    os.environ["NEARMETAL_HOME"] = home
    logging.disable(logging.CRITICAL)

    def note_joining(text: str) -> None:
        if told is not None and text.startswith(f"the site {name} stands"):
            told.send(name)

    sys.exit(run_worker(address, name, note_joining))


def start_controller(folder: Path, text: str, scheduler: str, event: str = "", count: int = 0) -> BaseProcess:
    """Begins a run, or goes on with it. With an event, it kills itself when that comes so many times."""
    arguments = (os.environ["NEARMETAL_HOME"], folder, text, scheduler, event, count)
    process = fork_server.FORKING.Process(target=_control, args=arguments)
    process.start()
    return process


def _control(home: str, folder: Path, text: str, scheduler: str, name: str, count: int) -> None:
    os.environ["NEARMETAL_HOME"] = home
    left = count

    def kill(event: Event) -> None:
        nonlocal left
        left -= type(event).__name__ == name
        if name and not left:
            os.kill(os.getpid(), signal.SIGKILL)

    executor = FleetExecutor(scheduler)
    if (folder / "manifest.json").exists():
        asyncio.run(study_execution.resume_run(RunFolder(folder), ignore_text, (kill,), executor))
    else:
        request = study_execution.RunRequest(mock_run.study(text), text, (), False, folder, available=False)
        asyncio.run(study_execution.start_run(request, ignore_text, (kill,), executor))
