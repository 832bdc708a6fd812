"""`nearmetal demo`: the study quickstart, with a Docker engine of its own if none answers; and `--engine own`."""

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from nearmetal.commands.options import RunPath
from nearmetal.errors import HostCannot

RUN = ("run", "quickstart", "--available", "--blocks", "12")
"""With a fixed number of blocks, those of the study's first look: five minutes at most where guests are emulated."""

_OWN = "--engine own"


@click.command()
@click.option("--resume", "run", type=RunPath(), metavar="RUN", help="Go on with the demo's run.")
def demo(run: Path | None) -> int:
    """Measure this host, a container and a VM.

    The study quickstart, with what this host has. Where no Docker engine answers it starts one of its own, and stops
    it at its end.
    """
    import asyncio

    if run:
        from nearmetal.store.run_folder import RunFolder

        RunFolder.open(run)
    return asyncio.run(_run_on_engine(["resume", str(run)] if run else RUN))


def run_on_own_engine() -> int:
    """Carry out what was asked for but `--engine own`, and stop the engine at its end; its exit code.

    HostCannot if the engine does not come up.
    """
    import asyncio

    arguments = sys.argv[1:]
    at = next(at for at, word in enumerate(arguments) if word.startswith("--engine"))
    after = at + (1 if "=" in arguments[at] else 2)
    return asyncio.run(_on_own_engine([*arguments[:at], *arguments[after:]], f"nearmetal resume {_OWN} "))


async def _on_own_engine(command: Sequence[str], hint: str) -> int:
    from nearmetal.config import Paths
    from nearmetal.lab.containers.private_engine import run_private_engine

    async with run_private_engine(Paths.default().cache / "engine") as url:
        return await _run(command, {"DOCKER_HOST": url, "NEARMETAL_RESUME_HINT": hint})


async def _run_on_engine(command: Sequence[str]) -> int:
    from nearmetal.lab.containers.api import DOCKER, ContainerEngine

    try:
        await ContainerEngine.connect(DOCKER.address({}))
        return await _run(command, {})
    except HostCannot:
        if os.geteuid() != 0:
            print("no Docker engine answers here, and only root can start one: without containers", flush=True)
            return await _run(command, {})
        print("no Docker engine answers here: the demo starts one, and stops it at its end", flush=True)
    try:
        return await _on_own_engine(command, "nearmetal demo --resume ")
    except HostCannot as error:
        print(f"{error}\nthe demo goes on without containers", file=sys.stderr, flush=True)
        return await _run(command, {})


async def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Its status. Signals are passed on, and the engine stays until the command has tidied up.

    In a session of its own no other signal reaches it: where this process is killed, it is told to end. SIGINT alone is
    passed on as that, since one more of it is not to wait any longer; a terminal that is closed tells twice.
    """
    import asyncio

    from nearmetal.system.interrupts import list_ending_signals

    process: asyncio.subprocess.Process | None = None
    early: list[signal.Signals] = []

    def interrupt_process(number: signal.Signals) -> None:
        if process is None:
            early.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number if number == signal.SIGINT else signal.SIGTERM)

    loop = asyncio.get_running_loop()
    for number in list_ending_signals():
        loop.add_signal_handler(number, interrupt_process, number)
    process = await asyncio.create_subprocess_exec(
        *("setpriv", "--pdeathsig", "TERM", "--", sys.executable, "-m", "nearmetal", *command),
        env={**os.environ, **environment},
        start_new_session=True,
    )
    for number in early:
        interrupt_process(number)
    status = await process.wait()
    return status if status >= 0 else 128 - status  # of one that a signal ended, as a shell tells it
