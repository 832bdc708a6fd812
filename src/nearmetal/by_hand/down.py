"""Having a machine end."""

import asyncio
import contextlib
import os
import signal

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot
from nearmetal.lab import clean
from nearmetal.lab.changes.ledger import ledgers_folder
from nearmetal.lab.machines import registry as written
from nearmetal.lab.machines.init_process import wait_readable
from nearmetal.lab.machines.registry import KeptMachine
from nearmetal.progress_messages import Say, ignore_text, meanwhile
from nearmetal.system.files import closing_descriptor


async def remove_machine(name: str, say: Say = ignore_text) -> list[str]:
    """Take a machine down, whether or not its keeper lives; what could not be removed. BadInput when none is up.

    `say` is told that it takes long, as it does where a guest does not hear that it is to shut down.
    """
    kept = written.find(name)
    async with meanwhile(say, lambda: f"still taking {name} down"):
        if await kept.has_keeper():
            await _end_keeper(kept)
        ledger = ledgers_folder() / f"{kept.token}.jsonl"
        left: list[str] = []
        if ledger.exists():
            left = list((await clean.put_right([ledger])).left)
    written.forget(name)
    return left


async def _end_keeper(kept: KeptMachine) -> None:
    """Tell a keeper to end and wait until it has. By a descriptor, so that no other process is meant."""
    try:
        keeper = os.pidfd_open(kept.keeper)
    except ProcessLookupError:
        return
    with closing_descriptor(keeper), contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(keeper, signal.SIGTERM)
        try:
            await asyncio.wait_for(wait_readable(keeper), LIMITS.boot)
        except TimeoutError:
            raise make_stuck_error(kept.keeper, kept.name) from None


def make_stuck_error(keeper: int, where: str) -> HostCannot:
    """What is said of a keeper that was told to end and does not."""
    what = f"the keeper (process {keeper}) did not end within {LIMITS.boot:g} s"
    return HostCannot(what, where, f"kill -9 {keeper}, then: nearmetal clean")
