"""A fleet's processes for tests that kill them: forked from one that has imported what they need."""

import asyncio
import logging
import os
import signal
import sys
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from nearmetal.fleet.dask import LOOPBACK, configure_dask
from nearmetal.fleet.engine import OnAFleet
from nearmetal.fleet.worker import run_worker
from nearmetal.run import session
from nearmetal.run.events import Event
from nearmetal.say import ignore_text
from nearmetal.store.folder import RunFolder
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


def start_worker(address: str, name: str) -> BaseProcess:
    process = fork_server.FORKING.Process(target=_work, args=(os.environ["NEARMETAL_HOME"], address, name))
    process.start()
    return process


def _work(home: str, address: str, name: str) -> None:
    os.environ["NEARMETAL_HOME"] = home
    logging.disable(logging.CRITICAL)
    sys.exit(run_worker(address, name, ignore_text))


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

    engine = OnAFleet(scheduler)
    if (folder / "manifest.json").exists():
        asyncio.run(session.resume_run(RunFolder(folder), ignore_text, (kill,), engine))
    else:
        request = session.Request(mock_run.study(text), text, (), False, folder, available=False)
        asyncio.run(session.start(request, ignore_text, (kill,), engine))
