"""What executes the blocks of a run: processes on this host, or the sites of a fleet."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from nearmetal.model import HostSpec, Resolved
from nearmetal.progress_messages import Say
from nearmetal.run.progress import Progress
from nearmetal.store.events import Event
from nearmetal.store.run_folder import RunFolder

Listeners = tuple[Callable[[Event], None], ...]


RunBlocks = Callable[[RunFolder, Mapping[str, HostSpec], Listeners, Mapping[str, tuple[str, str]]], Awaitable[Progress]]
"""As `plan_execution.run_plan`: of a folder, its hosts, who listens, and what has changed since the run began."""


class BlockExecutor(Protocol):
    def refuse_run(self, folder: RunFolder, happened: Sequence[Mapping[str, Any]]) -> None:
        """BadInput if a run with these events began elsewhere."""
        ...

    def open(self, resolved: Sequence[Resolved], run: str, say: Say) -> AbstractAsyncContextManager[RunBlocks]:
        """Have ready what runs blocks of these treatments. BadInput, HostCannot: before anything is made.

        `run` names the study and the run's folder to whoever has to wait for it.
        """
        ...


def began_on_fleet(happened: Sequence[Mapping[str, Any]]) -> bool:
    return any(event["event"] == "SitesJoined" for event in happened)
