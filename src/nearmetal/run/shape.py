"""Who gets which CPUs of a site, and what packets may carry, by what treatments ask for. Pure."""

from collections.abc import Iterable

from nearmetal import cpu_lists
from nearmetal.lab.cpus import sharing
from nearmetal.lab.cpus.layout import Layout
from nearmetal.lab.cpus.sharing import Share
from nearmetal.lab.machines import kernel
from nearmetal.lab.networks import network, trunk
from nearmetal.model import MachineSpec, Resolved

_CLIENT_MEMORY = 2**30
"""Bytes that a client may take: no study is about them, so it is as much as a load generator could ever need."""


def share(resolved: Resolved, available: list[int], layout: Layout, elsewhere: list[int] | None) -> Share:
    """Who gets which of a site's CPUs; `elsewhere` has the CPUs of the clients' site where that is another."""
    shared = sharing.share(
        available,
        resolved.server.vcpus,
        resolved.number_of_servers,
        resolved.server.cpus,
        resolved.clients.cpus,
        layout,
        kept_free=kernel.keeps_cpus(resolved.server),
        leave_last=resolved.server.alone,
    )
    return shared if elsewhere is None else Share(shared.servers, resolved.clients.cpus or cpu_lists.show(elsewhere))


def share_without_servers(resolved: Resolved, available: list[int]) -> Share:
    """The same where the servers are on none of our hosts: the clients' site is theirs alone."""
    return Share(("",) * resolved.number_of_servers, resolved.clients.cpus or cpu_lists.show(available))


def choose_mtu(resolved: Iterable[Resolved]) -> int:
    """What packets the machines of a study send: alike in all its treatments, so that only the factors differ."""
    hosts = set()
    for one in resolved:
        for host, environment in ((one.server.host, one.environment), (one.clients.host, one.clients.environment)):
            # Machines that are hosts of their own do not hang on a switch of the lab's.
            hosts.add(host if environment.description.host is None else "local")
    return network.MTU if len(hosts) == 1 else trunk.DATA_MTU


def is_across(resolved: Resolved) -> bool:
    """Whether servers and clients hang on the lab's switches of different hosts, so that a trunk has to join these."""
    both = (resolved.environment, resolved.clients.environment)
    return resolved.server.host != resolved.clients.host and all(one.description.is_on_switch for one in both)


def image_beside(spec: MachineSpec) -> str:
    """What whatever else takes part is made of: the servers' image, but for one of the user's own."""
    return MachineSpec().image if spec.brings_image else spec.image


def client(resolved: Resolved, shared: Share) -> MachineSpec:
    """A client beside machines under test: of the same image, on the CPUs that they leave."""
    image, vcpus = image_beside(resolved.server), len(cpu_lists.parse(shared.clients))
    return MachineSpec(image=image, vcpus=vcpus, memory=_CLIENT_MEMORY)
