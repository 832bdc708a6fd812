"""A fleet in the place of this host, for `nearmetal run` and `resume`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from nearmetal.errors import BadInput
from nearmetal.fleet.cluster import open_fleet, parse_scheduler
from nearmetal.fleet.controller import Controller, refuse_shared_hosts
from nearmetal.model import HostSpec, Resolved
from nearmetal.progress_messages import Say
from nearmetal.run.block_executor import Listeners, RunBlocks, began_on_fleet
from nearmetal.run.progress import Progress
from nearmetal.run.site_resources import is_pretended
from nearmetal.store.run_folder import RunFolder


class FleetExecutor:
    """A `BlockExecutor`."""

    def __init__(self, scheduler: str) -> None:
        """BadInput if that is neither an address nor a number of sites here."""
        self._count = parse_scheduler(scheduler)
        self._scheduler = scheduler

    def refuse_run(self, folder: RunFolder, happened: Sequence[Mapping[str, Any]]) -> None:
        if any(event["event"] == "BlockStarted" for event in happened) and not began_on_fleet(happened):
            remedy = f"nearmetal resume {folder.path}"
            raise BadInput("this run has its blocks on this host, and not on a fleet", str(folder.path), remedy)

    @asynccontextmanager
    async def open(self, resolved: Sequence[Resolved], run: str, say: Say) -> AsyncIterator[RunBlocks]:
        if (self._count or 1) > 1 and not is_pretended(resolved):
            remedy = "--scheduler local:1, or a worker on each of several hosts"
            raise BadInput("several sites on one host are for studies of kind mock only", "--scheduler", remedy)
        async with open_fleet(self._scheduler) as fleet:
            refuse_shared_hosts(fleet, resolved)

            async def run_blocks(
                folder: RunFolder,
                hosts: Mapping[str, HostSpec],
                listeners: Listeners,
                changed: Mapping[str, tuple[str, str]],
            ) -> Progress:
                return await Controller(folder, fleet, hosts, listeners, say).run(changed)

            yield run_blocks
