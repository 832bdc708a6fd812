"""Who gets which CPUs of a site, and what packets may carry, by what treatments ask for. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from nearmetal import cpu_lists
from nearmetal.lab.cpus import allocation
from nearmetal.lab.cpus.allocation import Share
from nearmetal.lab.cpus.layout import Layout
from nearmetal.lab.machines import kernel
from nearmetal.lab.networks import network, trunk
from nearmetal.model import MachineSpec, Resolved
from nearmetal.study.treatment_request import CLIENT_MEMORY, image_beside


def is_pretended(resolved: Iterable[Resolved]) -> bool:
    """Whether nothing of a plan touches a host."""
    return all(one.is_pretended for one in resolved)


def share_cpus(resolved: Resolved, available: list[int], layout: Layout, elsewhere: Mapping[str, list[int]]) -> Share:
    """Who gets which of a site's CPUs; `elsewhere` has those of each other host of clients, by its name."""
    has_clients_there = resolved.server.host in resolved.clients.places
    shared = allocation.assign_cpus(
        available,
        resolved.server.vcpus,
        resolved.number_of_servers,
        resolved.server.cpus,
        resolved.clients.cpus if has_clients_there else None,
        layout,
        kept_free=kernel.keeps_cpus(resolved.server),
        leave_last=resolved.server.alone,
        least=resolved.clients.machine.vcpus if resolved.clients.machine and resolved.clients.has_own_cpus else 0,
    )
    return Share(shared.servers, shared.clients, _share_elsewhere(resolved, elsewhere))


def share_without_servers(resolved: Resolved, elsewhere: Mapping[str, list[int]]) -> Share:
    """Who gets which CPUs if the servers are on none of our hosts: the clients have their hosts alone."""
    return Share(("",) * resolved.number_of_servers, "", _share_elsewhere(resolved, elsewhere))


def _share_elsewhere(resolved: Resolved, elsewhere: Mapping[str, list[int]]) -> Mapping[str, str]:
    return {host: resolved.clients.cpus or cpu_lists.show(cpus) for host, cpus in elsewhere.items()}


def choose_mtu(resolved: Sequence[Resolved]) -> int | None:
    """What packets the machines of a study send: alike in all its treatments, so that only the factors differ.

    None if that is as much as the interfaces carry by which the hosts of `list_direct` reach each other.
    """
    hosts = set()
    for one in resolved:
        placed = [(one.server.host, one.environment), *((host, one.clients.environment) for host in one.clients.places)]
        for host, environment in placed:
            # Machines that are hosts of their own do not hang on a switch of the lab's.
            hosts.add(host if environment.description.host is None else "local")
    if len(hosts) == 1:
        return network.MTU
    is_tunnelled = any(one.link.switch != "direct" and list_other_hosts(one) for one in resolved)
    return None if list_direct(resolved) and not is_tunnelled else trunk.DATA_MTU


def list_direct(resolved: Sequence[Resolved]) -> list[tuple[str, Sequence[str]]]:
    """The servers' host and those of clients, of each treatment that joins them by nothing but their own network."""
    return [
        (one.server.host, hosts) for one in resolved if one.link.switch == "direct" and (hosts := list_other_hosts(one))
    ]


def list_hosts(resolved: Iterable[Resolved]) -> set[str]:
    return {name for one in resolved for name in (one.server.host, *one.clients.places)}


def list_other_hosts(resolved: Resolved) -> list[str]:
    """Hosts of clients, each once, on whose switches no server hangs, so that a trunk has to join these."""
    both = (resolved.environment, resolved.clients.environment)
    others = [host for host in dict.fromkeys(resolved.clients.places) if host != resolved.server.host]
    return others if all(one.description.is_on_switch for one in both) else []


def make_client_spec(resolved: Resolved, cpus: str) -> MachineSpec:
    """A client: as the study says, else of the servers' image, on all CPUs that clients have on its host."""
    clients = resolved.clients
    spec = clients.machine or MachineSpec(image=image_beside(resolved.server), memory=CLIENT_MEMORY)
    if clients.has_own_cpus:
        return spec
    return spec.model_copy(update={"vcpus": len(cpu_lists.parse(cpus))})


def client_cpus(resolved: Resolved, shared: Share) -> list[str]:
    """The cpuset of each client: the same for all of a host, or as many CPUs as each is to have, in turn."""
    clients = resolved.clients
    before: Counter[str] = Counter()
    found = []
    for host in clients.places:
        cpus = cpu_lists.parse(shared.of_clients(host))
        if clients.has_own_cpus and clients.machine is not None and cpus:
            first = before[host] * clients.machine.vcpus
            cpus = sorted({cpus[at % len(cpus)] for at in range(first, first + clients.machine.vcpus)})
        before[host] += 1
        found.append(cpu_lists.show(cpus))
    return found
