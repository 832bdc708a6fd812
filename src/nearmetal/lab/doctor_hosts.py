"""What each host of a lab can. All are asked at once, and nothing is made on them but for the probe."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import aclosing
from typing import Any

from nearmetal import plugins
from nearmetal.errors import NearmetalError, message_of
from nearmetal.lab.clocks import compare_clock
from nearmetal.lab.doctor import DISK_NEEDED, Diagnosis, HostDiagnosis
from nearmetal.lab.host_checks import check_programs, describe_place, finding
from nearmetal.lab.local_site import list_available_cpus, read_memory, run_checked
from nearmetal.lab.networks import trunk
from nearmetal.lab.site_registry import Sites
from nearmetal.model import PRETENDED, EnvironmentSpec, Finding, HostSpec, MachineSpec, Site
from nearmetal.units import show_duration, show_size

LOGIN, WAY = "login", "way"
"""What every host needs, besides the environment `host`: that we get in, and a tunnel from where servers are."""


async def examine_hosts(hosts: Mapping[str, HostSpec]) -> Diagnosis:
    """Each host, and the way to it from where servers go: the first host with that role, else this one."""
    async with aclosing(Sites(hosts)) as open_site:
        reached = dict(zip(hosts, await asyncio.gather(*(_reach(name, open_site) for name in hosts)), strict=True))
        hub = next((name for name, host in hosts.items() if "server" in host.roles), "local")
        center = reached[hub] if hub in reached else await open_site("local")
        found = await asyncio.gather(*(_examine(reached[name], None if name == hub else center) for name in hosts))
    examined = tuple(
        HostDiagnosis(name=name, ssh=host.ssh, roles=host.roles, tags=host.tags, findings=findings)
        for (name, host), findings in zip(hosts.items(), found, strict=True)
    )
    return Diagnosis.of([one for host in examined for one in host.findings]).model_copy(
        update={"findings": (), "hosts": examined}
    )


async def _reach(name: str, open_site: Sites) -> Site | Finding:
    try:
        return await open_site(name)
    except NearmetalError as error:
        return Finding(what=LOGIN, ok=False, detail=describe_place(error), remedy=error.remedy or "see that it answers")


async def _examine(site: Site | Finding, center: Site | Finding | None) -> tuple[Finding, ...]:
    if isinstance(site, Finding):
        return (site,)
    environments = list(_list_environments())  # before there is anything to be awaited: a plugin may fail
    checks: list[tuple[str, Coroutine[Any, Any, Finding]]] = [
        ("CPUs", _count_cpus(site)),
        ("memory", _count_memory(site)),
        ("clock", _compare_clock(site)),
        ("space", _find_space(site)),
        ("kvm", _find_kvm(site)),
        ("captures", _find_tcpdump(site)),
        ("gre", _find_gre(site)),
        *([(WAY, _find_way(center, site))] if center is not None else []),
        *((name, _check_environment(name, site)) for name in environments),
    ]
    told = await asyncio.gather(*(_ask(what, check) for what, check in checks))
    return (Finding(what=LOGIN, ok=True), *told)


async def _ask(what: str, check: Coroutine[Any, Any, Finding]) -> Finding:
    try:
        found = await check
    except NearmetalError as error:
        found = Finding(what=what, ok=False, detail=describe_place(error), remedy=error.remedy)
    except Exception as error:  # it may be anybody's, and raise anything
        found = Finding(what=what, ok=False, detail=message_of(error))
    return found.model_copy(update={"what": what, "fatal": what in (WAY, "host")})


async def _find_way(center: Site | Finding, site: Site) -> Finding:
    if isinstance(center, Finding):
        return Finding(what=WAY, ok=False, detail="the servers' host is not reached")
    return await trunk.check_trunk("vxlan", center, site)


def _list_environments() -> Iterator[str]:
    """Kinds whose machines we make and that take no option."""
    for name in plugins.list_names("environments"):
        environment = plugins.load("environments", name)
        is_free = not any(field.is_required() for field in environment.Options.model_fields.values())
        if name != PRETENDED and is_free and environment.describe({}, MachineSpec()).is_on_switch:
            yield name


async def _check_environment(name: str, site: Site) -> Finding:
    found = await plugins.load("environments", name).check(EnvironmentSpec(kind=name), MachineSpec(), site)
    lacking = next((one for one in found if not one.ok and one.fatal), None)
    if lacking is None:
        return Finding(what=name, ok=True)
    detail = f"{lacking.what}: {lacking.detail}" if lacking.detail else lacking.what
    return lacking.model_copy(update={"detail": detail})


async def _count_cpus(site: Site) -> Finding:
    return Finding(what="", ok=True, detail=str(len(await list_available_cpus(site))))


async def _count_memory(site: Site) -> Finding:
    return Finding(what="", ok=True, detail=show_size(await read_memory(site, "MemAvailable")))


async def _compare_clock(site: Site) -> Finding:
    clock = await compare_clock(site)
    ahead, unsure = (show_duration(abs(ns) / 1e9) for ns in (clock.ahead_ns, clock.uncertainty_ns))
    detail = f"{'-' if clock.ahead_ns < 0 else '+'}{ahead} ± {unsure}"
    remedy = "keep the clocks of all hosts by NTP or PTP; starts are corrected by what is measured"
    return Finding(what="", ok=abs(clock.ahead_ns) <= 60e9, detail=detail, remedy=remedy)


async def _find_space(site: Site) -> Finding:
    told = (await run_checked(site, "df", "-P", "-k", "/var")).decode().splitlines()[-1].split()
    free = int(told[3]) * 1024
    detail = f"{show_size(free)} are free below /var"
    return finding("", free >= DISK_NEEDED, detail, f"free {show_size(DISK_NEEDED)} there")


async def _find_kvm(site: Site) -> Finding:
    ended = await site.exec(["test", "-r", "/dev/kvm", "-a", "-w", "/dev/kvm"])
    remedy = "enable virtualization in the firmware; modprobe kvm. Without it guests are emulated by tcg"
    return finding("", ended.status == 0, "there is no /dev/kvm to open", remedy)


async def _find_tcpdump(site: Site) -> Finding:
    (found,) = await check_programs(site, {"tcpdump": "tcpdump"})
    return found


async def _find_gre(site: Site) -> Finding:
    return finding("", await trunk.kernel_has("gre", site), "the kernel has no GRE", 'keep link.tunnel = "vxlan"')
