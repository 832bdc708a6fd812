"""The ledger: what exists because of us, and what was changed by us. Written down before it is so.

One file per run or machine kept up, in the state folder. Its owner holds a lock on it while it lives; a ledger that
can be locked belongs to nobody any more, and what it still holds is for `clean` to put right.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nearmetal.errors import HostCannot
from nearmetal.model import Change, Handle
from nearmetal.store.journal import Journal, lines


@dataclass(frozen=True)
class Outstanding:
    """What a ledger still holds, newest first."""

    handles: tuple[Handle, ...]
    changes: tuple[tuple[int, Change], ...]
    """With the number under which `undone` takes them."""


class Ledger:
    """Appends; every line is on disk before the call returns."""

    def __init__(self, path: Path) -> None:
        """Open and lock. HostCannot when its owner lives."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise HostCannot("another nearmetal holds this ledger", str(path), "wait until it ends") from None
        self._journal = Journal(path)
        self._changes = sum(1 for line in lines(path) if line["op"] == "change")

    def creating(self, handle: Handle) -> None:
        self._journal.append({"op": "create", "handle": handle.model_dump(mode="json")})

    def destroyed(self, handle: Handle) -> None:
        self._journal.append({"op": "destroyed", "kind": handle.kind, "name": handle.name, "site": handle.site})

    def changing(self, change: Change) -> int:
        """Note a change whose `before` is filled in; returns the number to undo it by."""
        number = self._changes
        self._changes += 1
        self._journal.append({"op": "change", "number": number, "change": change.model_dump(mode="json")})
        return number

    def undone(self, number: int) -> None:
        self._journal.append({"op": "undone", "number": number})

    def outstanding(self) -> Outstanding:
        return outstanding(self.path)

    def close(self) -> None:
        """Let go; an empty ledger is removed."""
        held = self.outstanding()
        if not held.handles and not held.changes:
            self.path.unlink(missing_ok=True)
        self._journal.close()
        os.close(self._lock)


def outstanding(path: Path) -> Outstanding:
    """Read what a ledger still holds."""
    handles: dict[tuple[str, str, str], Handle] = {}
    changes: dict[int, Change] = {}
    for line in lines(path):
        match line["op"]:
            case "create":
                handle = Handle.from_json(line["handle"])
                handles[handle.kind, handle.name, handle.site] = handle
            case "destroyed":
                handles.pop((line["kind"], line["name"], line["site"]), None)
            case "change":
                changes[line["number"]] = Change.from_json(line["change"])
            case "undone":
                changes.pop(line["number"], None)
    return Outstanding(tuple(reversed(handles.values())), tuple(reversed(changes.items())))


def ownerless(folder: Path) -> Iterator[Path]:
    """Ledgers whose owner is dead."""
    for path in sorted(folder.glob("*.jsonl")):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)
        yield path


@contextmanager
def held(path: Path) -> Iterator[Ledger]:
    ledger = Ledger(path)
    try:
        yield ledger
    finally:
        ledger.close()
