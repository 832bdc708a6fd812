"""The ledger: what exists because of us, and what was changed by us. Written down before it is so.

One file per run or machine kept up, in the state folder. Its owner holds a lock on it while it lives; a ledger that
can be locked belongs to nobody any more, and what it still holds is for `clean` to put right. Its first line says on
which host and in which boot it was begun: another host that sees the same folder has nothing of what it holds.
"""

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nearmetal.config import LIMITS, Paths
from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.process_locks import lock_after_dead, try_lock
from nearmetal.model import Change, Frozen, Handle, HostSpec
from nearmetal.store.journal import Journal, read_entries
from nearmetal.system.files import closing_descriptor, make_folder

_MACHINE_ID = Path("/etc/machine-id")


class Origin(Frozen):
    machine: str
    """Tells a host from every other, in all its boots."""
    name: str
    """For people."""
    boot_id: str


def read_origin() -> Origin:
    name = platform.node()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return Origin(machine=_machine_id() or name, name=name, boot_id=boot_id)


def _machine_id() -> str:
    """ "" where there is none, as in many containers, or none yet."""
    try:
        text = _MACHINE_ID.read_text().strip()
    except OSError:
        return ""
    return "" if text == "uninitialized" else text


def ledgers_folder() -> Path:
    return Paths.default().state / "ledgers"


def isolation_folder() -> Path:
    """Ledgers of what stands after the command that made it. No run replays them before it starts."""
    return Paths.default().state / "isolation"


def new_token() -> str:
    """Tells one lab's things from another's, in names of at most 15 characters."""
    return os.urandom(3).hex()


_BY_HAND = "see by hand what it names, then remove the file"

_IN_MEMORY = ("/dev/", "/proc/", "/run/", "/sys/")
"""Folders whose files a boot makes anew."""


class OfAnotherHost(HostCannot):
    """What a ledger holds is on another host, which sees the same folder of state."""

    def __init__(self, path: Path, held: "Outstanding") -> None:
        has = ", ".join([*held.made, *held.changed]) or "nothing any more"
        remedy = "give `nearmetal clean` there; if that host is no more, remove the file"
        super().__init__(f"it is of the host {held.elsewhere}, which has {has}", str(path), remedy)


@dataclass(frozen=True)
class Outstanding:
    """What a ledger still holds, newest first."""

    handles: tuple[Handle, ...]
    changes: tuple[tuple[int, Change], ...]
    """With the number under which `undone` takes them."""
    hosts: Mapping[str, HostSpec]
    """How each host was reached on which there is, or was, something of it."""
    boot_id: str = ""
    """Of the boot of this host in which it was changed; "" where that does not matter."""
    origin: Origin | None = None
    """Where it was begun; ledgers of earlier states of the source do not tell."""

    @property
    def elsewhere(self) -> str:
        """The name of the host that it is of, if that is another one than this; else ""."""
        return "" if self.origin is None or self.origin.machine == read_origin().machine else self.origin.name

    @property
    def made(self) -> list[str]:
        """What it holds that was made, for people."""
        return [f"{handle.kind} {handle.name}" for handle in self.handles]

    @property
    def changed(self) -> list[str]:
        return [f"{change.on}: {change.kind} {change.target}" for _, change in self.changes]

    def changes_of_boot(self, boot_id: str) -> tuple[tuple[int, Change], ...]:
        """The changes that this boot of this host has: all of its own, of another boot what outlasts one."""
        if self.elsewhere:
            return ()
        if self.boot_id in ("", boot_id):
            return self.changes
        return tuple((number, change) for number, change in self.changes if _outlasts_a_boot(change))


def _outlasts_a_boot(change: Change) -> bool:
    """Of this host: other sites and machines have boots of their own."""
    if change.on != "site:local" or change.kind == "boot":
        return True
    return change.kind == "file" and not change.target.startswith(_IN_MEMORY)


class _Account:
    def __init__(self) -> None:
        self._handles: dict[tuple[str, str, str], Handle] = {}
        self._changes: dict[int, Change] = {}
        self._hosts: dict[str, HostSpec] = {}
        self.numbered = 0
        self._boot_id = ""
        self._origin: Origin | None = None

    def take(self, line: Mapping[str, Any]) -> None:
        match line["op"]:
            case "begun":
                self._origin = Origin.from_json(line["origin"])
                self._boot_id = self._origin.boot_id
            case "host":
                self._hosts[line["name"]] = HostSpec.from_json(line["spec"])
            case "create":
                handle = Handle.from_json(line["handle"])
                self._handles[handle.kind, handle.name, handle.site] = handle
            case "destroyed":
                self._handles.pop((line["kind"], line["name"], line["site"]), None)
            case "change":
                self._changes[line["number"]] = Change.from_json(line["change"])
                self.numbered = line["number"] + 1
            case "undone":
                self._changes.pop(line["number"], None)
            case "boot":
                self._boot_id = line["id"]

    def outstanding(self) -> Outstanding:
        return Outstanding(
            tuple(reversed(self._handles.values())),
            tuple(reversed(self._changes.items())),
            dict(self._hosts),
            self._boot_id,
            self._origin,
        )


class Ledger:
    """Appends; every line is on disk before the call returns."""

    def __init__(self, path: Path) -> None:
        """Open and lock. HostCannot when its owner lives, OfAnotherHost, BadInput when a line of it is damaged."""
        make_folder(path.parent)
        self.path = path
        self.settled: set[int] = set()
        """Numbers of changes that were undone or went with their boot, also where the disk took no note of it."""
        self._lock = _locked(path)
        try:
            self._account = _account(path)
            if (held := self.outstanding()).elsewhere:
                raise OfAnotherHost(path, held)
            self._journal = Journal(path)
        except BaseException:
            os.close(self._lock)
            raise
        if not os.fstat(self._lock).st_size:
            self._begin()

    def _begin(self) -> None:
        try:
            self._append({"op": "begun", "origin": read_origin().model_dump(mode="json"), "process": os.getpid()})
        except OSError:
            self.close()
            raise

    def reached(self, name: str, spec: HostSpec) -> None:
        """Note how a host is reached, for whoever has to put it right: a study may not be at hand then."""
        if self.outstanding().hosts.get(name) == spec:
            return  # whoever puts it right needs no room on the disk for that
        self._append({"op": "host", "name": name, "spec": spec.model_dump(mode="json")})

    def creating(self, handle: Handle) -> None:
        """Note what is about to be made; again, with more to find it by, when more is known."""
        self._append({"op": "create", "handle": handle.model_dump(mode="json")})

    def destroyed(self, handle: Handle) -> None:
        self._append({"op": "destroyed", "kind": handle.kind, "name": handle.name, "site": handle.site})

    def changing(self, change: Change) -> int:
        """Note a change whose `before` is filled in; returns the number to undo it by."""
        number = self._account.numbered
        self._append({"op": "change", "number": number, "change": change.model_dump(mode="json")})
        return number

    def undone(self, number: int) -> None:
        self.settled.add(number)
        self._append({"op": "undone", "number": number})

    def settle_other_boots(self, boot_id: str) -> None:
        """What another boot of this host took along needs no undoing. No word to the disk, which may take no more."""
        held = self.outstanding()
        still = dict(held.changes_of_boot(boot_id))
        self.settled.update(number for number, _ in held.changes if number not in still)

    def begin_boot(self, boot_id: str) -> None:
        """Note which boot of this host what follows belongs to; what another one took along is forgotten."""
        self.settle_other_boots(boot_id)
        held = self.outstanding()
        for number, _ in held.changes:
            if number in self.settled:
                self.undone(number)
        if held.boot_id != boot_id:
            self._append({"op": "boot", "id": boot_id})

    def _append(self, line: dict[str, Any]) -> None:
        self._journal.append_line(line)
        self._account.take(line)

    def outstanding(self) -> Outstanding:
        return self._account.outstanding()

    def close(self) -> None:
        """Let go; a ledger that holds nothing is removed."""
        held = self.outstanding()
        try:
            if not held.handles and not held.changes:
                self.path.unlink(missing_ok=True)
        finally:
            self._journal.close()
            os.close(self._lock)


def _locked(path: Path) -> int:
    """The file that lies there, made if there is none, with its lock. HostCannot when its owner lives. Who had the lock
    before may have removed the file that was opened: then another one lies there, or none."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not try_lock(descriptor):
                raise HostCannot("another nearmetal holds this ledger", str(path), "wait until it ends")
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _account(path: Path) -> _Account:
    """BadInput, with the line's number, where one is damaged."""
    account = _Account()
    try:
        for number, line in enumerate(read_entries(path), 1):
            try:
                account.take(line)
            except (KeyError, ValidationError):
                raise BadInput(f"line {number} is none that a ledger has", str(path)) from None
    except BadInput as error:
        raise BadInput(error.what, error.where, _BY_HAND) from None
    return account


def outstanding(path: Path) -> Outstanding:
    return _account(path).outstanding()


def ownerless(folder: Path) -> Iterator[Path]:
    """Ledgers whose owner is dead. OSError, where a glob would find nothing."""
    for path in sorted(folder.glob("*.jsonl")) if folder.exists() else ():
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # its owner has ended just now, and left nothing
        with closing_descriptor(descriptor):
            has_none = lock_after_dead(descriptor, LIMITS.stop)
        if has_none:
            yield path


def held(path: Path) -> closing[Ledger]:
    return closing(Ledger(path))


@contextmanager
def held_anew() -> Iterator[tuple[str, Ledger]]:
    """A ledger of a new token, with that. One that `clean` looked into before we had its lock is left to it."""
    while True:
        token = new_token()
        try:
            ledger = Ledger(ledgers_folder() / f"{token}.jsonl")
        except HostCannot:
            continue
        with closing(ledger):
            yield token, ledger
        return
