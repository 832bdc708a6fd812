"""What happens in a run, as one stream that journal, terminal and dashboard read.

Durable events are in the journal before anybody hears of them; the others are only told.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal

from nearmetal.lab.left import Left
from nearmetal.model import Level, TrialAddress, TrialRecord
from nearmetal.store.events import BlockEnded as BlockEnded
from nearmetal.store.events import BlockStarted as BlockStarted
from nearmetal.store.events import BootEnded as BootEnded
from nearmetal.store.events import BootStarted as BootStarted
from nearmetal.store.events import Event as Event
from nearmetal.store.events import LeftBehind as LeftBehind
from nearmetal.store.events import LookTaken as LookTaken
from nearmetal.store.events import NothingToCompare as NothingToCompare
from nearmetal.store.events import RunEnded as RunEnded
from nearmetal.store.events import RunResumed as RunResumed
from nearmetal.store.events import RunStarted as RunStarted
from nearmetal.store.events import Withdrawn as Withdrawn
from nearmetal.store.journal import Journal


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
