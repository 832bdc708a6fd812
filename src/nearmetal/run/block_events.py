"""How a block's process tells what happens: one JSON line for each event, and how it ended as the last. Pure."""

import json
from collections.abc import Mapping
from functools import cache
from typing import ClassVar, Literal

from pydantic import ValidationError

from nearmetal.errors import BadInput, HostCannot, NearmetalError, ToolFailed
from nearmetal.run.events import Step, TrialStarted
from nearmetal.store.events import Event

Kind = Literal["input", "host", "tool", "own", "system", "defect"]


class ProgressMessage(Event):
    """Something for whoever waits."""

    durable: ClassVar[bool] = False
    text: str


class Heartbeat(Event):
    """The process is alive, and its loop goes round."""

    durable: ClassVar[bool] = False


class BlockFinished(Event):
    """The last line of a block that came to its end."""

    durable: ClassVar[bool] = False
    modules: list[str]
    """What was imported meanwhile: the next block need not wait for that again."""


class BlockFailed(Event):
    """The last line of a block that an error ended."""

    durable: ClassVar[bool] = False
    kind: Kind
    what: str
    where: str = ""
    remedy: str = ""
    errno: int | None = None

    @classmethod
    def from_error(cls, error: NearmetalError | OSError) -> "BlockFailed":
        if isinstance(error, OSError):
            where = str(error.filename or "")
            return cls(kind="system", what=error.strerror or str(error), where=where, errno=error.errno)
        kind = next((name for name, its in _KINDS.items() if isinstance(error, its)), "own")
        return cls(kind=kind, what=error.what, where=error.where, remedy=error.remedy)

    def make_error(self) -> Exception:
        """The error as it was raised there."""
        if self.kind == "system":
            return OSError(self.errno or 0, self.what, self.where or None)
        if self.kind == "defect":
            return RuntimeError(f"a block's process broke:\n{self.what}")
        return _KINDS.get(self.kind, NearmetalError)(self.what, self.where, self.remedy)


_KINDS: Mapping[Kind, type[NearmetalError]] = {"input": BadInput, "host": HostCannot, "tool": ToolFailed}


def write_event(event: Event) -> bytes:
    return json.dumps([type(event).__name__, event.model_dump(mode="json")], separators=(",", ":")).encode() + b"\n"


TRANSIENT_PREFIXES = tuple(f'["{kind.__name__}",'.encode() for kind in (Step, TrialStarted, Heartbeat))
"""How lines begin that only those need who watch the block: most of them."""


def read_event(line: bytes) -> Event:
    """An event from its line. ValueError when it is none."""
    try:
        name, content = json.loads(line)
        kind = _list_event_kinds()[name]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(f"this is no event: {line[:100]!r}") from None
    try:
        event: Event = kind.from_json(content)
    except ValidationError as error:
        raise ValueError(f"the event {name} is not as declared: {error.errors()[0]['loc']}") from None
    return event


@cache
def _list_event_kinds() -> Mapping[str, type[Event]]:
    return {kind.__name__: kind for kind in Event.__subclasses__()}
