"""Resolving treatments: what each combination of levels asks for, with what the plugins say of it.

Done once, when a study is planned. What comes of it is data: the plan, the manifest and everything after read that.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import ValidationError

from nearmetal import model, plugins
from nearmetal.errors import BadInput
from nearmetal.plugins import blame_package
from nearmetal.study.factors import KnownNames, treatments_of
from nearmetal.study.plugin_answers import (
    describe_machines,
    make_workload,
    shape_machine,
    validate_options,
    validate_parameters,
)
from nearmetal.study.treatment_request import TreatmentRequest, TreatmentRequests, find_targets
from nearmetal.study.user_files import FileReader


def installed_names() -> KnownNames:
    return KnownNames(plugins.list_names("treatments"), plugins.list_names("observers"))


class Resolver:
    """Resolves treatments of one study. What several treatments have in common is one object."""

    def __init__(self, study: model.Study, reader: FileReader | None = None) -> None:
        """`reader` reads what the study carries along; without one, relative to the current directory."""
        self._study = study
        self._reader = reader or FileReader()
        self._services: Mapping[str, model.ResolvedService] | None = None
        self._asking = TreatmentRequests(study, find_targets(study, installed_names()))
        self._environments: dict[tuple[str, int], model.ResolvedEnvironment] = {}
        self._servers: dict[tuple[object, ...], model.MachineSpec] = {}
        self._clients: dict[tuple[object, ...], model.ResolvedClients] = {}
        self._workloads: dict[int, tuple[model.ResolvedWorkload, ...]] = {}

    def ask_treatment(self, assignment: model.Assignment) -> TreatmentRequest:
        """What a combination asks for, as the study writes it. pydantic's ValidationError."""
        return self._asking.ask_treatment(assignment)

    def resolve_treatment(self, assignment: model.Assignment) -> model.Resolved:
        """BadInput when a machine cannot be what its treatments want; HostCannot when a plugin cannot be loaded."""
        asked = self._asking.ask_treatment(assignment)
        environment = self._resolve_environment(asked.environment, asked.machine)
        return model.Resolved.model_construct(
            assignment=assignment,
            environment=environment,
            server=self._resolve_server(asked, environment),
            clients=self._resolve_clients(asked),
            link=asked.link,
            observe=asked.observe,
            services=self._resolved_services(),
            align=self._study.kernel.align,
            workloads=self._resolve_workloads(asked.workloads),
            settings=asked.settings,
        )

    def _resolve_environment(self, level: str, spec: model.MachineSpec) -> model.ResolvedEnvironment:
        key = (level, id(spec))  # the tables that were asked for stay as long as this does
        if key not in self._environments:
            self._environments[key] = resolve_environment(self._study, level, spec)
        return self._environments[key]

    def _resolve_server(self, asked: TreatmentRequest, environment: model.ResolvedEnvironment) -> model.MachineSpec:
        treatments = tuple((name, type(level), level) for name, level in asked.treatments.items())
        key = (id(asked.machine), environment.level, treatments)
        if key not in self._servers:
            spec = asked.machine
            for name, level in asked.treatments.items():
                spec = shape_machine(name, spec, level)
            # Machines that are hosts of their own are placed there.
            if environment.description.host is not None:
                spec = spec.model_copy(update={"host": environment.level})
            self._servers[key] = spec
        return self._servers[key]

    def _resolve_clients(self, asked: TreatmentRequest) -> model.ResolvedClients:
        clients = asked.clients
        treatments = tuple((name, type(level), level) for name, level in asked.treatments.items())
        key = (id(clients), id(asked.client), treatments)
        if key not in self._clients:
            machine = self._shape_client(asked)
            environment = self._resolve_environment(clients.environment, asked.client or self._study.machine)
            # They are not what is under study: made anew where they can be.
            provisions = plugins.load("environments", environment.kind).provisions
            provision = "boot" if "boot" in provisions else provisions[0]
            hosts = clients.hosts if environment.description.host is None else (environment.level,)
            self._clients[key] = model.ResolvedClients(
                environment=environment.model_copy(update={"provision": provision}),
                machine=machine,
                has_own_cpus=machine is not None and (asked.is_same or clients.vcpus is not None),
                count=clients.count,
                connect=clients.connect,
                treatments=clients.own_treatments,
                cpus=clients.cpus,
                clocks=clients.clocks,
                host=hosts[0],
                hosts=hosts if len(hosts) > 1 else (),
            )
        return self._clients[key]

    def _shape_client(self, asked: TreatmentRequest) -> model.MachineSpec | None:
        """What each client is, shaped by the treatments that are of clients too."""
        spec = asked.client
        if spec is None:
            return None
        for name, level in {**asked.treatments, **asked.clients.own_treatments}.items():
            if "client" in getattr(plugins.load("treatments", name), "roles", ("server",)):
                spec = shape_machine(name, spec, level)
        return spec

    def _resolve_workloads(self, workloads: tuple[model.WorkloadSpec, ...]) -> tuple[model.ResolvedWorkload, ...]:
        if id(workloads) not in self._workloads:
            self._workloads[id(workloads)] = tuple(resolve_workload(one, self._reader) for one in workloads)
        return self._workloads[id(workloads)]

    def _resolved_services(self) -> Mapping[str, model.ResolvedService]:
        if self._services is None:
            self._services = {
                name: resolve_service(name, spec, self._reader) for name, spec in self._study.services.items()
            }
        return self._services


def build_workload(spec: model.WorkloadSpec | model.ResolvedWorkload) -> model.Workload:
    """A workload from its entry. pydantic's ValidationError if a parameter does not fit; HostCannot if its kind breaks,
    or is not what its Protocol promises."""
    return make_workload(spec.kind, validate_parameters(spec))


def resolve_service(name: str, spec: model.ServiceSpec, reader: FileReader) -> model.ResolvedService:
    """A service with its files as they are now. BadInput when one cannot be read."""
    return model.ResolvedService(
        start=spec.start,
        port=spec.port,
        env=spec.env,
        files=tuple(reader.read(text, f"services.{name}.files") for text in spec.files),
        ready=spec.ready or f"tcp:{spec.port}",
        ready_within=spec.ready_within,
        user=spec.user,
        directory=spec.directory,
        lifetime=spec.lifetime,
    )


def collect_services(kind: str, parameters: model.Frozen) -> tuple[str, ...]:
    """Names of the services that a workload with these parameters asks."""
    with blame_package("workloads", kind):
        return tuple(getattr(parameters, "asked_services", ()))


def lengthen_load(spec: model.WorkloadSpec | model.ResolvedWorkload, seconds: int) -> Mapping[str, Any] | None:
    """The parameters of a workload whose load goes on for so long; None if its kind makes no such load."""
    parameters = validate_parameters(spec)
    with blame_package("workloads", spec.kind):
        lengthen = getattr(parameters, "lengthen", None)
        found: Mapping[str, Any] | None = None if lengthen is None else lengthen(spec.parameters, seconds)
    return found


def collect_ports(kind: str, parameters: model.Frozen) -> tuple[int, ...]:
    """The ports on which servers of nearmetal's own listen for a workload with these parameters."""
    with blame_package("workloads", kind):
        return tuple(getattr(parameters, "own_ports", ()))


def resolve_workload(spec: model.WorkloadSpec, reader: FileReader | None = None) -> model.ResolvedWorkload:
    """A workload with its files as they are now. BadInput when one cannot be read."""
    parameters = validate_parameters(spec)
    with blame_package("workloads", spec.kind):
        files: tuple[str, ...] = tuple(getattr(parameters, "carried_files", ()))
        pinned = _pin_files(spec.parameters, parameters)
        variant = _tell_variant(parameters)
    workload = make_workload(spec.kind, parameters)
    return model.ResolvedWorkload(
        name=spec.name,
        kind=spec.kind,
        parameters=pinned,
        primary=spec.primary or workload.primary,
        responses=dict(workload.responses),
        has_clients=workload.has_clients,
        under=spec.under,
        services=collect_services(spec.kind, parameters),
        files=tuple((reader or FileReader()).read(text, f"workload {spec.name!r}") for text in files),
        variant=variant,
    )


def _pin_files(written: Mapping[str, Any], parameters: model.Frozen) -> Mapping[str, Any]:
    """What a workload is asked for, with the checksums of its files if it has any."""
    pin = getattr(parameters, "pin_files", None)
    return written if pin is None else pin(written)


def _tell_variant(parameters: model.Frozen) -> str:
    chosen = getattr(parameters, "test", None) or getattr(parameters, "mode", None)
    delayed = "delayed" if getattr(parameters, "delay", None) else None
    return ", ".join(str(one) for one in (chosen, delayed) if one)


def resolve_treatments(study: model.Study, reader: FileReader | None = None) -> tuple[model.Resolved, ...]:
    """Every treatment of a study, resolved, in the order of the study. BadInput, HostCannot."""
    return tuple(map(Resolver(study, reader).resolve_treatment, treatments_of(study)))


def resolve_environment(
    study: model.Study, level: str, spec: model.MachineSpec | None = None
) -> model.ResolvedEnvironment:
    """A level of `environment`, with what its kind says of its machines. HostCannot when the kind describes none."""
    environment = study.environment(level)
    given = environment.model_copy(update={"provision": study.provision_of(environment)})
    return resolve_alone(given, spec or study.machine, level)


def resolve_alone(
    environment: model.EnvironmentSpec, spec: model.MachineSpec, level: str = ""
) -> model.ResolvedEnvironment:
    """An environment that is in no study, called as its kind unless it has another name. HostCannot."""
    try:
        validate_options(environment.kind, environment.options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        what = f"environments of kind {environment.kind!r} do not take `{first['loc'][0] if first['loc'] else ''}` so"
        remedy = "docs/environments.md says what each kind takes"
        raise BadInput(what, f"environments.{level or environment.kind}", remedy) from None
    described = describe_machines(environment.kind, environment.options, spec)
    return model.ResolvedEnvironment(
        level=level or environment.kind,
        kind=environment.kind,
        options=environment.options,
        provision=environment.provision or "boot",
        description=described,
    )


def collect_hosts(study: model.Study) -> Mapping[str, model.HostSpec]:
    """How each host of a study is reached, by its name: those of [hosts], and machines that are hosts of their own."""
    described = {name: resolve_environment(study, name).description.host for name in study.environments}
    return {**study.hosts, **{name: host for name, host in described.items() if host is not None}}


def find_one_under_two_names(study: model.Study) -> list[tuple[str, str]]:
    """Levels of `environment` that say the same of one machine of the user's: their comparison is an A/A on it."""
    levels = [str(level) for level in study.factors["environment"].levels]
    ones = [level for level in levels if resolve_environment(study, level).description.is_one]
    return [
        (one, other)
        for number, one in enumerate(ones)
        for other in ones[number + 1 :]
        if study.environment(one) == study.environment(other)
    ]


def collect_plugins(resolved: Iterable[model.Resolved]) -> tuple[model.PluginVersion, ...]:
    """Every plugin that treatments need, and the package that provides it."""
    needed: dict[tuple[plugins.Group, str], None] = {}
    for one in resolved:
        needed |= dict.fromkeys(("environments", of.kind) for of in (one.environment, one.clients.environment))
        needed |= dict.fromkeys(("workloads", of.kind) for of in one.workloads)
        needed |= dict.fromkeys(("treatments", name) for name in (*one.treatments, *one.clients.treatments))
        needed |= dict.fromkeys(("observers", name) for name in one.observe.chosen)
    return tuple(_read_version(group, name) for group, name in needed)


def _read_version(group: plugins.Group, name: str) -> model.PluginVersion:
    package = plugins.package_of(group, name) or "nearmetal"
    try:
        installed = version(package)
    except PackageNotFoundError:  # an entry point without a distribution, known by its module alone
        installed = "unknown"
    return model.PluginVersion(group=group, plugin=name, distribution=package, version=installed)
