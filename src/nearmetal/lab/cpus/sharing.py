"""Which CPUs of a site go to the machines under test and which to the clients. Pure."""

from collections import defaultdict
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass

from nearmetal.cpu_lists import parse, show
from nearmetal.lab.cpus.layout import UNKNOWN, Layout
from nearmetal.model import Warned


@dataclass(frozen=True)
class Share:
    """Cpuset of each server, and of all clients, in the kernel's notation."""

    servers: tuple[str, ...]
    clients: str


def share(
    available: list[int],
    vcpus: int,
    servers: int,
    server_cpus: str | None,
    client_cpus: str | None,
    layout: Layout = UNKNOWN,
    kept_free: bool = False,
) -> Share:
    """Servers get the highest CPUs, each its own while there are enough; clients get what is left.

    Cores are handed out whole, and a server's are of one node, while there are enough: two threads of a core slow each
    other, so that one that a server leaves over goes to nobody. The first CPU serves most of the host's interrupts, so
    it goes to a server last. With fewer CPUs than are asked for, servers overlap, and clients share with them: the
    record of the trial shows it and the analysis warns.

    With `kept_free`, CPUs that the kernel keeps free go to servers before all others; to clients they never go.
    """
    isolated = layout.isolated if kept_free else frozenset()
    cores = _cores({*available, *isolated}, isolated, layout)
    sets: list[list[int]] = []
    taken: set[int] = set()
    for _ in range(servers):
        cpus = parse(server_cpus) if server_cpus is not None else _given(vcpus, cores, taken, layout)
        sets.append(cpus)
        taken.update(cpus)
    rest = [cpu for cpu in available if cpu not in taken]
    whole = [cpu for cpu in rest if layout.core(cpu).isdisjoint(taken)]
    clients = parse(client_cpus) if client_cpus is not None else (whole or rest or available)
    return Share(tuple(show(cpus) for cpus in sets), show(clients))


def warnings(share: Share, layout: Layout) -> list[Warned]:
    """That clients have threads of a server's cores; where they have its very CPUs, the analysis says that."""
    servers = {cpu for cpus in share.servers for cpu in parse(cpus)}
    clients = set(parse(share.clients))
    beside = sorted(cpu for cpu in clients if layout.core(cpu) & servers)
    if not beside or servers & clients:
        return []
    text = (
        f"a client may run on CPUs {show(beside)}, which are threads of the same cores as CPUs of the machine under "
        "test, so that each slows the other"
    )
    return [Warned(code="cores-shared", text=text)]


def _cores(usable: Set[int], first: Set[int], layout: Layout) -> list[list[int]]:
    """What can be used of each core, highest CPU first; that of the highest first, and that of the first CPU last."""
    cores = {layout.core(cpu) & usable for cpu in usable}
    order = sorted(cores, key=lambda core: (bool(core & first), min(core)), reverse=True)
    return [sorted(core, reverse=True) for core in order]


def _given(vcpus: int, cores: Sequence[list[int]], taken: Collection[int], layout: Layout) -> list[int]:
    """CPUs for one server: of whole cores of one node; of whole cores; of those that nobody has; of others'."""
    nodes = defaultdict(list)
    for core in (untouched := _untouched(cores, taken, layout)):
        nodes[layout.node(core[0])].append(core)
    everywhere = _joined(cores)
    left = [cpu for cpu in everywhere if cpu not in taken]
    ways = [*map(_joined, nodes.values()), _joined(untouched), left]
    return next((cpus for cpus in ways if len(cpus) >= vcpus), everywhere)[:vcpus]


def _untouched(cores: Sequence[list[int]], taken: Collection[int], layout: Layout) -> list[list[int]]:
    return [core for core in cores if layout.core(core[0]).isdisjoint(taken)]


def _joined(cores: Sequence[list[int]]) -> list[int]:
    return [cpu for core in cores for cpu in core]
