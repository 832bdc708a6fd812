"""What no single key can get wrong: treatments, each taken as a whole."""

import json
from collections.abc import Iterator
from itertools import islice

from nearmetal import cpu_lists
from nearmetal.errors import BadInput
from nearmetal.model import PRETENDED, VIRTUAL_HARDWARE, Assignment, Description, MachineSpec, Study, is_per_namespace
from nearmetal.study import factors as words
from nearmetal.study.error_messages import StudyText, show_value
from nearmetal.study.line_numbers import KeyPath
from nearmetal.study.plugin_answers import shape_machine
from nearmetal.study.resolve import Resolver, installed_names, resolve_environment
from nearmetal.study.treatment_request import TreatmentRequest, find_targets

_NO_SYSCTL = "leave it out, or let servers and clients be guests; a factor can have a `when`"
LOOKED_AT = 20_000
"""Treatments that are tried. What is beyond is found when the study is planned or run."""


def iterate_asked(study: Study) -> Iterator[tuple[Assignment, TreatmentRequest]]:
    """Each treatment, as far as they are tried, and what it asks for."""
    resolver = Resolver(study)
    return (
        (treatment, resolver.ask_treatment(treatment)) for treatment in islice(words.treatments_of(study), LOOKED_AT)
    )


def _find_written(study: Study, treatment: Assignment, table: str, *keys: str) -> KeyPath:
    """Where the value of a table's key stands that a treatment has: at a factor, where one sets it. Of several keys at
    the first that is set so. Levels of treatments stand in `machine`."""
    aims = find_targets(study, installed_names())
    for key in keys:
        for name in treatment:
            if any((aim.kind, aim.key) == (table, key) for aim in aims[name]):
                return ("factors", name)
    return ("machine" if table == "treatment" else table, keys[0])


class Descriptions:
    """What the study's environments say of their machines, each asked once."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._known: dict[str, Description] = {}

    def __getitem__(self, level: str) -> Description:
        if level not in self._known:
            self._known[level] = resolve_environment(self._study, level).description
        return self._known[level]


def check_places(study: Study, where: StudyText) -> None:
    """A machine that is a host of its own cannot be placed on another."""
    described = Descriptions(study)
    for treatment, asked in iterate_asked(study):
        placed = (("machine", asked.environment, asked.machine), ("clients", asked.clients.environment, asked.clients))
        for table, level, spec in placed:
            if spec.host != "local" and described[level].host is not None:
                hosts = (spec.host,) if isinstance(spec.host, str) else spec.host
                named = " and ".join(map(show_value, hosts))
                what = f"{table}.host places {show_value(level)} on {named}, but it is a host of its own"
                path = _find_written(study, treatment, table, "host")
                raise where.make_error(path, what, "leave it out, or give the factor a `when`")


def check_reality(study: Study, where: StudyText) -> None:
    """Figures drawn from a hash are not put beside measured ones, and no real client loads a pretended server."""
    servers: dict[bool, str] = {}
    clients: dict[bool, str] = {}
    for _, asked in iterate_asked(study):
        for levels, level in ((servers, asked.environment), (clients, asked.clients.environment)):
            levels.setdefault(study.environment(level).is_pretended, level)
    both = clients | servers
    if len(both) > 1:
        raise where.make_error(
            ("factors" if len(servers) > 1 else "clients", "environment"),
            f"{show_value(both[True])} is a pretended machine (mock), whose figures say nothing beside "
            f"{show_value(both[False])}",
            f'leave it out, or let all be pretended, clients too: [environments.{both[False]}] kind = "{PRETENDED}"',
        )


def check_servers(study: Study, where: StudyText) -> None:
    """A machine that exists once cannot be the server of each of several clients."""
    described = Descriptions(study)
    for treatment, asked in iterate_asked(study):
        clients, level = asked.clients, asked.environment
        has_several = clients.connect == "pairs" and clients.count > 1
        if has_several and described[level].is_one:
            what = f"{clients.count} clients are to have a server each, but {show_value(level)} is one machine"
            path = _find_written(study, treatment, "clients", "connect", "count")
            raise where.make_error(path, what, 'connect = "shared": all clients load that one')


def check_clients(study: Study, where: StudyText) -> None:
    """Clients that are to be what the servers are can be made, and have the CPUs that are named for them. Each of their
    hosts has one in some treatment."""
    described = Descriptions(study)
    most = max((asked.clients.count for _, asked in iterate_asked(study)), default=0)
    if idle := study.clients.hosts[most:]:
        what = f"no client is placed on {' and '.join(map(show_value, idle))}: there are {most} at most"
        remedy = f"set clients.count to {len(study.clients.hosts)}, or name fewer hosts in clients.host"
        raise where.make_error(("clients", "host"), what, remedy)
    for treatment, asked in iterate_asked(study):
        level = asked.clients.environment
        if asked.is_same and described[level].is_reached_from_outside:
            what = (
                f"clients cannot be what {show_value(level)} is: that is a machine of yours, and no second "
                "is made of it"
            )
            remedy = 'set clients.environment to "host", or to another machine of yours'
            raise where.make_error(_find_written(study, treatment, "clients", "environment"), what, remedy)
        given, client = asked.clients.cpus, asked.client
        has_own = client is not None and (asked.is_same or asked.clients.vcpus is not None)
        if given is None or client is None or not has_own:
            continue
        if (named := len(cpu_lists.parse(given))) < client.vcpus:
            what = f"`clients.cpus` names {named} CPUs for clients that are to have {client.vcpus} each"
            path = _find_written(study, treatment, "clients", "cpus", "vcpus")
            raise where.make_error(path, what, "name more, or set clients.vcpus to less")


def check_cpus(study: Study, where: StudyText) -> None:
    """A machine without hardware of its own has the CPUs that are named for it: they are those that it counts."""
    described = Descriptions(study)
    for treatment, asked in iterate_asked(study):
        given, level = asked.machine.cpus, asked.environment
        if given is None or not set(described[level].ignores) >= VIRTUAL_HARDWARE:
            continue
        named, wanted = len(cpu_lists.parse(given)), asked.machine.vcpus
        if named != wanted:
            what = f"`cpus` names {named} CPUs for a machine of {show_value(level)} that is to have {wanted}"
            remedy = f"name as many as `vcpus` says, or set vcpus = {named}"
            raise where.make_error(_find_written(study, treatment, "machine", "cpus", "vcpus"), what, remedy)


def check_machines(study: Study, where: StudyText) -> None:
    """Each environment's machines can be what is asked of them."""
    seen: set[tuple[str, int]] = set()
    for treatment, asked in iterate_asked(study):
        for level, spec in ((asked.environment, asked.machine), (asked.clients.environment, asked.client)):
            if spec is None or (level, id(spec)) in seen:
                continue
            seen.add((level, id(spec)))
            try:
                resolve_environment(study, level, spec)
            except BadInput as error:
                table, _, key = error.where.partition(".")
                if table != "machine":
                    raise
                raise where.make_error(_find_written(study, treatment, table, key), error.what, error.remedy) from None


def check_shapes(study: Study, where: StudyText) -> None:
    """Each machine can be what its treatments want of it."""
    for treatment, asked in iterate_asked(study):
        machine = asked.machine
        for name, level in asked.treatments.items():
            try:
                machine = shape_machine(name, machine, level)
            except BadInput as error:
                table, _, key = error.where.partition(".")
                at = (table, key) if key else ("treatment", name)
                raise where.make_error(_find_written(study, treatment, *at), error.what, error.remedy) from None


def check_cables(study: Study, where: StudyText) -> None:
    """A direct cable has two ends; from host to host it is their own network, and no tunnel."""
    described = Descriptions(study)
    for treatment, asked in iterate_asked(study):
        is_direct, is_across = asked.link.switch == "direct", _is_across(asked, described)
        if is_direct and is_across and asked.link.tunnel is not None:
            what = '`tunnel` and `switch = "direct"` are two ways from host to host'
            path = _find_written(study, treatment, "link", "tunnel", "switch")
            raise where.make_error(path, what, "leave out one of them; a factor for the tunnel takes a `when`")
        if is_direct and not is_across and asked.clients.count > 1 and asked.clients.connect == "shared":
            what = f"a direct cable has two ends, and {asked.clients.count} clients share a server"
            path = _find_written(study, treatment, "link", "switch")
            raise where.make_error(path, what, 'switch = "bridge", or clients.connect = "pairs"')
        if asked.link.each and not asked.link.is_shaped:
            what = "`each` gives each client a way of its own, and nothing shapes it: all of them are alike"
            path = _find_written(study, treatment, "link", "each")
            raise where.make_error(path, what, 'say what shapes it, like rate = "100Mbit/s"')
        if asked.link.jitter and asked.link.jitter > (asked.link.delay or 0.0):
            what = "the jitter is more than the delay, and no frame can arrive before it was sent"
            path = _find_written(study, treatment, "link", "jitter", "delay")
            raise where.make_error(path, what, "give a longer delay, or less jitter")


def check_meaning(study: Study, where: StudyText) -> None:
    """A factor means something to every machine that has a level of it: else like would be compared with like, or a
    machine be called by what it has not."""
    targets = find_targets(study, installed_names())
    aims = [(name, aim) for name in study.factors for aim in targets[name]]
    described = Descriptions(study)
    for treatment, asked in iterate_asked(study):
        for name, aim in aims:
            if name not in treatment:
                continue
            is_there = f"`{name}` {'is varied' if len(study.factors[name].levels) > 1 else 'has a level'}"
            if aim.kind == "machine" and _is_ignored(aim.key, described[asked.environment]):
                what = f"{is_there} for {show_value(asked.environment)}, to which machine.{aim.key} means nothing"
                raise where.make_error(("factors", name), what, _suggest_environment(study, aim.key, described))
            if aim.kind == "clients" and aim.key in described[asked.clients.environment].ignores:
                client = show_value(asked.clients.environment)
                what = f"{is_there} for clients of {client}, to which clients.{aim.key} means nothing"
                raise where.make_error(("factors", name), what, "leave it out, or give the factor a `when`")
            if aim.is_how_captured and asked.observe.capture is None:
                what = f"{is_there} where nothing is captured"
                remedy = "let packets be captured: [observe] capture = true; or give the factor a `when`"
                raise where.make_error(("factors", name), what, remedy)
            if aim == words.Target("link", "tunnel") and not _is_across(asked, described):
                what = f"{is_there} where servers and clients are on one host, and need no tunnel"
                raise where.make_error(("factors", name), what, "place them on two hosts, or give the factor a `when`")


def check_sysctls(study: Study, where: StudyText) -> None:
    """Each sysctl can be set on servers and clients: none belongs to a kernel that its machine shares with others."""
    aims = find_targets(study, installed_names())
    factors = [(aim.key, name) for name, some in aims.items() for aim in some if aim.kind == "sysctl"]
    if not factors and not study.kernel.sysctl:
        return
    described = Descriptions(study)
    for treatment, asked in iterate_asked(study):
        places: dict[str, KeyPath] = dict.fromkeys(study.kernel.sysctl, ("kernel", "sysctl"))
        places |= {key: ("factors", name) for key, name in factors if name in treatment}
        for role, level in (("server", asked.environment), ("client", asked.clients.environment)):
            for name, path in places.items():
                if problem := _find_sysctl_problem(name, described[level]):
                    what = f"{name} cannot be set on the {role}, {show_value(level)}: {problem}"
                    raise where.make_error(path, what, _NO_SYSCTL)


def _find_sysctl_problem(name: str, machine: Description) -> str | None:
    if machine.kernel == "emulated":
        return "the program that imitates its kernel takes none"
    if machine.kernel == "host" and not is_per_namespace(name):
        return "it belongs to the kernel as a whole, which is that of the host"
    return None


def find_idle_keys(study: Study) -> list[str]:
    """Keys of [machine] that a study sets and that mean nothing to any of its machines under test."""
    described = Descriptions(study)
    machines = [described[str(level)] for level in study.factors["environment"].levels]
    fields = MachineSpec.model_fields
    written = sorted(study.machine.model_fields_set & fields.keys())
    changed = [key for key in written if getattr(study.machine, key) != fields[key].default]
    return [key for key in changed if all(_is_ignored(key, machine) for machine in machines)]


def _is_ignored(key: str, machine: Description) -> bool:
    """Whether a key of [machine] means nothing to a machine. Kernel arguments take a kernel of its own."""
    return key in machine.ignores or (key == "kernel_arguments" and machine.kernel in ("host", "emulated"))


def _is_across(asked: TreatmentRequest, described: Descriptions) -> bool:
    """Whether servers and clients hang on the lab's switches of different hosts."""
    both = (described[asked.environment], described[asked.clients.environment])
    return {asked.machine.host} != {*asked.clients.hosts[: asked.clients.count]} and all(
        one.is_on_switch for one in both
    )


def _suggest_environment(study: Study, key: str, described: Descriptions) -> str:
    """What to write, where there is an environment to which it means something."""
    levels = [str(level) for level in study.factors["environment"].levels]
    those = [level for level in levels if not _is_ignored(key, described[level])]
    return f"vary it for the others alone: when = {{ environment = {json.dumps(those)} }}" if those else "leave it out"
