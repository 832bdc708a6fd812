"""What `nearmetal isolate exec` does."""

import os
from collections.abc import Sequence
from typing import NoReturn

from nearmetal.commands.by_hand import own_failures_apart
from nearmetal.commands.isolate import must_be_root
from nearmetal.errors import HostCannot
from nearmetal.isolate import standing
from nearmetal.lab.site import LocalSite
from nearmetal.system.interrupts import run_until_done


def become_program(program: Sequence[str]) -> int:
    """This process becomes the program, on the isolated CPUs and no others. Returns only when that fails."""
    return own_failures_apart(lambda: _replace_process(LocalSite(), program))


def _replace_process(site: LocalSite, program: Sequence[str]) -> NoReturn:
    must_be_root()
    words = [*run_until_done(_list_prefix(site)), *program]
    os.execv(words[0], words)


async def _list_prefix(site: LocalSite) -> Sequence[str]:
    held = await standing.held_changes(site, standing.ledger_path())
    if not standing.isolated_cpus(held):
        raise HostCannot("no CPU is isolated to run it on", remedy="first: nearmetal isolate on")
    return await standing.list_prefix(site, held, site.probe)
