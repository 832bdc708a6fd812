"""The journal of a run: one JSON line per record or event, append-only, fsynced, safe against a torn last line.

Each line ends with a checksum of itself (`nearmetal.store.checksum`); lines of earlier versions have none.
"""

import contextlib
import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeGuard

from pydantic import ValidationError

from nearmetal.errors import BadInput
from nearmetal.model import TrialRecord
from nearmetal.store import damage
from nearmetal.store.checksum import CHANGED, ChecksumMismatch, add_checksum, lacks_only_its_end, without_checksum
from nearmetal.store.events import as_declared
from nearmetal.system.files import open_regular, read_regular, sync_folder

_FROM_A_COPY = "restore the file from a copy; it is append-only"

Line = TrialRecord | dict[str, Any]
"""A trial's record, or an event."""


class Journal:
    """Appends lines. A line is on disk when `append_line` returns, and so is the name of the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = open_regular(path, _FROM_A_COPY, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self._syncs_each = True
        try:
            self._cut_torn_line()
            if not os.fstat(self._descriptor).st_size:
                sync_folder(path.absolute().parent)  # it may be new
        except BaseException:
            os.close(self._descriptor)
            raise

    def append_line(self, line: dict[str, Any]) -> None:
        """OSError, which names the file, when the disk is full; the journal then ends with the line before."""
        content = render_line(line)
        before = os.fstat(self._descriptor).st_size
        try:
            if os.write(self._descriptor, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._syncs_each:
                os.fsync(self._descriptor)
        except OSError as error:
            self._cut(before, error)
            raise

    @contextlib.contextmanager
    def syncing_once(self) -> Iterator[None]:
        """Lines that something else keeps as long as this lasts are on disk when it ends. OSError as of `append_line`;
        the journal then ends with the line before all of them."""
        before = os.fstat(self._descriptor).st_size
        self._syncs_each = False
        try:
            yield
        finally:
            self._syncs_each = True
            try:
                if os.fstat(self._descriptor).st_size != before:
                    os.fsync(self._descriptor)
            except OSError as error:
                self._cut(before, error)
                raise

    def _cut(self, size: int, error: OSError) -> None:
        os.ftruncate(self._descriptor, size)
        error.filename = str(self.path)

    def close(self) -> None:
        os.close(self._descriptor)

    def _cut_torn_line(self) -> None:
        """A crash in the middle of a write leaves a line without an end; what it said never counted."""
        content = read_regular(self.path, _FROM_A_COPY)
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            os.ftruncate(self._descriptor, whole)


def render_line(line: Mapping[str, Any]) -> bytes:
    """A line as it is written: with its checksum and its end."""
    return add_checksum(json.dumps(line, separators=(",", ":")).encode()) + b"\n"


_LONGEST_EVENT = 2**16
"""Bytes. Of a longer last line it is not told what it is."""


def read_entries(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole line. BadInput, with the line's number, when one is not a JSON object."""
    return (line for _, line in _number_lines(path))


def read_records(path: Path) -> Iterator[TrialRecord]:
    """The trials of a journal, in the order they ended. BadInput, with the line's number, when one is damaged, or is of
    a trial that has a line already: no run measures one twice, and of such trials nothing can be compared."""
    return (one for one in _read_validated(path) if isinstance(one, TrialRecord))


def _read_validated(path: Path) -> Iterator[Line]:
    seen: dict[str, int] = {}
    for number, line in _read_run_lines(path):
        if line["schema"] == "event.v1":
            yield line
            continue
        record = _require_record(path, number, line)
        before = seen.setdefault(record.trial.id, number)
        if before != number:
            what = f"line {number} is of the same trial as line {before}"
            raise BadInput(what, str(path), "restore the file from a copy; each trial has one line")
        yield record


class CheckedLine(NamedTuple):
    """A whole line, for whoever looks at all of them, damaged or not."""

    number: int
    content: Line | BadInput
    has_checksum: bool


def check_lines(path: Path) -> Iterator[CheckedLine]:
    """Each whole line, or what is wrong with it. BadInput where the journal is no file; OSError."""
    with open_journal(path) as file:
        for number, raw in enumerate(file, 1):
            try:
                if (line := _parse(path, number, raw)) is None:
                    return
                line = _require_event(path, number, line)
                content: Line = line if line["schema"] == "event.v1" else _require_record(path, number, line)
            except BadInput as error:
                yield CheckedLine(number, error, True)
            else:
                yield CheckedLine(number, content, without_checksum(raw[:-1]) != raw[:-1])


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Everything else: events of the run, each `{"schema": "event.v1", "event": NAME, ...}`, also of a NAME that this
    version does not know."""
    for _, line in _read_run_lines(path):
        if line["schema"] == "event.v1":
            yield line


def read_journal(path: Path) -> tuple[tuple[TrialRecord, ...], tuple[dict[str, Any], ...]]:
    """Records and events. BadInput as of `read_records`."""
    told = read_lines(path)
    return (
        tuple(one for one in told if isinstance(one, TrialRecord)),
        tuple(one for one in told if not isinstance(one, TrialRecord)),
    )


def read_lines(path: Path) -> Sequence[Line]:
    """Records and events in their order, each line parsed the fast way. BadInput as of `read_records`, which says what
    is wrong with a line that is neither."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        *whole, rest = read_regular(path, _FROM_A_COPY).split(b"\n")
        if rest:
            refuse_changed_end(rest)
        told = [parse_line(line) for line in whole]
        ids = [one.trial.id for one in told if isinstance(one, TrialRecord)]
        if len(set(ids)) == len(ids):
            return told
    return list(_read_validated(path))


def open_journal(path: Path) -> BinaryIO:
    """For reading. BadInput when it is no file; OSError."""
    return os.fdopen(open_regular(path, _FROM_A_COPY), "rb")


def blocks_planned(planned: int, told: Iterable[Mapping[str, Any]]) -> int:
    """Of the blocks that a run may have, those that it was to have: in a sequential one, those before the look that has
    decided all. Those that nothing was left to compare in were to come: they are missing."""
    ends = (event["blocks"] for event in told if event["event"] == "LookTaken" and event["stops"])
    return int(next(ends, planned))


def blocks_to_run(planned: int, told: Iterable[Mapping[str, Any]]) -> int:
    """Of the blocks that are planned, those before the end by a run's events: a look that has decided all, or no
    comparison with both its sides."""
    known = list(told)
    ends = (event["blocks"] for event in known if event["event"] == "NothingToCompare")
    return int(next(ends, blocks_planned(planned, known)))


def read_last_event(path: Path) -> dict[str, Any]:
    """The last whole line, if it is an event's; else nothing. The others are not read."""
    with open_journal(path) as file:
        file.seek(max(0, path.stat().st_size - _LONGEST_EVENT))
        whole, _, _ = file.read().rpartition(b"\n")
    try:
        line = json.loads(without_checksum(whole.rpartition(b"\n")[2]))
    except (ValueError, RecursionError):
        return {}
    return line if is_event(line) else {}


_CHECKSUM = "sum"

_RECORD = (b'{"schema":"record.v2",', b'{"schema":"record.v1",')
"""How `Journal` begins a record, and did in version 1."""


def parse_line(line: bytes) -> TrialRecord | dict[str, Any]:
    """A whole line, without its end: a record, validated while it is parsed, in a third of the time that `read_records`
    takes, or an event. ValueError or RecursionError when it is neither, or was changed."""
    content = without_checksum(line)
    if content.startswith(_RECORD):
        return TrialRecord.model_validate_json(content)
    event = json.loads(content)
    if not is_event(event) or _CHECKSUM in event:
        raise ValueError("it is no event")
    return as_declared(event)


def refuse_changed_end(rest: bytes) -> None:
    """Changed, when the bytes after the last end of a line are no line whose writing was cut short."""
    if lacks_only_its_end(rest):
        raise ChecksumMismatch(CHANGED)


def is_changed(path: Path) -> bool:
    """Whether a line is not as its checksum says. Nothing else is looked at: it costs little but the reading."""
    try:
        with open_journal(path) as file:
            for line in file:
                if line.endswith(b"\n"):
                    without_checksum(line[:-1])
                else:
                    refuse_changed_end(line)
    except ChecksumMismatch:
        return True
    return False


def is_event(line: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(line, dict) and line.get("schema") == "event.v1" and isinstance(line.get("event"), str)


_NEWER = "if a newer nearmetal made it, read it with that; else restore the file from a copy"


def _read_run_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every whole line: a record or an event. Of one that is neither nobody knows what it says of the trials."""
    for number, line in _number_lines(path):
        yield number, _require_event(path, number, line)


def _require_event(path: Path, number: int, line: dict[str, Any]) -> dict[str, Any]:
    if line.get("schema") not in ("record.v2", "record.v1", "event.v1"):
        raise _make_damage_error(path, number, damage.not_the_known(line, "schema"), _NEWER)
    if line["schema"] == "event.v1":
        if not is_event(line):
            raise _make_damage_error(path, number, damage.not_the_known(line, "event"))
        try:
            return as_declared(line)
        except ValidationError as error:
            raise _make_damage_error(path, number, damage.not_as_declared(error, line)) from None
    return line


def _require_record(path: Path, number: int, line: dict[str, Any]) -> TrialRecord:
    try:
        record: TrialRecord = TrialRecord.from_json(line)
    except ValidationError as error:
        raise _make_damage_error(path, number, damage.not_as_declared(error, line)) from None
    return record


def _number_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if not path.exists():
        return
    with open_journal(path) as file:
        for number, raw in enumerate(file, 1):
            if (line := _parse(path, number, raw)) is not None:
                yield number, line


def _parse(path: Path, number: int, raw: bytes) -> dict[str, Any] | None:
    """A line with its end; None of a last one that was cut by a crash, and never counted."""
    try:
        if not raw.endswith(b"\n"):
            refuse_changed_end(raw)
            return None
        line = json.loads(without_checksum(raw[:-1]))
    except ChecksumMismatch:
        raise _make_damage_error(path, number, CHANGED) from None
    except (ValueError, RecursionError):
        raise _make_damage_error(path, number, "it is not JSON") from None
    if not isinstance(line, dict):
        raise _make_damage_error(path, number, "it is no JSON object")
    if _CHECKSUM in line:
        raise _make_damage_error(path, number, "it is not as nearmetal writes lines: its checksum cannot be compared")
    return line


def _make_damage_error(path: Path, number: int, what: str, remedy: str = _FROM_A_COPY) -> BadInput:
    return BadInput(f"line {number} cannot be read: {what}", str(path), remedy)
