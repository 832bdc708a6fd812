"""The machines of a boot: who gets which CPUs, made on their sites, put on a stage."""

import asyncio
from collections.abc import Awaitable, Sequence

from nearmetal import cpu_lists
from nearmetal.lab import probe
from nearmetal.lab.cpus import allocation, layout
from nearmetal.lab.cpus.allocation import Share
from nearmetal.lab.lab import Lab
from nearmetal.lab.local_site import list_available_cpus
from nearmetal.lab.machines import kernel
from nearmetal.lab.networks import link, network
from nearmetal.lab.stage import LabStage, offsets
from nearmetal.model import Description, Handle, Machine, MachineSpec, ResolvedEnvironment, SharedNetwork, Site
from nearmetal.run import site_resources
from nearmetal.run.boot_state import ProvisionedBoot
from nearmetal.run.boot_surroundings import Neighbour
from nearmetal.study.treatment_request import image_beside

NEIGHBOURHOOD = ResolvedEnvironment(
    level="host",
    kind="host",
    options={},
    provision="boot",
    description=Description(family="metal", kernel="host", placement="switch"),
)
"""What a server's neighbours are."""


async def share_out(booted: ProvisionedBoot, lab: Lab) -> Share:
    """Who gets which CPUs of the site. Warns of cores that both sides have, and of CPUs of several kinds on one."""
    host, others = booted.spec.host, set(booted.asked.clients.places)
    if booted.asked.environment.description.placement == "elsewhere":
        free = {name: await list_available_cpus(await lab.site(name)) for name in others}
        return site_resources.share_without_servers(booted.asked, free)
    site = await lab.site(host)
    available, lie = await asyncio.gather(list_available_cpus(site), layout.read(site))
    booted.layouts[host] = lie
    elsewhere = {}
    for name in others - {host}:
        clients = await lab.site(name)
        booted.layouts[name] = await layout.read(clients)
        elsewhere[name] = booted.layouts[name].keep_one_kind(await list_available_cpus(clients))
    share = site_resources.share_cpus(booted.asked, available, lie, elsewhere)
    if host in others and not booted.asked.environment.is_pretended:
        booted.warnings += allocation.find_warnings(share, lie)
    return share


async def make_servers(booted: ProvisionedBoot, share: Share, lab: Lab) -> list[Handle]:
    site = await lab.site(booted.spec.host)
    hung = link.choose_bridge(booted.asked.link, "server")
    creations = [
        lab.create(booted.asked.environment, booted.spec, "server", cpuset, site, hung) for cpuset in share.servers
    ]
    return await _make_all(booted, share.servers, creations)


async def make_clients(booted: ProvisionedBoot, share: Share, lab: Lab, servers: Sequence[Machine]) -> list[Handle]:
    """`servers` are needed where only they can tell which way leads to them."""
    asked = booted.asked.clients
    sites = {host: await lab.site(host) for host in dict.fromkeys(asked.places)}
    shared = {host: await _find_shared_network(booted, site, lab, servers) for host, site in sites.items()}
    hung = link.choose_bridge(booted.asked.link, "client")
    cpusets = site_resources.client_cpus(booted.asked, share)
    creations = []
    for host, cpuset in zip(asked.places, cpusets, strict=True):
        spec = site_resources.make_client_spec(booted.asked, share.of_clients(host)).model_copy(update={"host": host})
        creations.append(lab.create(asked.environment, spec, "client", cpuset, sites[host], hung, shared[host]))
    return await _make_all(booted, cpusets, creations)


async def _find_shared_network(
    booted: ProvisionedBoot, clients: Site, lab: Lab, servers: Sequence[Machine]
) -> SharedNetwork | None:
    """The clients' site's own network, where that is the way to servers that do not hang on the lab's switch."""
    if not booted.asked.environment.description.is_reached_from_outside:
        return None
    address = servers[0].address if servers else str((await lab.site(booted.spec.host)).underlay)
    return await network.find_route(address, clients)


async def start_neighbours(booted: ProvisionedBoot, share: Share, lab: Lab) -> None:
    """Start what goes on beside each server, on its CPUs."""
    site = await lab.site(booted.spec.host)
    for cpuset in share.servers:
        for argv in booted.spec.neighbours:
            spec = MachineSpec(image=image_beside(booted.spec), vcpus=len(cpu_lists.parse(cpuset)), memory=2**30)
            (handle,) = await _make_all(
                booted, [cpuset], [lab.create(NEIGHBOURHOOD, spec, "neighbour", cpuset, site, None)]
            )
            neighbour = await lab.attach(handle)
            booted.surroundings.neighbours.append(Neighbour(argv, await neighbour.spawn(argv)))


async def _make_all(
    booted: ProvisionedBoot, cpusets: Sequence[str], creations: Sequence[Awaitable[Handle]]
) -> list[Handle]:
    """Make several machines at once. What was made is remembered for tearing down also when one of them fails."""
    made = await asyncio.gather(*creations, return_exceptions=True)
    handles = [handle for handle in made if isinstance(handle, Handle)]
    booted.handles += handles
    for handle, cpuset in zip(made, cpusets, strict=True):
        if isinstance(handle, BaseException):
            raise handle
        booted.cpusets[handle.name] = cpuset
    return handles


async def make_stage(
    booted: ProvisionedBoot, lab: Lab, servers: list[Machine], client_handles: list[Handle]
) -> LabStage:
    clients = await asyncio.gather(*(lab.attach(handle) for handle in client_handles))
    machines = [*servers, *clients]
    await asyncio.gather(*(probe.ensure(machine) for machine in machines))
    # Several clients begin together, and no trial is to pay for comparing their clocks. Whoever else is to begin with
    # another is looked at when that is asked for.
    timed = machines if len(clients) > 1 else ()
    return LabStage(
        servers=tuple(servers),
        clients=tuple(clients),
        sites=dict(lab.sites),
        spec=booted.spec,
        link=booted.asked.link,
        connect=booted.asked.clients.connect,
        cpus={machine.name: _number_cpus(machine, booted) for machine in machines},
        ports={name: one.port for name, one in booted.asked.services.items() if one.port is not None},
        offsets=await offsets(timed),
    )


def _number_cpus(machine: Machine, booted: ProvisionedBoot) -> list[int]:
    """A machine's CPUs by its own numbers: with a kernel of its own it counts from 0, else as the host does."""
    given = cpu_lists.parse(booted.cpusets[machine.name])
    if given and kernel.is_its_hosts(machine):
        return given
    clients = booted.asked.clients
    spec = booted.spec if machine.role == "server" else clients.machine if clients.has_own_cpus else None
    return list(range(spec.vcpus if spec else len(given)))
