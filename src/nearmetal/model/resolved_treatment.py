"""A treatment, resolved: everything that one combination of levels asks for, as typed data.

The plan resolves each treatment once. Manifest, stage, record and report carry the result, so that nothing derives a
treatment's meaning again from names or from whatever plugins happen to be installed.
"""

from collections.abc import Mapping
from typing import Any, Literal

from nearmetal.model.base import Frozen, Level, Provision
from nearmetal.model.description import Description
from nearmetal.model.kernel import format_sysctl
from nearmetal.model.record import ResponseKind
from nearmetal.model.services import PlacedFile, ResolvedService
from nearmetal.model.study import PRETENDED, EnvironmentSpec, LinkSpec, MachineSpec, ObserveSpec

CAPTURE_KEYS = ("capture.snap", "capture.inside")
"""What can be varied of captures that are made, as keys of [observe]: not whether packets are captured, but how."""

SettingTarget = Literal["table", "treatment", "placeholder", "observer", "service", "sysctl"]


class DebianPackage(Frozen):
    """A package that an image was made of."""

    version: str
    sha256: str
    """Of its .deb, in hexadecimal, as in the signed lists of Debian's archive."""


class PluginVersion(Frozen):
    """Which package provided a plugin when the run was planned, and at which version."""

    group: str
    """`environments`, `treatments`, `workloads` or `observers`."""
    plugin: str
    distribution: str
    version: str


class Setting(Frozen):
    """What one level sets."""

    factor: str | None
    """The factor whose level it is; None for a treatment that [machine] fixes, or a sysctl of [kernel.sysctl]."""
    target: SettingTarget
    key: str
    """The key of a table ("machine.vcpus", "clients.count", "link.rate"), or the name of a treatment, placeholder,
    observer ("capture", "capture.snap"), service or sysctl."""
    level: Level


class ResolvedEnvironment(Frozen):
    level: str
    """Its name in the study."""
    kind: str
    options: Mapping[str, Any]
    """What [environments.NAME] says besides `kind` and `provision`, as JSON values."""
    provision: Provision
    description: Description

    @property
    def spec(self) -> EnvironmentSpec:
        """As a study file writes it, with how its machines are provisioned."""
        return EnvironmentSpec(kind=self.kind, provision=self.provision, **self.options)

    @property
    def is_pretended(self) -> bool:
        return self.description.family == "pretended"


class ResolvedClients(Frozen):
    environment: ResolvedEnvironment
    machine: MachineSpec | None = None
    """What each client is given. None: the image of the servers, and the CPUs that they leave, a fact of each boot."""
    has_own_cpus: bool = False
    """Whether each client has as many CPUs as `machine` says; else all share those that the servers leave."""
    count: int
    connect: Literal["shared", "pairs"]
    cpus: str | None
    host: str
    """Of the first."""
    hosts: tuple[str, ...] = ()
    """Where they are on several: clients are placed on them in turn."""
    treatments: Mapping[str, Level] = {}
    """Levels of treatments that clients have in place of the servers'."""
    clocks: float = 0.01
    """Seconds by which clocks may be apart for what needs those of both ends."""

    @property
    def places(self) -> tuple[str, ...]:
        """The host of each client."""
        hosts = self.hosts or (self.host,)
        return tuple(hosts[number % len(hosts)] for number in range(self.count))


class ResolvedWorkload(Frozen):
    name: str
    kind: str
    parameters: Mapping[str, Any]
    """With placeholders filled, as JSON values. The workload's own model validates them again when it is built."""
    primary: str | None
    """None only in a run of manifest version 1 whose study named none: the plan's `primaries` has it."""
    responses: Mapping[str, ResponseKind]
    """What a run of it can give; empty in a run of manifest version 1."""
    has_clients: bool
    """Whether clients load the servers over the network."""
    under: str | None = None
    """Name of the workload whose load runs while this one is measured."""
    services: tuple[str, ...] = ()
    """Names of those that it asks: they run on each server before it is prepared."""
    files: tuple[PlacedFile, ...] = ()
    """What is put into each machine before it is prepared."""
    variant: str
    """What decides how noisy its responses are, besides its kind: "cpu", "closed, delayed"; "" if nothing does."""


class Resolved(Frozen):
    """Everything that a treatment asks for."""

    assignment: Mapping[str, Level]
    environment: ResolvedEnvironment
    server: MachineSpec
    """What each machine under test is to be, as its treatments have shaped it."""
    clients: ResolvedClients
    link: LinkSpec
    observe: ObserveSpec
    services: Mapping[str, ResolvedService] = {}
    """What each service is that a workload can ask, by name."""
    align: Literal["network", "off"] = "off"
    """Which kernel settings are made alike, by the plan's table."""
    workloads: tuple[ResolvedWorkload, ...]
    settings: tuple[Setting, ...]

    @property
    def is_pretended(self) -> bool:
        """Whether none of it touches a host."""
        return self.environment.kind == self.clients.environment.kind == PRETENDED

    @property
    def treatments(self) -> Mapping[str, Level]:
        """Treatment name to level: those that [machine] fixes, overridden by those of factors."""
        return {one.key: one.level for one in self.settings if one.target == "treatment"}

    @property
    def sysctls(self) -> Mapping[str, str]:
        """Sysctl name to the value that it has on all servers and clients: fixed by [kernel.sysctl], or a level."""
        return {one.key: format_sysctl(one.level) for one in self.settings if one.target == "sysctl"}

    @property
    def number_of_servers(self) -> int:
        return self.clients.count if self.clients.connect == "pairs" else 1

    def workload(self, name: str) -> ResolvedWorkload:
        """KeyError if the study has none of that name."""
        for one in self.workloads:
            if one.name == name:
                return one
        raise KeyError(name)

    def setting_of(self, factor: str) -> Setting | None:
        """What a factor's level sets in this treatment; None for `environment`, and if the factor does not apply."""
        return next((one for one in self.settings if one.factor == factor), None)
