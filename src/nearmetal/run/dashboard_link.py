"""A run and its dashboard: the step that goes on is noted for it, and what it asks is heeded between two trials."""

import asyncio
from pathlib import Path

from nearmetal.model import Assignment, Identity, identify_assignment
from nearmetal.run.events import BlockSink, Step, TrialEnded, TrialStarted
from nearmetal.store.events import BootStarted, Event
from nearmetal.store.run_control import LiveNote, read_wish
from nearmetal.store.run_folder import RunFolder

_OFTEN = 0.5
"""Seconds between two looks of a run that is paused, and measures nothing."""


class LiveNotes:
    """A listener of a run's events: notes each step as it begins. While a step goes on, nothing is written."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._block = self._attempt = 0
        self._treatment: Assignment = {}
        self._workload = ""
        self._took: dict[tuple[Identity, str], dict[str, int]] = {}
        """Of the last trial of a treatment and workload, how long each step took."""

    def __call__(self, event: Event) -> None:
        match event:
            case BootStarted():
                self._block, self._attempt, self._treatment = event.block, event.attempt, event.treatment
                self._workload = ""
            case TrialStarted():
                self._workload = event.trial.workload
            case TrialEnded():
                trial = event.record.trial
                self._took[identify_assignment(trial.treatment), trial.workload] = dict(event.record.phases_ns)
                self._workload = ""
            case Step(state="begins"):
                self._note_step(event)

    def _note_step(self, step: Step) -> None:
        took = self._took.get((identify_assignment(self._treatment), self._workload), {})
        LiveNote(
            step=step.name,
            since_ns=step.at_ns,
            usual_ns=took.get(step.name),
            block=self._block,
            attempt=self._attempt,
            treatment=self._treatment,
            workload=self._workload,
        ).write(self._folder)


async def wait_while_paused(request: str, sink: BlockSink) -> bool:
    """Wait between two trials until a run is to go on; whether there was anything to wait for.

    `request` is the path of the run's file of that name, or "" if nobody can ask.
    """
    if not request or read_wish(Path(request)) is None:
        return False
    sink.emit(Step(name="paused", state="begins"))
    while True:
        await asyncio.sleep(_OFTEN)
        if read_wish(Path(request)) is None:
            break
    sink.emit(Step(name="paused", state="ended"))
    return True
