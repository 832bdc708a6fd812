"""Which treatments of a study cannot run here, found out before anything is made."""

from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from nearmetal import cpu_lists, model, plugins
from nearmetal.errors import HostCannot
from nearmetal.lab import host_lock
from nearmetal.lab.cpus import layout
from nearmetal.lab.cpus.allocation import Share
from nearmetal.lab.cpus.layout import Layout
from nearmetal.lab.host_checks import check_programs, check_provided, finding
from nearmetal.lab.lab import OpenSite
from nearmetal.lab.local_site import list_available_cpus, read_memory
from nearmetal.lab.machine_image import find_process
from nearmetal.lab.machines import kernel
from nearmetal.lab.networks import trunk, underlay
from nearmetal.lab.site_registry import Sites
from nearmetal.run import site_resources
from nearmetal.study.levels import format_assignment
from nearmetal.study.resolve import collect_hosts
from nearmetal.units import show_size

Missing = list[tuple[dict[str, model.Level], model.Finding]]


async def find_unavailable(study: model.Study, resolved: Iterable[model.Resolved], open_site: OpenSite) -> Missing:
    """Treatments whose machines cannot be had, each with the first thing that is lacking."""
    return await _find_missing(_Here(study, collect_hosts(study), open_site), resolved)


async def foresee_missing(study: model.Study, resolved: Iterable[model.Resolved]) -> tuple[Missing, tuple[str, ...]]:
    """Treatments that cannot run as far as this host tells by itself, and what would have to be asked for the rest.

    No other machine is touched, and no program runs that the study names, or whose input it does.
    """
    hosts = collect_hosts(study)
    async with aclosing(Sites(hosts)) as open_site:
        here = _Here(study, hosts, open_site, asks=False)
        return await _find_missing(here, resolved), tuple(here.not_asked)


async def _find_missing(here: "_Here", resolved: Iterable[model.Resolved]) -> Missing:
    missing: Missing = []
    for one in resolved:
        lacking = await here.find_lacking(one)
        if lacking is not None:
            missing.append((dict(one.assignment), lacking))
    return missing


def group_by_finding(missing: Missing) -> dict[model.Finding, list[str]]:
    """What is lacking, each thing once, with the treatments that lack it."""
    found: dict[model.Finding, list[str]] = {}
    for treatment, lacking in missing:
        found.setdefault(lacking, []).append(format_assignment(treatment))
    return found


@dataclass(frozen=True)
class _Host:
    """A host that was reached, with the CPUs that our processes may use there, and its memory in bytes."""

    site: model.Site
    available: list[int]
    memory: int
    layout: Layout


class _Here:
    """What has been found out so far: each host is reached once, and each kind of machine tried once on each."""

    def __init__(
        self, study: model.Study, host_specs: Mapping[str, model.HostSpec], open_site: OpenSite, asks: bool = True
    ) -> None:
        """`asks`: whether other machines, and what the study names on this one, may be asked."""
        self._study = study
        self._asks = asks
        self.not_asked: dict[str, None] = {}
        self._host_specs = host_specs
        self._open_site = open_site
        self._hosts: dict[str, _Host | model.Finding] = {}
        self._checked: dict[tuple[str, str, str], model.Finding | None] = {}

    async def find_lacking(self, asked: model.Resolved) -> model.Finding | None:
        """The first thing that a treatment lacks: for its servers, else for its clients."""
        spec = asked.server
        if not self._asks:
            try:
                others = self._list_other_hosts(asked)
            except HostCannot as error:
                return _describe_unusable(error, error.where)
            if others:
                self.not_asked.update(dict.fromkeys(others))
                return self._find_separation(asked)
        host = await self._find_host(spec.host)
        clients_hosts: dict[str, _Host] = {}
        for name in dict.fromkeys(asked.clients.places):
            one = await self._find_host(name)
            if isinstance(one, model.Finding):
                return host if isinstance(host, model.Finding) else one
            clients_hosts[name] = one
        if isinstance(host, model.Finding):
            return host
        elsewhere = {name: one.available for name, one in clients_hosts.items() if one is not host}
        if asked.environment.description.placement == "elsewhere":
            share = site_resources.share_without_servers(
                asked, {name: one.available for name, one in clients_hosts.items()}
            )
        else:
            share = site_resources.share_cpus(asked, host.available, host.layout, elsewhere)
        specs = [spec]
        if kernel.keeps_cpus(spec) and share.servers[0]:
            # Which of them are kept free decides, and only the host can tell.
            specs = [spec.model_copy(update={"cpus": cpus}) for cpus in dict.fromkeys(share.servers)]
        usable = host.layout.usable(host.available, kernel.keeps_cpus(spec))
        servers = [
            *(_check_cpus(one.cpus, usable, "machine.cpus") for one in specs),
            _check_memory(spec.memory, host.memory),
        ]
        return (
            self._find_separation(asked)
            or await self._check_environment(asked.environment, specs, host, servers, asked.link)
            or self._entry_point(asked)
            or await self._find_lacking_of_clients(asked, share, clients_hosts)
            or await self._check_between(asked, host, clients_hosts)
            or await self._check_capture(asked, host)
        )

    async def _find_lacking_of_clients(
        self, asked: model.Resolved, share: Share, hosts: Mapping[str, _Host]
    ) -> model.Finding | None:
        """The first thing that the clients lack on one of their hosts."""
        for name, host in hosts.items():
            client = site_resources.make_client_spec(asked, share.of_clients(name))
            # The memory of a client of which the study says nothing is a limit of ours.
            wanted = [_check_cpus(asked.clients.cpus, host.available, "clients.cpus")]
            if asked.clients.machine:
                wanted.append(_check_memory(client.memory, host.memory))
            lacking = await self._check_environment(asked.clients.environment, [client], host, wanted, asked.link)
            if lacking is not None:
                several = len(hosts) > 1 and not lacking.what.startswith("host ")
                return lacking.model_copy(update={"what": f"host {name}: {lacking.what}"}) if several else lacking
        return None

    def _list_other_hosts(self, asked: model.Resolved) -> list[str]:
        """Those that a treatment's machines lie on. BadInput or HostCannot for what is wrong with them as written."""
        others = [name for name in dict.fromkeys((asked.server.host, *asked.clients.places)) if name != "local"]
        levels = (asked.environment.level, asked.clients.environment.level)
        others += [name for name in levels if name in self._host_specs]
        for name in others:
            self._refuse_unusable(name)
        return [f"host {name} ({self._host_specs[name].ssh})" for name in dict.fromkeys(others)]

    def _find_separation(self, asked: model.Resolved) -> model.Finding | None:
        """Clients that have no way to the servers: one side is on the lab's switch, and the other is not."""
        server, client = asked.environment.description, asked.clients.environment.description
        kind, level = asked.clients.environment.kind, asked.environment.level
        if server.is_reached_from_outside and client.is_on_switch and not client.can_share_network:
            return finding(
                f"clients of kind {kind}",
                False,
                f"they hang on the lab's switch, and {level!r} is reached by its host's own network",
                'set clients.environment to "host", or to another machine that is reached by SSH',
            )
        if client.placement == "elsewhere":
            return finding(
                f"clients of kind {kind}",
                False,
                "only servers can be machines whose address is known once they run",
                'set clients.environment to "host", or to a machine of kind "ssh"',
            )
        if client.is_reached_from_outside and not server.is_reached_from_outside:
            return finding(
                f"clients of kind {kind}",
                False,
                f"they are on a network of their own, from which no way leads to {level!r}",
                'set clients.environment to "host"',
            )
        return None

    def _entry_point(self, asked: model.Resolved) -> model.Finding | None:
        """What a service lacks that the image is to start."""
        if all(service.start != "image" for service in asked.services.values()):
            return None
        if not self._asks and asked.server.brings_image:
            self.not_asked[f"image {asked.server.image}"] = None
            return None
        return _find_first_fatal(
            [check_provided(f"entry point of {asked.server.image}", lambda: find_process(asked.server.image))]
        )

    async def _check_between(
        self, asked: model.Resolved, host: _Host, clients_hosts: Mapping[str, _Host]
    ) -> model.Finding | None:
        others = site_resources.list_other_hosts(asked)
        if others and asked.link.each:
            return model.Finding(
                what="[link] each",
                ok=False,
                detail="a cable for one client alone does not reach another host",
                remedy="set link.each = false, or place servers and clients on one host",
            )
        is_direct, tunnel = asked.link.switch == "direct", asked.link.tunnel or "vxlan"
        for name in others:
            sites = host.site, clients_hosts[name].site
            key = ("direct" if is_direct else tunnel, host.site.name, name)
            if key not in self._checked:
                found = await (underlay.check_underlay(*sites) if is_direct else trunk.check_trunk(tunnel, *sites))
                self._checked[key] = _find_first_fatal([found])
            if (lacking := self._checked[key]) is not None:
                return lacking
        return None

    async def _check_capture(self, asked: model.Resolved, host: _Host) -> model.Finding | None:
        """What capturing outside of the servers, on their host, lacks. Machines of ours bring their own tcpdump."""
        capture = asked.observe.capture
        if capture is None or capture.inside or not asked.environment.description.is_on_switch:
            return None
        key = ("capture", host.site.name, "")
        if key not in self._checked:
            self._checked[key] = _find_first_fatal(await check_programs(host.site, {"tcpdump": "tcpdump"}))
        return self._checked[key]

    async def _find_host(self, name: str) -> _Host | model.Finding:
        if name not in self._hosts:
            try:
                self._refuse_unusable(name)
                site = await self._open_site(name)
                if site.spec is not None and not (free := await host_lock.check_holder(site)).ok:
                    self._hosts[name] = free.model_copy(update={"what": f"host {name}: {free.what}"})
                    return self._hosts[name]
                self._hosts[name] = _Host(
                    site, await list_available_cpus(site), await read_memory(site, "MemTotal"), await layout.read(site)
                )
            except HostCannot as error:
                # Which is not always the host itself: a jump host on the way there tells its own name.
                self._hosts[name] = _describe_unusable(error, error.where or f"host {name}")
        return self._hosts[name]

    def _refuse_unusable(self, name: str) -> None:
        """BadInput or HostCannot, with the place in the study, for what is seen to be wrong before a host answers."""
        spec = self._host_specs.get(name)
        if spec is None:
            return
        from nearmetal.lab.ssh.login import refuse_unusable  # for a study of this host alone it would load in vain

        if name in self._study.environments:
            refuse_unusable(spec, f"[environments.{name}]", "address")
        else:
            refuse_unusable(spec, f"[hosts.{name}]")

    async def _check_environment(
        self,
        environment: model.ResolvedEnvironment,
        specs: list[model.MachineSpec],
        host: _Host,
        asked: list[model.Finding],
        link: model.LinkSpec,
    ) -> model.Finding | None:
        """What machines of an environment lack on a host; `asked` is what they would have to get from it."""
        plugin = plugins.load("environments", environment.kind)
        described = environment.description
        if not described.is_on_switch and link != model.LinkSpec():
            return model.Finding(
                what="[link]",
                ok=False,
                detail=f"machines of {environment.level!r} do not hang on the lab's switch, so their link is not the "
                "lab's to shape",
                remedy="leave [link] out, or use an environment that the lab makes",
            )
        checked = []
        for spec in specs:
            if not self._asks and (foreign := find_foreign(environment, spec)):
                self.not_asked[foreign] = None
                continue
            key = (environment.level, host.site.name, spec.model_dump_json())
            if key not in self._checked:
                with plugins.blame_package("environments", environment.kind):
                    self._checked[key] = _find_first_fatal(await plugin.check(environment.spec, spec, host.site))
            checked.append(self._checked[key])
        is_sited = described.is_on_switch or described.host is not None
        return (_find_first_fatal(asked) if is_sited else None) or next(filter(None, checked), None)


_OWN_CHECKS: Mapping[str, frozenset[str]] = {
    "host": frozenset(),
    "docker": frozenset({"engine"}),
    "podman": frozenset({"engine"}),
    "qemu": frozenset({"machine"}),
    "libvirt": frozenset({"uri"}),
    model.PRETENDED: frozenset(),
}
"""Kinds whose checks stay on this host and run the programs that are installed here, unless one of these options says
otherwise: they name a socket, or words of a program's command line."""

_OWN_WORDS = ("vmm", "vmm_arguments", "kernel")
"""Keys of a machine by which a study names a program that would run, words for it, or a file to unpack."""


def find_foreign(environment: model.ResolvedEnvironment, spec: model.MachineSpec) -> str:
    """What of an environment cannot be checked without asking somebody else, or running what the study brings; ""."""
    level = environment.level
    options = _OWN_CHECKS.get(environment.kind)
    if options is None:
        return f"environment {level} (kind {environment.kind})"
    if given := sorted(key for key in options if environment.options.get(key) is not None):
        return f"environment {level} ({', '.join(f'{key} = {environment.options[key]!r}' for key in given)})"
    if own := [key for key in _OWN_WORDS if getattr(spec, key)]:
        return f"environment {level} ({', '.join(f'machine.{key}' for key in own)})"
    if spec.brings_image and environment.kind not in ("docker", "podman"):
        return f"image {spec.image}"
    return ""


def _describe_unusable(error: HostCannot, what: str) -> model.Finding:
    return model.Finding(what=what, ok=False, detail=error.what, remedy=error.remedy)


def _find_first_fatal(findings: list[model.Finding]) -> model.Finding | None:
    return next((one for one in findings if not one.ok and one.fatal), None)


def _check_cpus(named: str | None, usable: list[int], key: str) -> model.Finding:
    return finding(
        f"CPUs {named}",
        set(cpu_lists.parse(named or "")) <= set(usable),
        f"this host has {cpu_lists.show(usable)}",
        f"name CPUs of this host in {key}",
    )


def _check_memory(wanted: int, has: int) -> model.Finding:
    return finding(
        f"{show_size(wanted)} of memory",
        wanted <= has,
        f"this host has {show_size(has)}",
        "set machine.memory to less",
    )
