"""The words of nearmetal as types, and the seams between its parts as Protocols.

Data is frozen and serialises to JSON; quantities are plain SI numbers (bytes, seconds, bit/s, shares). Everything
that provisions, changes, loads or listens is reached through a Protocol below, so that a new environment,
treatment, workload or observer is one file that imports this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    IPvAnyAddress,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from nearmetal.units import BitRate, Bytes, Seconds, Share

Level = StrictBool | StrictInt | StrictFloat | StrictStr
"""One value of a factor, with the type it has in the study file: true and 1 are different levels."""

Assignment = Mapping[str, Level]
"""Factor name to level: what tells one treatment from another."""

Whole = Annotated[int, Field(strict=True, ge=1)]
"""A number of things. Strict, so that neither true nor "4" passes for one."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=100)]
Provision = Literal["boot", "restart", "restore", "reuse"]
Scale = Literal["ratio", "difference"]
Better = Literal["higher", "lower"]
Role = Literal["server", "client", "neighbour"]
"""A neighbour is neither measured nor measures: it takes part of what the servers run on."""


class Frozen(BaseModel):
    """A record: immutable, and a key that nobody knows is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def from_json(cls, data: object) -> Any:
        """Read back what `model_dump(mode="json")` wrote."""
        return cls.model_validate(data)


# ── What a study describes ────────────────────────────────────────────────────────────────────────────────────────


class MachineSpec(Frozen):
    """What a machine under test is given. Treatments shape it; an environment realises it."""

    model_config = ConfigDict(frozen=True, extra="allow")  # a treatment's level may be fixed here by its name

    image: str = "lab"
    vcpus: Whole = 1
    memory: Annotated[Bytes, Field(ge=16 * 2**20)] = 512 * 2**20
    accel: str = "auto"
    nic: str = "virtio-net"
    cpus: str | None = None
    disk: str = "virtio-blk"
    host: str = "local"
    kernel_arguments: tuple[str, ...] = ()
    alone: StrictBool = False
    """What is measured runs on the last of its CPUs and on no other, away from the rest."""
    neighbours: tuple[tuple[str, ...], ...] = ()
    """Programs that go on while it is measured, each in a machine of its own on the same CPUs: argument vectors."""

    @property
    def settings(self) -> Mapping[str, Level]:
        """Levels of treatments that are fixed for every machine."""
        return dict(self.model_extra or {})


class ClientsSpec(Frozen):
    count: Annotated[Whole, Field(le=1000)] = 1
    environment: str = "host"
    connect: Literal["shared", "pairs"] = "shared"
    cpus: str | None = None
    host: str = "local"


class LinkSpec(Frozen):
    """The way between the servers and the clients. What is given holds for each direction by itself."""

    rate: Annotated[BitRate, Field(ge=1)] | None = None
    """Of whole frames, headers included."""
    delay: Annotated[Seconds, Field(le=60)] | None = None
    """One way: a round trip takes twice as much."""
    jitter: Annotated[Seconds, Field(le=60)] | None = None
    loss: Annotated[Share, Field(le=1)] | None = None
    reorder: Annotated[Share, Field(le=1)] | None = None
    tunnel: Literal["vxlan", "gre"] | None = None
    """What carries frames from host to host; it makes sense only where servers and clients are on different ones."""
    switch: Literal["bridge", "direct"] = "bridge"

    @property
    def is_laid(self) -> bool:
        """Whether it is more than a place at the same switch."""
        return self.is_shaped or self.switch == "direct"

    @property
    def is_shaped(self) -> bool:
        return any(given is not None for given in (self.rate, self.delay, self.jitter, self.loss, self.reorder))


class HostSpec(Frozen):
    ssh: Annotated[str, Field(pattern=r"^[A-Za-z0-9_\[][A-Za-z0-9_.@:%\[\]-]*$", max_length=300)]
    """Where its SSH server answers: "user@10.0.0.2". Never an option of some program."""
    trunk: IPvAnyAddress | None = None
    """The address by which other hosts reach it for a tunnel, when it is not the one that SSH reached."""


class EnvironmentSpec(Frozen):
    """A named level of `environment`: its kind, and what that kind takes."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str
    provision: Provision | None = None

    @property
    def options(self) -> Mapping[str, Any]:
        return dict(self.model_extra or {})


class FactorSpec(Frozen):
    levels: Annotated[tuple[Level, ...], Field(min_length=1)]
    when: Mapping[str, Level | tuple[Level, ...]] = {}
    sets: str | None = None


class WorkloadSpec(Frozen):
    """One workload of the study. What its kind takes stands in `parameters`; "{factor}" is replaced by a level."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: Name
    kind: str
    primary: Name | None = None

    @property
    def parameters(self) -> Mapping[str, Any]:
        return dict(self.model_extra or {})


class CaptureSpec(Frozen):
    snap: Annotated[int, Field(strict=True, ge=64, le=262_144)] = 128


def _as_capture(value: object) -> object:
    """A factor's level says only whether: true is a capture with the defaults."""
    return {True: {}, False: None}[value] if isinstance(value, bool) else value


class ObserveSpec(Frozen):
    model_config = ConfigDict(frozen=True, extra="allow")  # an observer of somebody else's, by its name

    usage: Annotated[Seconds, Field(ge=0.01, le=3600)] | None = None
    noise: StrictBool = False
    capture: Annotated[CaptureSpec | None, BeforeValidator(_as_capture)] = None

    @property
    def chosen(self) -> Mapping[str, Any]:
        """Observer name to its setting, of those that are switched on."""
        return {name: setting for name, setting in self if setting not in (None, False)}


class SequentialBlocks(Frozen):
    min: Whole
    max: Whole


class DesignSpec(Frozen):
    blocks: Whole | SequentialBlocks = 8
    crossing: Literal["full", "one-at-a-time"] = "full"
    margin: Annotated[Share, Field(gt=0, le=1)] = 0.02
    alpha: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.05
    seed: StrictInt = 1
    provision: Provision = "boot"
    share_boot: StrictBool = False
    repeats: Whole = 1

    @property
    def fixed_blocks(self) -> int:
        """The number of blocks that run: the minimum where the study asks for a sequential design."""
        return self.blocks if isinstance(self.blocks, int) else self.blocks.min


class Study(Frozen):
    """What a study file says, with every default written out."""

    name: Name
    question: str = ""
    reference: Mapping[str, Level] = {}
    environments: Mapping[str, EnvironmentSpec] = {}
    factors: Mapping[str, FactorSpec]
    machine: MachineSpec = MachineSpec()
    clients: ClientsSpec = ClientsSpec()
    link: LinkSpec = LinkSpec()
    hosts: Mapping[str, HostSpec] = {}
    observe: ObserveSpec = ObserveSpec()
    workloads: Annotated[tuple[WorkloadSpec, ...], Field(min_length=1)]
    design: DesignSpec = DesignSpec()

    def environment(self, level: str) -> EnvironmentSpec:
        """The environment behind a level: declared in [environments], else the kind of that name."""
        return self.environments.get(level) or EnvironmentSpec(kind=level)


# ── What a plan is made of ────────────────────────────────────────────────────────────────────────────────────────


class TrialPlan(Frozen):
    """One run of one workload in a boot. `position` counts trials within the block, from 0."""

    id: str
    workload: str
    repeat: int
    position: int


class BootPlan(Frozen):
    """One provision of one treatment in one block: the experimental unit."""

    treatment: Mapping[str, Level]
    trials: tuple[TrialPlan, ...]


class BlockPlan(Frozen):
    """Every treatment x workload once, in random order."""

    index: int
    attempt: int
    boots: tuple[BootPlan, ...]


class ContrastPlan(Frozen):
    """A comparison fixed before anything ran: one treatment against its reference, for one workload."""

    workload: str
    treatment: Mapping[str, Level]
    reference: Mapping[str, Level]


class Plan(Frozen):
    study: str
    """The study's digest."""
    seed: int
    treatments: tuple[Mapping[str, Level], ...]
    contrasts: tuple[ContrastPlan, ...]
    primaries: Mapping[str, str]
    """Workload to the response that its contrasts are about."""
    level: float
    """What each primary contrast is tested at: alpha over the number of primary contrasts."""
    blocks: tuple[BlockPlan, ...]


# ── What is measured ──────────────────────────────────────────────────────────────────────────────────────────────


class ResponseKind(Frozen):
    """What a workload promises of one response, before it has run. Units: SI, "1/s", "share"."""

    unit: str
    better: Better
    scale: Scale = "ratio"


class Response(Frozen):
    """One value per trial."""

    value: float
    unit: str
    better: Better
    scale: Scale = "ratio"
    censored: Literal["left", "right"] | None = None
    by_client: tuple[float, ...] | None = None


class Artifact(Frozen):
    """A file of a trial, by its path within the run's folder."""

    path: str
    sha256: str


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


class TrialAddress(Frozen):
    """Which trial a record is about."""

    id: str
    block: int
    attempt: int
    position: int
    repeat: int
    treatment: Mapping[str, Level]
    workload: str


class BootRecord(Frozen):
    id: str
    how: Provision
    snapshot: str | None = None


class MachineRecord(Frozen):
    role: Role
    environment: str
    boot_id: str
    cpus: str


class TrialRecord(Frozen):
    """A trial's line in the journal, `record.v1`."""

    schema_: Annotated[Literal["record.v1"], Field(alias="schema")] = "record.v1"
    trial: TrialAddress
    site: str
    boot: BootRecord | None
    machines: tuple[MachineRecord, ...] = ()
    status: TrialStatus
    reason: str | None = None
    phases_ns: Mapping[str, int] = {}
    """How long each step took: create, attach, surround, change, facts, verify, prepare, measure, check."""
    responses: Mapping[str, Response] = {}
    readback: Mapping[str, Any] = {}
    observers: Mapping[str, Any] = {}
    warnings: tuple[Warned, ...] = ()
    artifacts: tuple[Artifact, ...] = ()

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)


# ── Effects: what commands run on ─────────────────────────────────────────────────────────────────────────────────


class Completed(Frozen):
    """How a command ended. A nonzero status is a value, not an error."""

    status: int
    stdout: bytes = b""
    stderr: bytes = b""
    late: float | None = None
    """Seconds after the instant that several commands were to start at; None for one that had no such instant."""

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")


class Running(Protocol):
    """A command that goes on in the background, and ends with whoever started it."""

    async def wait(self, timeout: float) -> Completed:
        """Wait for its end. TimedOut when it goes on; MachineLost when the machine is gone."""
        ...

    async def stop(self) -> Completed:
        """SIGTERM, then after a grace SIGKILL. Idempotent."""
        ...


class SiteRunning(Running, Protocol):
    """A command in the background of a site."""

    async def first_line(self, timeout: float) -> bytes:
        """The first line of its output, by which some programs say that they are ready, without the newline.

        What it wrote until then when it ended without one. TimedOut, MachineLost.
        """
        ...


class Commands(Protocol):
    """Anything commands run on: a site, or a machine. Argument vectors only; nothing passes through a shell."""

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = ...,
    ) -> Completed:
        """Run to the end. MachineLost, or TimedOut (what was started is killed)."""
        ...

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Running: ...

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        """Write a whole file; parents are made."""
        ...

    async def get(self, path: str) -> bytes: ...


class Site(Commands, Protocol):
    """A host where machines live and changes are made, local or by SSH."""

    name: str
    arch: str
    boot_id: str
    """Its kernel's."""

    @property
    def spec(self) -> HostSpec | None:
        """How it is reached; None for the host that the controller runs on."""
        ...

    @property
    def probe(self) -> str:
        """Where the probe lies on it."""
        ...

    @property
    def state(self) -> str:
        """The folder for the files of its machines."""
        ...

    @property
    def underlay(self) -> str | None:
        """The address by which other hosts reach it. None for the controller's, where it depends on who asks."""
        ...

    @property
    def bound(self) -> Sequence[str]:
        """Options of the probe's `launch` and `hold` by which a program ends with the controller, however that ends."""
        ...

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> SiteRunning: ...

    async def forward(self, port: int) -> int:
        """A port of the controller's loopback that leads to this one of the site's, until `withdraw`."""
        ...

    async def withdraw(self, port: int) -> None:
        """Let go of what `forward` made for this port of the site. Idempotent."""
        ...

    def socket(self, path: str) -> AbstractAsyncContextManager[str]:
        """The path on the controller's host of a socket that leads to the one at this path there."""
        ...

    async def place(self, file: Path, sha256: str) -> str:
        """Have a file of the controller's host there; its path there. A file with these contents is sent only once."""
        ...


class Cost(Frozen):
    """What the host spends on a machine, the virtual machine monitor included, since it was made."""

    cpu_seconds: float
    memory_bytes: int


class Port(Frozen):
    """A machine's place on the lab's switch."""

    address: str
    prefix: int
    mac: str
    switch: str
    """Network namespace of the switch, as a path on the site."""
    bridge: str | None = "switch"
    """The bridge in it that the link hangs on; None for a cable of its own, which is laid later."""
    outside: str
    """The link's name at the switch. Inside a machine it is called `data`."""
    mtu: int = 1500
    """Bytes that a packet of the machine may have."""


class Order(Frozen):
    """Everything an environment needs to make one machine."""

    name: str
    """Unique on the site, derived from the run; what is made carries it."""
    role: Role
    spec: MachineSpec
    options: Mapping[str, Any]
    """What stands in [environments.NAME] besides the kind."""
    provision: Provision
    port: Port | None
    cpus: str
    """Host CPUs it may use, in cpuset notation; "" for all."""


class Handle(Frozen):
    """What must be known to reach or remove a machine, also from another process: plain data, in the ledger."""

    kind: str
    name: str
    site: str
    data: Mapping[str, Any]


class Machine(Commands, Protocol):
    name: str
    role: str
    site: Site
    arch: str
    boot_id: str
    """As its kernel tells; changes with each boot."""
    owned: bool
    """Made by us, so that it may be rebooted and destroyed; a user's machine is only used."""
    address: str
    """On the data network."""
    interface: str
    """The data NIC's name inside."""
    peer: str | None
    """The same link outside, on the site, as "NAMESPACE/INTERFACE"; None where it cannot be known."""
    probe: str
    """Where the probe lies inside."""

    async def reboot(self) -> None:
        """Return when it answers again, with a new boot_id. HostCannot where the kind has no such thing."""
        ...

    async def cost(self) -> Cost | None:
        """None where the host cannot tell: a machine that is not ours."""
        ...


class Finding(Frozen):
    """Something doctor or an environment found out: whether it holds, and the remedy where it does not."""

    what: str
    ok: bool
    detail: str = ""
    remedy: str = ""
    fatal: bool = True
    """Without it this environment cannot run; else it is only worth knowing."""


class Recorder(Protocol):
    """The ledger as an environment sees it: what is made is written down before it exists."""

    def creating(self, handle: Handle) -> None: ...


class Environment(Protocol):
    """Makes machines of one kind."""

    kind: ClassVar[str]
    Options: ClassVar[type[Frozen]]
    """What [environments.NAME] takes besides `kind` and `provision`; `Frozen` itself for a kind that takes nothing."""
    provisions: ClassVar[tuple[Provision, ...]]
    """What it can do, strongest first."""
    on_switch: ClassVar[bool]
    """Whether its machines hang on the lab's switch, and so get a `Port`."""
    typical_ready: ClassVar[float]
    """Seconds from `create` to an answering machine and back to nothing, as usually seen: for estimates only."""

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        """What is missing here; nothing is provisioned or changed."""
        ...

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """What is done once for all its machines, so that no boot's time to ready pays for it. Idempotent."""
        ...

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        """Make it and return when it runs. `ledger.creating` comes before anything exists. NotProvisioned."""
        ...

    async def attach(self, handle: Handle, site: Site) -> Machine:
        """Reach it. NotProvisioned when it does not answer in time, with the last lines of its console."""
        ...

    async def destroy(self, handle: Handle, site: Site) -> None:
        """Remove all that `create` made, however far it came. Idempotent; also for a handle of a dead process."""
        ...


class Stage(Protocol):
    """The machines of a trial."""

    @property
    def servers(self) -> tuple[Machine, ...]: ...

    @property
    def clients(self) -> tuple[Machine, ...]: ...

    @property
    def sites(self) -> Mapping[str, Site]: ...

    @property
    def spec(self) -> MachineSpec:
        """What every server was asked to be."""
        ...

    @property
    def link(self) -> LinkSpec: ...

    @property
    def cpus(self) -> Mapping[str, Sequence[int]]:
        """By machine name: the CPUs it has, as it numbers them itself."""
        ...

    @property
    def connect(self) -> str:
        """ "shared": all clients load the first server; "pairs": client i loads server i."""
        ...

    async def together(self, commands: Sequence[tuple[Machine, Sequence[str]]], limit: float) -> list[Completed]:
        """Start each command on its machine at one instant, silently, and return how each ended."""
        ...


# ── Treatments, workloads, observers ──────────────────────────────────────────────────────────────────────────────

ChangeKind = Literal["sysctl", "file", "affinity", "irq", "ethtool", "boot", "bystanders"]
"""A closed set: each is known to `lab/changes.py`, which reads, writes and puts back. "boot" is the kernel's
arguments, which take effect with the machine's next boot; "bystanders" is all that may run on CPUs to be kept free."""


class Change(Frozen):
    """A value to be set, and put back. `before` is filled in when the change is made."""

    on: str
    """Name of the machine, or "site:NAME"."""
    kind: ChangeKind
    target: str
    after: str
    before: str | None = None
    required: bool = True
    """When it does not stick: an invalid trial, else only a warning."""


class Readback(Frozen):
    """What a treatment found set. `ok` false makes the trial invalid, with the reason."""

    values: Mapping[str, Any] = {}
    ok: bool = True
    reason: str = ""
    warnings: tuple[Warned, ...] = ()


class Treatment(Protocol):
    """How the levels of one factor come about. `name` is what a study file calls it."""

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

    async def verify(self, stage: Stage, level: Level) -> Readback: ...


class Measurement(Frozen):
    """What one run of a workload gave."""

    responses: Mapping[str, Response]
    events: float
    """How many requests, events or bytes were served: what `cpu_per_event` is divided by."""
    artifacts: Mapping[str, bytes] = {}
    """File name to content; the runner stores them by trial."""
    warnings: tuple[Warned, ...] = ()
    invalid: str | None = None
    """Why the instrument cannot be trusted for this trial."""


class Workload(Protocol):
    """Loads the stage and measures. Built from the parameters of one [[workloads]] entry; building it has no effect."""

    kind: ClassVar[str]
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
    def duration(self) -> float:
        """Seconds that one run takes, as near as can be told beforehand."""
        ...

    @property
    def limit(self) -> float:
        """Seconds after which a run that still goes on has gone wrong."""
        ...

    async def prepare(self, stage: Stage) -> None:
        """Start what serves, and wait until it answers. ToolFailed, MachineError."""
        ...

    async def run(self, stage: Stage) -> Measurement: ...

    async def finish(self, stage: Stage) -> None:
        """Stop what `prepare` started. Always called, also when it failed half-way; a lost machine is no error here."""
        ...


class Observation(Frozen):
    artifacts: Mapping[str, bytes] = {}
    counters: Mapping[str, Any] = {}


class Watch(Protocol):
    async def stop(self) -> Observation: ...


class Observer(Protocol):
    """Listens in while a trial measures, or before and after it."""

    name: ClassVar[str]
    around: ClassVar[bool]
    """True: runs before and after the measurement, never during it."""

    def __init__(self, setting: Any) -> None:
        """Without effect. ValueError, with what would be right, for a setting that it does not know."""
        ...

    async def start(self, stage: Stage) -> Watch: ...
