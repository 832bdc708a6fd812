"""What happens in a run, as one stream that journal, terminal and dashboard read.

Durable events are in the journal before anybody hears of them; the others are only told.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal, Protocol

from nearmetal.lab.leftovers import Leftover
from nearmetal.model import TrialAddress, TrialRecord, identify_assignment
from nearmetal.store.events import Event, FactsSeen, LeftBehind
from nearmetal.store.journal import Journal


class Step(Event):
    """A step begins or ends: of a boot or a trial, as a record's `phases_ns` has them, or undo, destroy."""

    durable: ClassVar[bool] = False
    name: str
    state: Literal["begins", "ended"]


class TrialStarted(Event):
    durable: ClassVar[bool] = False
    trial: TrialAddress


class TrialEnded(Event):
    """Its journal line is the record itself."""

    record: TrialRecord

    def to_line(self) -> dict[str, Any]:
        return self.record.model_dump(mode="json")


Listener = Callable[[Event], None]


class BlockSink(Protocol):
    def emit(self, event: Event) -> None: ...


class EventStream:
    """Writes durable events down, then tells every listener. Of what is told anew after every boot the first counts."""

    def __init__(self, journal: Journal, listeners: tuple[Listener, ...] = ()) -> None:
        self._journal = journal
        self._listeners = listeners
        self._told: set[object] = set()

    def emit(self, event: Event) -> None:
        if (what := _identify_event(event)) is not None:
            if what in self._told:
                return
            self._told.add(what)
        if event.durable:
            self._journal.append_line(event.to_line())
        for listener in self._listeners:
            listener(event)

    def syncing_once(self) -> AbstractContextManager[None]:
        """For events that something else keeps as long as this lasts: see `Journal.syncing_once`."""
        return self._journal.syncing_once()

    def note_event(self, event: Event) -> None:
        """Of an event that the journal has already."""
        self._told.add(_identify_event(event))


def _identify_event(event: Event) -> object:
    """What an event is about, if it is told once; None of those that are told each time."""
    if isinstance(event, FactsSeen):
        return identify_assignment(event.treatment), event.role, event.site
    return event.what if isinstance(event, LeftBehind) else None


def emit_left(sink: BlockSink, left: Iterable[Leftover], told: set[str]) -> None:
    """Tell what could not be put right; not what is in `told`, which was told before, after another boot.

    Those left for one reason, such as an engine that is away, are told together.
    """
    new: dict[str, list[str]] = {}
    for one in left:
        if one.what not in told:
            told.add(one.what)
            new.setdefault(one.why, []).append(one.what)
    for why, things in new.items():
        sink.emit(LeftBehind(what=str(Leftover(", ".join(things), why))))
