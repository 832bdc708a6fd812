"""What is measured: responses, and the record of a trial."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.dataclasses import dataclass

from nearmetal import cpu_lists
from nearmetal.model.base import ONLY_KNOWN, Better, Document, Frozen, Level, Provision, Role, Scale
from nearmetal.model.causes import Blame
from nearmetal.model.description import Family

_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
"""Characters that XML has no place for, of which whoever draws pictures dies, and those that steer a terminal."""


@lru_cache  # a hundred thousand responses have a few
def _drawable(unit: str) -> str:
    if _NO_TEXT.search(unit):
        raise ValueError(f"{unit!r} has a control character")
    return unit


class ResponseKind(Frozen):
    """What a workload promises of one response, before it has run. Units: SI, "1/s", "share"."""

    unit: str
    better: Better
    scale: Scale = "ratio"
    title: str = ""
    """What people call it, such as "median latency"; its name if empty."""
    clause: str = ""
    """How a sentence compares two treatments by it: "carries {ratio} × the requests of {reference}"."""

    def of(self, value: float, **more: Any) -> Response:
        """A trial's value of this kind. `more` is `censored` or `by_client`."""
        return Response(value=value, unit=self.unit, better=self.better, scale=self.scale, **more)


IN_CLAUSES = ("ratio", "response", "reference")
"""What may stand in braces in a clause."""

COSTS = ("cpu_per_event", "host_memory", "memory_overhead", "ready")
"""Responses that every trial has, whatever its workload: what the machine cost its host."""

OF_THE_BOOT = frozenset({"memory_overhead", "ready"})
"""Those of them that a boot has, and that are no workload's where several share it."""

CPU_STATES = ("usr", "nice", "sys", "iowait", "irq", "soft", "steal", "guest", "gnice", "idle")
"""Of a CPU, as mpstat orders them and usage names them; guest time is in none of the others."""

CPUS_JUDGED_FROM = 1.0
"""Seconds of a measurement: the kernel counts in hundredths, too coarsely to judge by it who had the CPUs in less."""


@dataclass(frozen=True, slots=True, config=ONLY_KNOWN)
class Response:
    """One value per trial."""

    value: float
    """In `unit`."""
    unit: Annotated[str, AfterValidator(_drawable)]
    """SI, as of a `ResponseKind`."""
    better: Better
    """Which direction is."""
    scale: Scale = "ratio"
    """How two values are compared: by ratio, or by difference."""
    censored: Literal["left", "right"] | None = None
    """What is known of it, if no more than a bound: it is at most that ("left"), or at least ("right")."""
    by_client: tuple[float, ...] | None = None
    """The value of each client, if it has several."""


@dataclass(frozen=True, slots=True, config=ONLY_KNOWN)
class Artifact:
    """A file of a trial, by its path within the run's folder."""

    path: str
    sha256: str
    """In hexadecimal."""


class Warned(Frozen):
    """Something a reader of the result should know. Data, not log: `code` is stable, `text` is for people."""

    code: str
    text: str


class TrialStatus(StrEnum):
    OK = "ok"
    INVALID = "invalid"
    """It ran, but the instrument or the set-up was not as declared; kept, never counted."""
    FAILED = "failed"
    """The workload ended badly."""
    LOST = "lost"
    """A machine never came up, or was lost on the way."""


class TrialCounts(Frozen):
    ok: int = 0
    invalid: int = 0
    failed: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True, config=ONLY_KNOWN)
class TrialAddress:
    """Which trial a record is about."""

    id: str
    block: int
    attempt: int
    position: int
    repeat: int
    treatment: Mapping[str, Level]
    workload: str


@dataclass(frozen=True, slots=True, config=ONLY_KNOWN)
class BootRecord:
    id: str
    how: Provision
    snapshot: str | None = None


@lru_cache  # ten thousand trials stand in a few places
def _listed(cpus: str) -> str:
    cpu_lists.parse(cpus)
    return cpus


@dataclass(frozen=True, slots=True, config=ONLY_KNOWN)
class MachineRecord:
    role: Role
    environment: str
    boot_id: str
    cpus: Annotated[str, AfterValidator(_listed)]
    host: str | None = None
    """The name of the host that it lies on. None in a record of version 1."""
    cpu_kinds: tuple[str, ...] = ()
    """The kinds of CPU that it may use, if its host has several; more than one is a warning, too."""


@dataclass(frozen=True, slots=True, config=ONLY_KNOWN)
class ClockRecord:
    """How far a machine's CLOCK_REALTIME was ahead of another's, before and after a trial, in seconds."""

    offset: tuple[float, float]
    uncertainty: tuple[float, float]
    """Each offset is surely wrong by no more than this: 0 where both share the clock."""
    drift: float
    """Seconds that it gained in each second between."""
    drift_uncertainty: float
    during: tuple[float, float] | None = None
    """The offset while it was measured, and by how much that may be wrong at any time from the first packet to the
    last; None if nobody asked then."""


def _upgrade_version(schema: object) -> object:
    """Version 1 lacks keys of version 2, and has no others."""
    return "record.v2" if schema == "record.v1" else schema


class TrialRecord(Document):
    """A trial's line in the journal, `record.v2`. Lines of version 1 are read as such."""

    schema_: Annotated[Literal["record.v2"], BeforeValidator(_upgrade_version), Field(alias="schema")] = "record.v2"
    trial: TrialAddress
    site: str
    boot: BootRecord | None
    machines: tuple[MachineRecord, ...] = ()
    status: TrialStatus
    reason: str | None = None
    blame: Blame | None = None
    """Whose fault it is that the trial is not ok; None if it is, and in a record of version 1."""
    cause: str | None = None
    """Why it is not, as a code of `model/causes.py`."""
    observed_family: Family | None = None
    """What the first server is by its own word. None if it does not say."""
    phases_ns: Mapping[str, int] = {}
    """How long each step took: create, attach, surround, change, facts, verify, prepare, measure, check. Around the
    measurement: alive, in which it is asked what has died."""
    responses: Mapping[str, Response] = {}
    events: float | None = None
    """How many requests, events or bytes `cpu_per_event` is of. None where the trial failed, or is of a version that
    did not keep it."""
    clocks: tuple[ClockRecord | None, ...] = ()
    """Of `machines`, in their order, against the controller's; None for one that did not tell. Empty if the trial
    failed, and in a record of before nearmetal asked."""
    host_clocks: Mapping[str, ClockRecord] = {}
    """By name, of each host of clients that is not the servers': how far its clock was ahead of theirs, asked over the
    network between them. Without those that did not answer there."""
    readback: Mapping[str, Any] = {}
    observers: Mapping[str, Any] = {}
    warnings: tuple[Warned, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
