"""Having a machine end."""

import os
import select
import signal

from nearmetal.by_hand import kept as written
from nearmetal.by_hand.kept import Kept
from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot
from nearmetal.lab import clean


async def down(name: str) -> list[str]:
    """Take a machine down, whether or not its keeper lives; what could not be removed. BadInput when none is up."""
    kept = written.find(name)
    _end(kept, asking=await kept.has_keeper())
    ledger = clean.ledgers_folder() / f"{kept.token}.jsonl"
    left: list[str] = []
    if ledger.exists():
        left = list((await clean.put_right([ledger])).left)
    written.forget(name)
    return left


def _end(kept: Kept, *, asking: bool) -> None:
    """Tell a keeper to end and wait until it has. By a descriptor, so that no other process is meant."""
    if not asking:
        return
    try:
        keeper = os.pidfd_open(kept.keeper)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(keeper, signal.SIGTERM)
        if not select.select([keeper], [], [], LIMITS.boot)[0]:
            raise stuck(kept.keeper, kept.name)
    except ProcessLookupError:
        pass
    finally:
        os.close(keeper)


def stuck(keeper: int, where: str) -> HostCannot:
    """What is said of a keeper that was told to end and does not."""
    what = f"the keeper (process {keeper}) did not end within {LIMITS.boot:g} s"
    return HostCannot(what, where, f"kill -9 {keeper}, then: nearmetal clean")
