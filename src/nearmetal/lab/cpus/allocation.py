"""Which CPUs of a site go to the machines under test and which to the clients. Pure."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field

from nearmetal.cpu_lists import parse, show
from nearmetal.lab.cpus.layout import UNKNOWN, Layout
from nearmetal.model import Warned


@dataclass(frozen=True)
class Share:
    """Cpuset of each server, and of all clients, in the kernel's notation."""

    servers: tuple[str, ...]
    clients: str
    """On the servers' host: what they leave."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Of the clients on each other host, by its name."""

    def of_clients(self, host: str) -> str:
        return self.elsewhere.get(host, self.clients)


def assign_cpus(
    available: list[int],
    vcpus: int,
    servers: int,
    server_cpus: str | None,
    client_cpus: str | None,
    layout: Layout = UNKNOWN,
    kept_free: bool = False,
    leave_last: bool = False,
    least: int = 0,
) -> Share:
    """Servers get the highest CPUs, each its own while there are enough; clients get what is left. docs/environments.md
    has the rules, of cores, nodes and kinds of CPUs too.

    The first CPU serves most of the host's interrupts, so it goes to a server last. With fewer CPUs than are asked for,
    servers overlap, and clients share with them.

    CPUs that the kernel keeps free go with `kept_free` to servers before all others, so that each has one as its last,
    on which is measured, wherever such a set can be had. Else, and to clients, only those of them go that are
    available, and only where the others are too few.

    With `leave_last` clients have none of the servers' last CPUs, on which is measured, if there are others. Clients
    that want `least` CPUs share the servers' too where fewer are left.
    """
    isolated = layout.isolated if kept_free else frozenset()
    ordinary = [cpu for cpu in available if cpu not in layout.isolated]
    has_enough = not kept_free and len(ordinary) >= vcpus * servers
    cores = _cores({*ordinary} if has_enough else {*layout.usable(available, kept_free)}, isolated, layout)
    cores = _cores_of_one_kind(cores, vcpus, servers, isolated, layout)
    sets: list[list[int]] = []
    taken: set[int] = set()
    for more in reversed(range(servers)):
        cpus = parse(server_cpus) if server_cpus is not None else _given(vcpus, cores, taken, isolated, more, layout)
        sets.append(cpus)
        taken.update(cpus)
    rest = [cpu for cpu in ordinary if cpu not in taken] or [cpu for cpu in available if cpu not in taken]
    whole = [cpu for cpu in rest if layout.core(cpu).isdisjoint(taken)]
    shared = ordinary or available
    left = [cpu for cpu in shared if not (leave_last and cpu in {max(cpus) for cpus in sets})]
    clients = parse(client_cpus) if client_cpus is not None else layout.keep_one_kind(whole or rest or left or shared)
    if client_cpus is None and len(clients) < least:
        others = [cpu for cpu in (*reversed(rest), *reversed(left), *reversed(shared)) if cpu not in clients]
        clients = sorted([*clients, *dict.fromkeys(others)][:least])
    return Share(tuple(show(cpus) for cpus in sets), show(clients))


def find_warnings(share: Share, layout: Layout) -> list[Warned]:
    """That clients have threads of a server's cores, or that either side has CPUs of several kinds.

    If clients have a server's very CPUs, the analysis says that.
    """
    servers = {cpu for cpus in share.servers for cpu in parse(cpus)}
    clients = set(parse(share.clients))
    beside = sorted(cpu for cpu in clients if layout.core(cpu) & servers)
    found = [
        Warned(code="cpu-kinds-mixed", text=f"{side} have CPUs of several kinds: {_list_kinds(cpus, layout)}")
        for side, cpus in (("servers", servers), ("clients", clients))
        if len(layout.name_kinds(cpus)) > 1
    ]
    if beside and not servers & clients:
        text = (
            f"a client may run on CPUs {show(beside)}, which are threads of the same cores as CPUs of the machine "
            "under test, so that each slows the other"
        )
        found.append(Warned(code="cores-shared", text=text))
    return found


def _list_kinds(cpus: Set[int], layout: Layout) -> str:
    return "; ".join(f"{show(sorted(cpus & kind))} ({name})" for name, kind in layout.kinds if cpus & kind)


def _cores_of_one_kind(
    cores: list[list[int]], vcpus: int, servers: int, isolated: Set[int], layout: Layout
) -> list[list[int]]:
    """Those that servers are to have: of the first kind with whole cores enough, else with CPUs enough, else all."""
    ends = min(servers, _can_end_in(isolated, sorted(_joined(cores)), vcpus))
    kinds = [[core for core in cores if core[0] in cpus] for _, cpus in layout.kinds]
    kinds = [kind for kind in kinds if kind and _can_end_in(isolated, _joined(kind), vcpus) >= ends]
    whole = [kind for kind in kinds if len(kind) // -(-vcpus // len(kind[0])) >= servers]
    fitting = [kind for kind in kinds if len(_joined(kind)) >= vcpus * servers]
    return next(iter((*whole, *fitting)), cores)


def _cores(usable: Set[int], first: Set[int], layout: Layout) -> list[list[int]]:
    """What can be used of each core, highest CPU first; that of the highest first, and that of the first CPU last."""
    cores = {layout.core(cpu) & usable for cpu in usable}
    order = sorted(cores, key=lambda core: (bool(core & first), min(core)), reverse=True)
    return [sorted(core, reverse=True) for core in order]


def _given(
    vcpus: int, cores: Sequence[list[int]], taken: Collection[int], isolated: Set[int], more: int, layout: Layout
) -> list[int]:
    """CPUs for one server: of whole cores of one node; of whole cores; of those that nobody has; of others'. Its last
    is isolated while that can be, in a way that takes this from none of the `more` servers to come."""
    nodes = defaultdict(list)
    for core in (untouched := [core for core in cores if layout.core(core[0]).isdisjoint(taken)]):
        nodes[layout.node(core[0])].append(core)
    everywhere = _joined(cores)
    left = [cpu for cpu in everywhere if cpu not in taken]
    ways = [*map(_joined, nodes.values()), _joined(untouched), left]
    if can_end := _can_end_in(isolated, left, vcpus):
        after = min(can_end - 1, more)
        ending = [_ending_in(isolated, cpus, more)[:vcpus] for cpus in ways]
        ending = [cpus for cpus in ending if len(cpus) == vcpus]
        spares = (cpus for cpus in ending if _can_end_in(isolated, {*left}.difference(cpus), vcpus) >= after)
        return next(spares, _highest_ending_in(isolated, left, after)[:vcpus])
    ways.append(_ending_in(isolated, everywhere, more))
    return next((cpus for cpus in ways if len(cpus) >= vcpus), everywhere)[:vcpus]


def _can_end_in(isolated: Set[int], cpus: Collection[int], vcpus: int) -> int:
    """How many servers can each have so many of these CPUs for itself, an isolated one as its last.

    Up to the last CPU of each there have to be as many as it has, and all that end before it. Counted upwards, one that
    can end is never in the way of those above.
    """
    servers = 0
    for upto, cpu in enumerate(sorted(cpus), 1):
        servers += cpu in isolated and upto >= (servers + 1) * vcpus
    return servers


def _ending_in(isolated: Set[int], cpus: Sequence[int], more: int) -> list[int]:
    """Those of them whose highest is isolated, that one first, and those last that servers to come may end in."""
    last, *others = sorted(isolated & set(cpus), reverse=True) or [-1]
    order = {last: 0} | dict.fromkeys(others[more:], 1) | dict.fromkeys(others[:more], 3)
    return sorted((cpu for cpu in cpus if cpu <= last), key=lambda cpu: order.get(cpu, 2))


def _highest_ending_in(isolated: Set[int], cpus: Sequence[int], more: int) -> list[int]:
    """The highest isolated one, and downwards those that `more` servers, which can, do not end in.

    Who takes the highest is in nobody's way: every other server ends lower, and can have none of these but as the rest.
    """
    last, *others = sorted(isolated & set(cpus), reverse=True)
    return [last, *sorted((cpu for cpu in cpus if cpu < last and cpu not in others[:more]), reverse=True)]


def _joined(cores: Sequence[list[int]]) -> list[int]:
    return [cpu for core in cores for cpu in core]
