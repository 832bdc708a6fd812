"""What happened in a run, as its journal's lines say it beside those of trials: each kind of event with its keys."""

import time
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from nearmetal.model import Frozen, Level


class Event(Frozen):
    durable: ClassVar[bool] = True
    at_ns: int = Field(default_factory=time.time_ns)

    def to_line(self) -> dict[str, Any]:
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
    """Every trial is ok. Else the block is repeated, twice at most, unless treatments alone are to blame."""


class LookTaken(Event):
    """A sequential run has looked at its primary contrasts, as far as they had come by then."""

    look: int
    """From 1 on, as the plan has them."""
    blocks: int
    """That had run: fewer than the plan has for this look where no block to come has anything for it to see."""
    decided: int
    undecided: int
    """Those left out that no more blocks could decide, or will hardly."""
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


class FactsSeen(Event):
    """What a machine of a treatment is like, as its first boot told; the journal has the first of each."""

    treatment: Mapping[str, Level]
    role: Literal["server", "client"]
    site: str = "local"
    facts: Mapping[str, Any]


class SitesJoined(Event):
    """A run begins or goes on with its blocks on a fleet: its sites, as they stand in the list of blocks."""

    scheduler: str
    token: str
    """Names the run to its sites, whatever its folder is called. Drawn once; it stays when the run goes on."""
    sites: Mapping[str, Mapping[str, str]]
    """By name, what each is: host, kernel, Python, processor."""


class BlockDispatched(Event):
    """A block's attempt is about to be given to a site. What an earlier dispatch of it does counts no more."""

    block: int
    attempt: int
    dispatch: int
    """From 1 on, over the whole run."""
    site: str


class LeftBehind(Event):
    """Something that could not be put back or removed; `nearmetal clean` tries again."""

    what: str


class RunEnded(Event):
    interrupted: bool


_KINDS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in Event.__subclasses__()}


def as_declared(line: dict[str, Any]) -> dict[str, Any]:
    """An event's line, its keys as its kind has them; those that this version does not know stay as they are, and so do
    events of a kind that it does not know. Pure. ValidationError."""
    kind = _KINDS.get(line["event"])
    if kind is None:
        return line
    known = {name: line[name] for name in kind.model_fields if name in line}
    # Facts are whatever a machine told (`nearmetal.store.facts`): they stay as they are.
    return line | kind.model_validate(known).model_dump(mode="json", exclude_unset=True, exclude={"facts"})
