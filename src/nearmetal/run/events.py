"""What happens in a run, as one stream that journal, terminal and dashboard read.

Durable events are in the journal before anybody hears of them; the others are only told.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from nearmetal.lab.left import Left
from nearmetal.model import Frozen, Level, TrialAddress, TrialRecord
from nearmetal.store.journal import Journal


class Event(Frozen):
    durable: ClassVar[bool] = True
    at_ns: int = Field(default_factory=time.time_ns)

    def line(self) -> dict[str, Any]:
        """The event as it stands in the journal."""
        return {"schema": "event.v1", "event": type(self).__name__, **self.model_dump(mode="json")}


class RunStarted(Event):
    run: str
    blocks: int
    trials: int


class RunResumed(Event):
    finished: int
    changed: Mapping[str, tuple[str, str]] = {}
    """Of the manifest's `versions`, those that are others now: as they were, and as they are."""


class BlockStarted(Event):
    block: int
    attempt: int
    trials: int


class BootStarted(Event):
    block: int
    attempt: int
    treatment: Mapping[str, Level]


class Step(Event):
    """A step begins or ends: of a boot or a trial, as a record's `phases_ns` has them, or undo, destroy."""

    durable: ClassVar[bool] = False
    name: str
    state: Literal["begins", "ended"]


class FactsSeen(Event):
    """What a treatment's machine is like, in its first boot; the manifest keeps it."""

    durable: ClassVar[bool] = False
    treatment: Mapping[str, Level]
    role: Literal["server", "client"]
    facts: Mapping[str, Any]


class TrialStarted(Event):
    durable: ClassVar[bool] = False
    trial: TrialAddress


class TrialEnded(Event):
    """Its journal line is the record itself."""

    record: TrialRecord

    def line(self) -> dict[str, Any]:
        return self.record.model_dump(mode="json")


class BootEnded(Event):
    block: int
    attempt: int
    treatment: Mapping[str, Level]
    phases_ns: Mapping[str, int]
    """How long each of its steps took."""


class BlockEnded(Event):
    block: int
    attempt: int
    whole: bool
    """Every trial is ok; else the block is repeated, twice at most."""


class LookTaken(Event):
    """A sequential run has looked at its primary contrasts, as far as they had come by then."""

    look: int
    """From 1 on, as the plan has them."""
    blocks: int
    """That had run: fewer than the plan has for this look where no block to come has anything for it to see."""
    decided: int
    undecided: int
    """Those left out that no more blocks could decide."""
    stops: bool
    """Nothing is left to decide."""


class Withdrawn(Event):
    """A treatment that failed three attempts running is not tried again."""

    treatment: Mapping[str, Level]
    reason: str


class NothingToCompare(Event):
    """Of every planned contrast a side was withdrawn, so that a run of fixed blocks ends before them all."""

    blocks: int
    """That had run by then."""


class LeftBehind(Event):
    """Something that could not be put back or removed; `nearmetal clean` tries again."""

    what: str


class RunEnded(Event):
    interrupted: bool


Listener = Callable[[Event], None]


class Stream:
    """Writes durable events down, then tells every listener."""

    def __init__(self, journal: Journal, listeners: tuple[Listener, ...] = ()) -> None:
        self._journal = journal
        self._listeners = listeners
        self._left: set[str] = set()

    def emit(self, event: Event) -> None:
        if event.durable:
            self._journal.append(event.line())
        for listener in self._listeners:
            listener(event)

    def left_behind(self, left: Iterable[Left]) -> None:
        """Each thing once: it is tried again after every boot. Those for one reason, such as an engine that is away,
        together."""
        new: dict[str, list[str]] = {}
        for one in left:
            if one.what not in self._left:
                self._left.add(one.what)
                new.setdefault(one.why, []).append(one.what)
        for why, things in new.items():
            self.emit(LeftBehind(what=str(Left(", ".join(things), why))))
