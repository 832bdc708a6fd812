"""What a study describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, IPvAnyAddress, StrictBool, StrictInt, model_validator

from nearmetal.model.base import Frozen, Level, Name, Provision, Whole
from nearmetal.model.kernel import KernelSpec
from nearmetal.model.services import ServiceSpec
from nearmetal.model.shared_folder import SharedFolderText
from nearmetal.units import BitRate, Bytes, Seconds, Share


def _as_words(value: object) -> object:
    return tuple(value.split()) if isinstance(value, str) else value


class MachineSpec(Frozen):
    """What a machine under test is given. Treatments shape it; an environment realises it."""

    model_config = ConfigDict(frozen=True, extra="allow")  # a treatment's level may be fixed here by its name

    image: str = "lab"
    vcpus: Whole = 1
    memory: Annotated[Bytes, Field(ge=16 * 2**20)] = 512 * 2**20
    quota: Annotated[Share, Field(ge=0.01, le=1)] | None = None
    """The most that it may use of its CPUs' time, of each of its periods of 100 ms; None for no such limit."""
    accel: str = "auto"
    cpu_model: str = "max"
    """Of a virtual machine's CPU."""
    nic: str = "virtio-net"
    cpus: str | None = None
    disk: str = "virtio-blk"
    disk_format: Literal["qcow2", "raw"] = "qcow2"
    disk_cache: Literal["writeback", "none", "writethrough", "directsync", "unsafe"] = "writeback"
    host: str = "local"
    share: SharedFolderText | None = None
    """A directory of its host that it sees, read-only: "PATH:MOUNTPOINT"."""
    kernel_arguments: Annotated[tuple[str, ...], BeforeValidator(_as_words)] = ()
    """More words on the command line of a kernel of its own; as a factor's level all in one text."""
    kernel: Annotated[str, Field(pattern=r"^(/.+|[A-Za-z0-9_][A-Za-z0-9._-]*)$")] | None = None
    """A guest's kernel: "host" for the one that its host runs, a file by its whole path, or that of an image of ours by
    the image's name. None: its image's."""
    board: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")] | None = None
    """QEMU's machine type: "q35", "pc", "microvm". None: as the environment says."""
    vmm: Annotated[str, Field(pattern=r"^(/.+|[A-Za-z0-9_][A-Za-z0-9._-]*)$")] | None = None
    """The QEMU that runs a guest: a program's name, or its whole path. None: the usual one."""
    vmm_arguments: Annotated[tuple[str, ...], BeforeValidator(_as_words)] = ()
    """More arguments of QEMU; as a factor's level all in one text."""
    network: Literal["lab", "bridge", "host", "macvlan"] = "lab"
    """How a container hangs on the network: docs/environments.md (docker)."""
    alone: StrictBool = False
    """What is measured runs on the last of its CPUs and on no other, away from the rest."""
    neighbours: tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...] = ()
    """Programs that go on while it is measured, each in a machine of its own on the same CPUs: argument vectors."""

    @property
    def brings_image(self) -> bool:
        """Whether `image` is the user's own, a path or a reference, and no name of an image of ours."""
        return "/" in self.image or ":" in self.image

    @property
    def settings(self) -> Mapping[str, Level]:
        """Levels of treatments, by name: those that [machine] fixes, and those that a treatment's `shape` adds."""
        return dict(self.model_extra or {})


SAME = "same"
"""What `clients.environment` says so that clients are what the servers are. No environment has that name."""


def _as_hosts(value: object) -> object:
    """A list of one host is that host."""
    return value[0] if isinstance(value, list | tuple) and len(value) == 1 else value


class ClientsSpec(Frozen):
    TREATMENTS: ClassVar[frozenset[str]] = frozenset({"offload"})
    """Keys that are levels of treatments. A factor of such a name means the treatment, which servers have too."""

    count: Annotated[Whole, Field(le=1000)] = 1
    environment: str = "host"
    """A level of `environment`, or SAME: then what is not written here is as [machine] asks for it."""
    image: str | None = None
    vcpus: Whole | None = None
    memory: Annotated[Bytes, Field(ge=16 * 2**20)] | None = None
    accel: str | None = None
    nic: str | None = None
    offload: StrictBool | str | None = None
    """A level of the treatment `offload` for the clients alone. None: that of the servers, if there is one."""
    connect: Literal["shared", "pairs"] = "shared"
    cpus: str | None = None
    host: Annotated[str | Annotated[tuple[str, ...], Field(min_length=1)], BeforeValidator(_as_hosts)] = "local"
    """A name, or several: clients are placed on them in turn. A factor sets one."""
    clocks: Annotated[Seconds, Field(gt=0, le=1)] = 0.01
    """How far clocks may be apart for what needs those of both ends: one way's delay, and a common start."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Their hosts, each once, in the order in which clients are placed on them."""
        return (self.host,) if isinstance(self.host, str) else self.host

    @property
    def own_treatments(self) -> Mapping[str, Level]:
        """Levels of treatments that the clients have in place of the servers'."""
        levels = ((name, getattr(self, name)) for name in sorted(self.TREATMENTS))
        return {name: level for name, level in levels if level is not None}

    @property
    def own_keys(self) -> Mapping[str, Any]:
        """What each client is given by a key of its own, as fields of a `MachineSpec`."""
        keys = ("image", "vcpus", "memory", "accel", "nic")
        return {key: value for key in keys if (value := getattr(self, key)) is not None}


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
    each: StrictBool = False
    """Whether each client has such a way for itself, in place of sharing one with the others."""
    switch: Literal["bridge", "direct"] = "bridge"

    @property
    def is_laid(self) -> bool:
        """Whether it is more than a place at the same switch."""
        return self.is_shaped or self.switch == "direct"

    @property
    def is_shaped(self) -> bool:
        return any(given is not None for given in (self.rate, self.delay, self.jitter, self.loss, self.reorder))


SSH_TARGET = r"^[A-Za-z0-9_\[](?:[A-Za-z0-9_.@:%\[\]-]*[A-Za-z0-9_.:%\[\]-])?$"
SshTarget = Annotated[str, Field(pattern=SSH_TARGET, max_length=300)]
"""Where an SSH server answers: "user@10.0.0.2". Never an option of some program."""


class HostSpec(Frozen):
    ssh: SshTarget
    trunk: IPvAnyAddress | None = None
    """The address by which other hosts reach it for a tunnel, when it is not the one that SSH reached."""
    interface: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,15}$")] | None = None
    """The interface whose address that is."""
    roles: tuple[Literal["server", "client"], ...] = ()
    """What is placed there, also in a study that names no host. Empty: either, where it is named."""
    tags: tuple[Name, ...] = ()
    """Words of the user's by which a study places machines, as "tag:10g"."""
    key: str | None = None
    """A key file to log in with, in place of what the user's agent and configuration have."""
    host_key: str | None = None
    """The only public key that is accepted of it, in place of what the user's known_hosts has."""
    jump: SshTarget | None = None
    """The SSH server through which it is reached, in place of what the user's configuration says."""


PRETENDED = "mock"
"""The kind of environment whose machines are none."""


class EnvironmentSpec(Frozen):
    """A named level of `environment`: its kind, and what that kind takes."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str
    provision: Provision | None = None

    @property
    def options(self) -> Mapping[str, Any]:
        return dict(self.model_extra or {})

    @property
    def is_pretended(self) -> bool:
        return self.kind == PRETENDED


class FactorSpec(Frozen):
    levels: Annotated[tuple[Level, ...], Field(min_length=1)]
    when: Mapping[str, Level | tuple[Level, ...]] = {}
    sets: str | Annotated[tuple[str, ...], Field(min_length=1)] | None = None


class WorkloadSpec(Frozen):
    """One workload of the study. What its kind takes stands in `parameters`; "{factor}" is replaced by a level."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: Name
    kind: str
    primary: Name | None = None
    under: Name | None = None
    """The workload whose load runs meanwhile."""
    headlines: tuple[Name, ...] = ()
    """More responses that are judged as the primary one is, each with its share of alpha."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        return dict(self.model_extra or {})


class CaptureSpec(Frozen):
    snap: Annotated[int, Field(strict=True, ge=64, le=262_144)] = 128
    limit: Annotated[Bytes, Field(ge=2**16, le=2**32)] = 2**26
    """Bytes of each file, at the most."""
    ring: StrictBool = False
    """Whether a file that is full keeps the last packets, not the first."""
    inside: StrictBool = False
    """Whether a server's packets are taken in the server itself."""

    @model_validator(mode="after")
    def _has_room_for_a_ring(self) -> CaptureSpec:
        if self.ring and self.limit < 3 * 2**20:
            raise ValueError('a ring needs a limit of "3MiB" or more')
        return self


def _as_capture(value: object) -> object:
    """A factor's level says only whether: true is a capture with the defaults."""
    if isinstance(value, bool):
        return {} if value else None
    if isinstance(value, dict | CaptureSpec) or value is None:
        return value
    raise ValueError("it must be true, false, or a table like { snap = 128 }")


def _as_interval(value: object) -> object:
    """A factor's level says only whether: true is a sample a second."""
    return {True: "1s", False: None}[value] if isinstance(value, bool) else value


class ObserveSpec(Frozen):
    model_config = ConfigDict(frozen=True, extra="allow")  # an observer of somebody else's, by its name

    usage: Annotated[Annotated[Seconds, Field(ge=0.01, le=3600)] | None, BeforeValidator(_as_interval)] = None
    noise: StrictBool = False
    capture: Annotated[CaptureSpec | None, BeforeValidator(_as_capture)] = None

    @property
    def chosen(self) -> Mapping[str, Any]:
        """Observer name to its setting, of those that are switched on."""
        return {name: setting for name, setting in self if setting not in (None, False)}


class SequentialBlocks(Frozen):
    """As many blocks as it takes to decide every primary contrast, looked at now and then."""

    min: Whole
    max: Annotated[Whole, Field(le=1000)]


class DesignSpec(Frozen):
    blocks: Whole | SequentialBlocks | Literal["auto"] = 8
    """"auto": as many as `detect` or `precision` takes, fixed before the run by noise that was measured."""
    crossing: Literal["full", "one-at-a-time"] = "full"
    margin: Annotated[Share, Field(gt=0, le=1)] = 0.02
    alpha: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.05
    seed: StrictInt | None = None
    """Of every random order. None: a run draws one, and its manifest has it."""
    provision: Provision = "boot"
    share_boot: StrictBool = False
    repeats: Whole = 1
    detect: Annotated[Share, Field(gt=0, le=10)] | None = None
    """The difference that is to be found, as a share."""
    precision: Annotated[Share, Field(gt=0, le=1)] | None = None
    """How far, as a share, an interval's ends are to be from its middle at most."""
    power: Annotated[float, Field(strict=True, ge=0.5, lt=1)] = 0.8
    """In what share of studies `detect` or `precision` is to hold."""

    @property
    def most_blocks(self) -> int:
        """The number of blocks that run, unless a sequential run is decided before. ValueError while it is "auto"."""
        if self.blocks == "auto":
            raise ValueError("the number of blocks is not fixed yet")
        return self.blocks if isinstance(self.blocks, int) else self.blocks.max


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
    kernel: KernelSpec = KernelSpec()
    observe: ObserveSpec = ObserveSpec()
    services: Mapping[str, ServiceSpec] = {}
    workloads: Annotated[tuple[WorkloadSpec, ...], Field(min_length=1)]
    design: DesignSpec = DesignSpec()

    def environment(self, level: str) -> EnvironmentSpec:
        """The environment behind a level: declared in [environments], else the kind of that name."""
        return self.environments.get(level) or EnvironmentSpec(kind=level)

    def provision_of(self, spec: EnvironmentSpec) -> Provision:
        """How an environment's machines are provisioned: as it says itself, else as the design says."""
        return spec.provision or self.design.provision
