"""Hosts of a study or a lab: each is one, and takes the role that it is named for."""

import json
from collections.abc import Iterator, Mapping, Sequence

from nearmetal import plugins
from nearmetal.model import HostSpec, Level, Role, Study
from nearmetal.spelling import did_you_mean
from nearmetal.study.checks.comparison import NAME
from nearmetal.study.checks.places import describe_kind
from nearmetal.study.error_messages import StudyText, as_name, show_value
from nearmetal.study.factors import NoTarget, find_aims
from nearmetal.study.line_numbers import KeyPath
from nearmetal.study.resolve import installed_names

TAG = "tag:"
"""Before a tag, where a host's name could stand: those hosts that have it."""

_PEOPLE: Mapping[Role, str] = {"server": "servers", "client": "clients"}


def check_hosts(hosts: Mapping[str, HostSpec], where: StudyText) -> None:
    """Names are names, and no machine has two."""
    known: dict[tuple[str, str | None], str] = {}
    for name, host in hosts.items():
        path: KeyPath = ("hosts", name)
        if not NAME.fullmatch(name):
            raise where.make_error(path, f"{show_value(name)} cannot be a name in [hosts]", as_name(name))
        if name == "local":
            raise where.make_error(path, "`local` is this host itself and cannot be another", "rename it")
        first = known.setdefault((host.ssh, host.jump), name)
        if first != name:
            what = f"{show_value(first)} and {show_value(name)} are one host: both are reached as {host.ssh}"
            raise where.make_error((*path, "ssh"), what, "leave out one of them, and use the other's name")
        if host.trunk is not None and host.interface is not None:
            what = f"both `trunk` and `interface` say by which address {show_value(name)} is reached"
            raise where.make_error((*path, "interface"), what, "leave out one of them")


def place_roles(study: Study, where: StudyText) -> Study:
    """A study whose servers and clients are on hosts by name, where it names a tag or leaves the choice to the hosts.

    There is one client on each of several hosts, unless it says how many. BadInput when no host has a tag, or takes a
    role.
    """
    hosts = study.hosts
    server = _place_servers(study, where)
    machine = study.machine if server is None else study.machine.model_copy(update={"host": server})
    clients = study.clients
    # Of those that a tag or a role means, no more than there are clients; of those that are named, each is to have one.
    placed = _place_clients(study, machine.host, where)[: _count_clients(study)] or clients.hosts
    if placed != clients.hosts:
        clients = clients.model_copy(update={"host": placed[0] if len(placed) == 1 else placed})
    if len(placed) > 1 and "count" not in clients.model_fields_set:
        clients = clients.model_copy(update={"count": len(placed)})
    _check_roles(("machine", "host"), (machine.host,), "server", hosts, where)
    _check_roles(("clients", "host"), clients.hosts, "client", hosts, where)
    for name, table, level in _find_levels(study):
        _check_roles(("factors", name), (level,), "server" if table == "machine" else "client", hosts, where)
    return study.model_copy(update={"machine": machine, "clients": clients})


def _place_servers(study: Study, where: StudyText) -> str | None:
    """The host of the servers; None if the study says it, or nothing does."""
    written = study.machine.host
    if written.startswith(TAG):
        return _find_tagged(("machine", "host"), written, "server", study.hosts, where)[0]
    taker = next(_find_takers(study.hosts, "server"), None)
    if taker is None or _is_placed(study, "machine"):
        return None
    levels = [str(level) for level in study.factors["environment"].levels]
    return None if any(_is_own_host(study, level) for level in levels) else taker


def _place_clients(study: Study, server: str, where: StudyText) -> tuple[str, ...]:
    """The hosts of the clients; none if the study says them, or nothing does."""
    written = study.clients.hosts
    if any(name.startswith(TAG) for name in written):
        found: dict[str, None] = {}
        for name in written:
            tagged = _find_tagged(("clients", "host"), name, "client", study.hosts, where)
            found |= dict.fromkeys(tagged)
        return tuple(found)
    takers = tuple(_find_takers(study.hosts, "client"))
    if not takers or _is_placed(study, "clients") or _is_own_host(study, study.clients.environment):
        return ()
    return tuple(name for name in takers if name != server) or takers


def _find_tagged(
    path: KeyPath, written: str, role: Role, hosts: Mapping[str, HostSpec], where: StudyText
) -> Sequence[str]:
    """Hosts that a name means, or a tag: of those that have it the ones that take the role. BadInput if none does."""
    if not written.startswith(TAG):
        return (written,)
    tag = written.removeprefix(TAG)
    tagged = [name for name, host in hosts.items() if tag in host.tags]
    if not tagged:
        known = list(dict.fromkeys(one for host in hosts.values() for one in host.tags))
        remedy = did_you_mean(tag, known, "tags that hosts have")
        raise where.make_error(
            path, f"`{'.'.join(map(str, path))}` names the tag {show_value(tag)}, which no host has", remedy
        )
    takers = [name for name in tagged if _can_take(hosts[name], role)]
    if not takers:
        what = f"no host with the tag {show_value(tag)} takes {_PEOPLE[role]}: {_list_roles(tagged, hosts)}"
        raise where.make_error(path, what, f'name another tag or host, or add "{role}" to the roles of one of them')
    return takers


def _find_takers(hosts: Mapping[str, HostSpec], role: Role) -> Iterator[str]:
    return (name for name, host in hosts.items() if role in host.roles)


def _can_take(host: HostSpec, role: Role) -> bool:
    return not host.roles or role in host.roles


def _check_roles(
    path: KeyPath, names: Sequence[str], role: Role, hosts: Mapping[str, HostSpec], where: StudyText
) -> None:
    for name in names:
        if name in hosts and not _can_take(hosts[name], role):
            what = f"{show_value(name)} takes no {_PEOPLE[role]}: {_list_roles([name], hosts)}"
            takers = [other for other, host in hosts.items() if _can_take(host, role)]
            others = f", or name one of {', '.join(takers)}" if takers else ""
            raise where.make_error(path, what, f'add "{role}" to its roles{others}')


def _list_roles(names: Sequence[str], hosts: Mapping[str, HostSpec]) -> str:
    return "; ".join(f"[hosts.{name}] roles = {json.dumps(hosts[name].roles)}" for name in names)


def _is_placed(study: Study, table: str) -> bool:
    """Whether the study says where a role is placed, by a key or by a factor."""
    written = study.machine if table == "machine" else study.clients
    return "host" in written.model_fields_set or any(of == table for _, of, _ in _find_levels(study))


def _find_levels(study: Study) -> Iterator[tuple[str, str, str]]:
    """Factors that place a role: name, table, and each level."""
    for table in ("machine", "clients"):
        yield from ((name, table, str(level)) for name, key, level in _find_aimed(study, table) if key == "host")


def _find_aimed(study: Study, table: str) -> Iterator[tuple[str, str, Level]]:
    """Factors that set keys of a table: name, key, and each level."""
    known = installed_names()
    for name, factor in study.factors.items():
        try:
            aims = find_aims(name, factor, study, known)
        except NoTarget:  # which is told later
            continue
        yield from ((name, aim.key, level) for aim in aims if aim.kind == table for level in factor.levels)


def _count_clients(study: Study) -> int | None:
    """How many there are at most; None if the study does not say."""
    said = [study.clients.count] if "count" in study.clients.model_fields_set else []
    said += [int(level) for _, key, level in _find_aimed(study, "clients") if key == "count" and isinstance(level, int)]
    return max(said, default=None)


def _is_own_host(study: Study, level: str) -> bool:
    """Whether it is a machine of the user's. Not of what is wrong, which is told later."""
    spec = study.environment(level)
    if spec.kind not in plugins.list_names("environments"):
        return False
    described = describe_kind(spec.kind, spec.options, study.machine)
    return described is not None and described.host is not None
