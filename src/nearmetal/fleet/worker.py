"""`nearmetal worker`: a Dask worker with one thread and one resource called `site`, which stands for this host."""

import asyncio
import contextlib
import logging
import platform
import re
import signal
import sys

from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, ExitCode, HostCannot
from nearmetal.fleet import dask
from nearmetal.fleet.dask import LOOPBACK, SITE, configure_dask, describe_trouble, refuse_unknown_name
from nearmetal.lab import clean
from nearmetal.model.base import NAME
from nearmetal.progress_messages import Say


def run_worker(scheduler: str, name: str | None, say: Say) -> int:
    """Stand until told to end; the exit code. BadInput, HostCannot."""
    called = name or platform.node()
    if not re.fullmatch(NAME, called):
        remedy = "--name NAME, of letters, digits, '.', '_' and '-'"
        raise BadInput(f"{called!r} is no name of a site", "nearmetal worker", remedy)
    configure_dask()
    return asyncio.run(_stand_as_site(scheduler, called, say))


async def _stand_as_site(scheduler: str, name: str, say: Say) -> int:
    from distributed import Worker

    await refuse_unknown_name(scheduler)
    await clean.clean(say)  # what an earlier worker left
    try:
        # By itself it would look at its memory and restart, and keep results: there is nothing to keep.
        worker = Worker(
            scheduler, nthreads=1, resources={SITE: 1}, name=name, memory_limit=0, dashboard_address=LOOPBACK
        )
        async with asyncio.timeout(dask.CONNECT):
            await worker
    except Exception as error:
        raise _explain_trouble(error, scheduler, name) from None
    say(f"the site {name} stands at {scheduler}; Ctrl-C ends it")
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    ending = asyncio.ensure_future(told.wait())
    gone = asyncio.ensure_future(worker.finished())
    await asyncio.wait({ending, gone}, return_when=asyncio.FIRST_COMPLETED)
    if not told.is_set():
        raise HostCannot("the scheduler is gone", scheduler, "start it again, and then this worker")
    say("stopping: a block that runs here puts right first what it made")
    with contextlib.suppress(Exception):
        await worker.close(timeout=LIMITS.boot)
    return ExitCode.DONE


def _explain_trouble(error: Exception, scheduler: str, name: str) -> Exception:
    if "name taken" in str(error) or "name taken" in str(error.__cause__):
        return BadInput(f"a site called {name} stands there already", scheduler, "choose another: --name NAME")
    return describe_trouble(error, scheduler)


def main() -> None:
    """For a fleet on this host: `python -m nearmetal.fleet.worker SCHEDULER NAME`. Says nothing."""
    logging.disable(logging.CRITICAL)
    try:
        sys.exit(run_worker(sys.argv[1], sys.argv[2], lambda text: None))
    except HostCannot:
        sys.exit(ExitCode.HOST_CANNOT)


if __name__ == "__main__":
    main()
