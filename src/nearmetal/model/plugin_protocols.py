"""What shapes machines, loads them and listens in: treatments, workloads, observers."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Protocol

from nearmetal.model.base import Frozen, Level
from nearmetal.model.machines import Stage
from nearmetal.model.record import Response, ResponseKind, Warned
from nearmetal.model.study import MachineSpec

ChangeKind = Literal["sysctl", "congestion", "file", "affinity", "irq", "ethtool", "boot", "cpuset", "bystanders"]
"""A closed set: `lab/changes/kinds.py` says how each is read and written. "congestion" is the control that the routes
of an interface name; "boot" is the kernel's arguments, which take effect with the machine's next boot; "bystanders" is
all that may run on CPUs to be kept free, and "cpuset" people's programs among them."""


class Change(Frozen):
    """A value to be set, and put back. `before` is filled in when the change is made."""

    on: str
    """Name of the machine, or "site:NAME"."""
    kind: ChangeKind
    target: str
    """What is set: a name or a path, by its kind."""
    after: str
    """The value that it is to have."""
    before: str | None = None
    """The value that it had; None until the change is made."""
    required: bool = True
    """When it does not stick: an invalid trial, else only a warning."""


class Readback(Frozen):
    """What a treatment found set. `ok` false makes the trial invalid, with the reason."""

    values: Mapping[str, Any] = {}
    """What was read, for the record."""
    ok: bool = True
    reason: str = ""
    """Why it is not ok, for people."""
    warnings: tuple[Warned, ...] = ()
    """If it is ok, what a reader should know."""


class Treatment(Protocol):
    """How the levels of one factor come about. `name` is what a study file calls it.

    One that applies to clients too says so by `roles`, a ClassVar like ("server", "client"): then clients that the
    study describes (`clients.environment = "same"`, or keys of their own) are shaped by it as servers are. Without
    `roles` a treatment is of servers.
    """

    name: ClassVar[str]

    def problem(self, level: Level) -> str | None:
        """Why this level is impossible, in a sentence that names those that are possible; None when it is fine."""
        ...

    def shape(self, spec: MachineSpec, level: Level) -> MachineSpec:
        """Pure: what must be so before the machine exists."""
        ...

    def changes(self, stage: Stage, level: Level) -> list[Change]:
        """Pure: what is set on the machines and sites once they run."""
        ...

    async def verify(self, stage: Stage, level: Level) -> Readback:
        """Read back what is set, before and after each trial. ToolFailed, MachineError."""
        ...


class BothClocks(Frozen):
    """What was measured with the clocks of both ends, such as one way's delay."""

    names: tuple[str, ...]
    """Of the responses."""
    apart: float | None
    """Seconds by which the clocks may be apart beyond the offset that was taken off; None if that cannot be told."""


class Measurement(Frozen):
    """What one run of a workload gave."""

    responses: Mapping[str, Response]
    """By the names that the workload promises."""
    events: float
    """How many requests, events or bytes were served: what `cpu_per_event` is divided by."""
    artifacts: Mapping[str, bytes] = {}
    """File name to content; the runner stores them by trial."""
    warnings: tuple[Warned, ...] = ()
    """About values that count, and are to be read with care."""
    invalid: str | None = None
    """Why the instrument cannot be trusted for this trial."""
    both_clocks: BothClocks | None = None
    """None if no response needs more than one clock. They are left out if the study does not allow as much."""


class Workload(Protocol):
    """Loads the stage and measures. Built from the parameters of one [[workloads]] entry; building it has no effect."""

    kind: ClassVar[str]
    """What `[[workloads]]` of a study calls it."""
    Parameters: ClassVar[type[Frozen]]
    """What a study file may say; validates itself."""

    def __init__(self, parameters: Any) -> None: ...

    @property
    def responses(self) -> Mapping[str, ResponseKind]:
        """What a run of it can give."""
        ...

    @property
    def primary(self) -> str:
        """The response a verdict is about when the study names none."""
        ...

    @property
    def has_clients(self) -> bool:
        """Whether clients load the servers over the network, so that packets and the clients' own limits count."""
        ...

    @property
    def duration(self) -> float:
        """Seconds that one run takes, as near as can be told beforehand."""
        ...

    @property
    def preparing(self) -> float:
        """Seconds that `prepare` takes, as near as can be told beforehand, for estimates; 0.0 if that is too little."""
        ...

    @property
    def limit(self) -> float:
        """Seconds after which a run that still goes on has gone wrong."""
        ...

    async def prepare(self, stage: Stage) -> None:
        """Start what serves, and wait until it answers. ToolFailed, MachineError."""
        ...

    async def run(self, stage: Stage) -> Measurement:
        """Load the servers and measure, once a trial. ToolFailed, MachineError."""
        ...

    async def finish(self, stage: Stage) -> None:
        """Stop what `prepare` started. Always called, also when it failed half-way; a lost machine is no error here."""
        ...


class Observation(Frozen):
    """What an observer heard in one trial."""

    artifacts: Mapping[str, bytes] = {}
    """Files of the trial, by name."""
    counters: Mapping[str, Any] = {}
    """By place and name: JSON values, which the record keeps under the observer's name."""


class Watch(Protocol):
    """An observer that listens in one trial."""

    async def stop(self) -> Observation:
        """End it. ToolFailed, MachineError."""
        ...


class Observer(Protocol):
    """Listens in while a trial measures, or before and after it."""

    name: ClassVar[str]
    """What `[observe]` of a study calls it."""
    around: ClassVar[bool]
    """True: runs before and after the measurement, never during it."""
    takes: ClassVar[float]
    """Seconds that it adds to a trial, as near as can be told beforehand."""

    def __init__(self, setting: Any) -> None:
        """Without effect. ValueError, with what would be right, for a setting that it does not know."""
        ...

    async def start(self, stage: Stage) -> Watch:
        """Begin to listen, and return once it does. ToolFailed, MachineError."""
        ...
