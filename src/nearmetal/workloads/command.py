"""Any program of the user's: numbers out of what it prints, each a response."""

import asyncio
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from nearmetal import model
from nearmetal.errors import TimedOut, ToolFailed
from nearmetal.lab.commands import process
from nearmetal.model.services import FileText
from nearmetal.study.levels import format_level
from nearmetal.workloads._parameters import Time
from nearmetal.workloads._stage import SERVER, require_success

LIMIT = 10.0
"""Seconds. A pattern that does not backtrack without end goes through 16 MiB in less than one."""

_SEARCH = """
import json, re, sys
pattern, text = json.load(sys.stdin)
found = re.search(pattern, text, re.MULTILINE)
json.dump(found and [found[1]], sys.stdout)
"""


async def search_pattern(pattern: str, text: str, where: str, limit: float = LIMIT) -> str | None:
    """What the pattern's group matched, looked for in a process of its own: one that backtracks without end is ended.

    ToolFailed if nothing matches, or it is not known in time.
    """
    told = await asyncio.to_thread(lambda: json.dumps([pattern, text]).encode())
    try:
        ended = await process.run([sys.executable, "-I", "-S", "-c", _SEARCH], stdin=told, timeout=limit)
    except TimedOut:
        what = f"{pattern!r} was still being looked for after {limit:g} s in what the command printed"
        raise ToolFailed(what, where, "write it without repetitions of repetitions, like (a*)*") from None
    if ended.status != 0:
        raise ToolFailed(f"{pattern!r} cannot be looked for: {ended.complaint[-300:]}", where)
    found: list[str | None] | None = json.loads(ended.stdout)
    if found is None:
        raise ToolFailed(f"{pattern!r} matches nothing of what the command printed: {text.strip()[-300:]!r}", where)
    return found[0]


SLACK = 60.0
"""Seconds beyond `duration` when the study gives no `timeout`."""
LARGEST = 16 * 2**20
"""Bytes of output. A number is looked for in a report, not in a data set."""


def _to_word(value: object) -> object:
    """A factor's level in the place of a word comes with its type; a program takes text."""
    return format_level(value) if isinstance(value, bool | int | float) else value


Word = Annotated[model.CommandWord, BeforeValidator(_to_word)]


def _check_pattern(value: str) -> str:
    try:
        groups = re.compile(value, re.MULTILINE).groups
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{value!r} is no regular expression: {error}") from None
    if groups != 1:
        raise ValueError(
            f"{value!r} has {groups} groups and needs one, around the number: 'rate: ([0-9.]+)'; "
            "write (?:…) for a group that is not meant"
        )
    return value


Unit = Annotated[str, Field(max_length=20)]
Pattern = Annotated[str, AfterValidator(_check_pattern)]
JsonPath = Annotated[str | None, Field(alias="json", min_length=1)]


def _check_place(match: str | None, path: str | None) -> None:
    if (match is None) == (path is None):
        raise ValueError(
            "give either `match`, a regular expression with one group around the number, or `json`, the number's "
            'path in a JSON document like "end.sum.bits_per_second"'
        )


class ResponsePattern(model.Frozen):
    """One number in what a program prints, and the response that it is."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    unit: Unit = ""
    better: model.Better
    scale: model.Scale = "ratio"
    match: Pattern | None = None
    json_: JsonPath = None

    @model_validator(mode="after")
    def _says_where(self) -> "ResponsePattern":
        _check_place(self.match, self.json_)
        return self

    @property
    def kind(self) -> model.ResponseKind:
        return model.ResponseKind(unit=self.unit, better=self.better, scale=self.scale)


_OF_ONE = tuple(ResponsePattern.model_fields)


class CommandParameters(model.Frozen):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    argv: Annotated[tuple[Word, ...], Field(min_length=1)]
    on: Literal["server", "client"] = "server"
    services: tuple[model.Name, ...] = ()
    """Of the study's: they run on each server meanwhile."""
    files: tuple[FileText, ...] = ()
    """What is put into each machine before."""
    response: model.Name | None = None
    responses: Mapping[model.Name, ResponsePattern] = {}
    """Several, in place of `response` and its keys; the first is the primary one."""
    unit: Unit = ""
    better: model.Better | None = None
    scale: model.Scale = "ratio"
    match: Pattern | None = None
    json_: JsonPath = None
    duration: Time = 10.0
    timeout: Time | None = None

    @field_validator("argv")
    @classmethod
    def _names_a_program(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value[0]:
            raise ValueError('the first word names the program; write argv = ["/usr/bin/program", "--option"]')
        return value

    @model_validator(mode="after")
    def _names_responses(self) -> "CommandParameters":
        if self.response is not None and self.responses:
            raise ValueError("`response` and `responses` are two spellings of one thing: put the one into `responses`")
        alone = [name for name in _OF_ONE if name in self.model_fields_set]
        if self.responses and alone:
            key = alone[0].removesuffix("_")
            raise ValueError(f"`{key}` is one of each response: write it into responses.NAME")
        if self.response is None and not self.responses:
            raise ValueError('name what is read: response = "rate", or several in a table `responses`')
        if self.response is not None:
            _check_place(self.match, self.json_)
            if self.better is None:
                raise ValueError('say which numbers are better: better = "higher", or "lower"')
        taken = next((name for name in (self.response, *self.responses) if name in model.COSTS), None)
        if taken is not None:
            raise ValueError(f"every trial has a response {taken!r} already: choose another name")
        if self.timeout is not None and self.timeout < self.duration:
            raise ValueError(f"timeout = {self.timeout:g}s ends the command before duration = {self.duration:g}s")
        return self

    @property
    def asked_services(self) -> tuple[str, ...]:
        return self.services

    @property
    def carried_files(self) -> tuple[str, ...]:
        return self.files

    @property
    def readings(self) -> Mapping[str, ResponsePattern]:
        if self.response is None:
            return self.responses
        return {self.response: ResponsePattern(**{name: getattr(self, name) for name in _OF_ONE})}

    @property
    def limit(self) -> float:
        return self.duration + SLACK if self.timeout is None else self.timeout


class Command:
    kind: ClassVar[str] = "command"
    Parameters: ClassVar[type[model.Frozen]] = CommandParameters

    preparing = 0.0

    def __init__(self, parameters: CommandParameters) -> None:
        self._parameters = parameters
        self.responses = {name: reading.kind for name, reading in parameters.readings.items()}
        self.primary = next(iter(parameters.readings))
        self.has_clients = parameters.on == "client"
        self.duration = parameters.duration
        self.limit = parameters.limit

    async def prepare(self, stage: model.Stage) -> None:
        """Nothing is started: the machine, or the command itself, brings what it needs."""

    async def finish(self, stage: model.Stage) -> None:
        """Nothing was started."""

    async def run(self, stage: model.Stage) -> model.Measurement:
        commands = [
            (machine, [word.replace(SERVER, server.address) for word in self._parameters.argv])
            for machine, server in self._list_places(stage)
        ]
        ended = await stage.together(commands, self._parameters.limit)
        outputs = [
            (machine, require_success(one, f"`{argv[0]}`", machine))
            for one, (machine, argv) in zip(ended, commands, strict=True)
        ]
        responses, left = {}, "the command left processes running on"
        for name, reading in self._parameters.readings.items():
            values = tuple([await read_value(reading, one, machine.name) for machine, one in outputs])
            responses[name] = reading.kind.of(fmean(values), by_client=values if len(values) > 1 else None)
        return model.Measurement(
            responses=responses,
            events=len(outputs),
            warnings=tuple(
                model.Warned(code="left-running", text=f"{left} {machine.name}: {', '.join(one.left)[:200]}")
                for machine, one in outputs
                if one.left
            ),
            artifacts=_make_artifacts([one for _, one in outputs]),
        )

    def _list_places(self, stage: model.Stage) -> list[tuple[model.Machine, model.Machine]]:
        """Each machine that the command runs on, and the server that `$server` means there."""
        if self._parameters.on == "server":
            return [(server, server) for server in stage.servers]
        return [(client, stage.facing(index)) for index, client in enumerate(stage.clients)]


async def read_value(reading: ResponsePattern, ended: model.Completed, where: str) -> float:
    """The number in a program's output. ToolFailed when there is none, or it is not finite."""
    if len(ended.stdout) > LARGEST:
        raise ToolFailed(f"the command printed {len(ended.stdout)} bytes; {LARGEST} are read", where)
    if reading.match is not None:
        return await _match_number(reading.match, ended.text, where)
    return _at_path(reading.json_ or "", ended.stdout, where)


def _make_artifacts(ended: Sequence[model.Completed]) -> dict[str, bytes]:
    return {
        f"command-{index}.{stream}": text
        for index, one in enumerate(ended)
        for stream, text in (("out", one.stdout), ("err", one.stderr))
        if text
    }


async def _match_number(pattern: str, text: str, where: str) -> float:
    found = await search_pattern(pattern, text, where)
    try:
        value = float(found or "")
    except ValueError:
        raise ToolFailed(f"{pattern!r} matched {found!r}, which is no number", where) from None
    return _require_finite(value, where)


def _at_path(path: str, text: bytes, where: str) -> float:
    """The number at a dotted path; a step into a list is its index."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolFailed(f"the command printed no JSON document: {error}", where) from None
    for step in path.split("."):
        try:
            found = found[int(step)] if isinstance(found, list) else found[step]
        except (KeyError, IndexError, TypeError, ValueError):
            raise ToolFailed(f"the JSON document has no {path!r}: {step!r} is not there", where) from None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ToolFailed(f"{path!r} is {json.dumps(found)[:100]} and no number", where)
    try:
        return _require_finite(float(found), where)
    except OverflowError:
        raise ToolFailed(f"{path!r} is too large a number", where) from None


def _require_finite(value: float, where: str) -> float:
    if not math.isfinite(value):
        raise ToolFailed(f"the command printed {value}, which is no measurement", where)
    return value


plugin = Command
