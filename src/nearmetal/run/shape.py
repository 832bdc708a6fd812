"""Who gets which CPUs of a site, and what packets may carry, by what treatments ask for. Pure."""

from collections.abc import Iterable

from nearmetal import cpu_lists
from nearmetal.asked import CLIENT_MEMORY, image_beside
from nearmetal.lab.cpus import sharing
from nearmetal.lab.cpus.layout import Layout
from nearmetal.lab.cpus.sharing import Share
from nearmetal.lab.machines import kernel
from nearmetal.lab.networks import network, trunk
from nearmetal.model import MachineSpec, Resolved


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
        least=resolved.clients.machine.vcpus if resolved.clients.machine and resolved.clients.has_own_cpus else 0,
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


def client(resolved: Resolved, shared: Share) -> MachineSpec:
    """A client beside machines under test: as the study says, else of the same image, on the CPUs that they leave."""
    clients = resolved.clients
    spec = clients.machine or MachineSpec(image=image_beside(resolved.server), memory=CLIENT_MEMORY)
    if clients.has_own_cpus:
        return spec
    return spec.model_copy(update={"vcpus": len(cpu_lists.parse(shared.clients))})


def client_cpus(resolved: Resolved, shared: Share) -> list[str]:
    """The cpuset of each client: the same for all, or as many CPUs as each is to have, in turn."""
    clients, cpus = resolved.clients, cpu_lists.parse(shared.clients)
    if not clients.has_own_cpus or clients.machine is None or not cpus:
        return [shared.clients] * clients.count
    each = clients.machine.vcpus
    return [
        cpu_lists.show(sorted({cpus[at % len(cpus)] for at in range(number * each, (number + 1) * each)}))
        for number in range(clients.count)
    ]
