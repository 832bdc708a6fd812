"""How the CPUs of a site lie: which are threads of one core, which have one node's memory, which are kept free."""

import asyncio
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nearmetal import cpu_lists
from nearmetal.lab.local_site import list_available_cpus, run_checked
from nearmetal.lab.machines.kernel import keeps_cpus
from nearmetal.model import Commands, MachineSpec

_KIND = re.compile(r"\.\./cpu_(\w+)/cpus:(.+)")
_TRAIT = re.compile(r"cpu/cpu(\d+)/(cpu_capacity|cache/index3/size):(\d+)")
_FASTEST_FIRST = ("core", "atom", "lowpower")
"""Intel's kinds, by the names of their counters."""

# A program for each CPU would take its time, and the kernel does not tell some of these byte by byte, as shells read.
_TOLD = """
tell() {
    what=$1
    shift
    cat "$@" | while read -r list; do echo "$what $list"; done
}
cd /sys/devices/system
{
    tell core cpu/cpu[0-9]*/topology/thread_siblings_list
    tell node node/node[0-9]*/cpulist
    tell online cpu/online
    tell isolated cpu/isolated
    grep -H . ../cpu_*/cpus cpu/cpu[0-9]*/cpu_capacity cpu/cpu[0-9]*/cache/index3/size
} 2>/dev/null
true
"""


@dataclass(frozen=True)
class Layout:
    """Empty for what a kernel does not tell: then each CPU is a core, and all are of one node."""

    cores: tuple[frozenset[int], ...] = ()
    """The threads of each, by their numbers as CPUs."""
    nodes: tuple[frozenset[int], ...] = ()
    isolated: frozenset[int] = frozenset()
    """Those that are on, and that the kernel keeps free (isolcpus): our processes get there only when they are put."""

    kinds: tuple[tuple[str, frozenset[int]], ...] = ()
    """Name and CPUs of each kind, the fastest first, if this host has several."""

    def core(self, cpu: int) -> frozenset[int]:
        return next((core for core in self.cores if cpu in core), frozenset({cpu}))

    def node(self, cpu: int) -> frozenset[int]:
        return next((node for node in self.nodes if cpu in node), frozenset())

    def name_kinds(self, cpus: Iterable[int]) -> list[str]:
        """The kinds of CPU that these are of; none if all of this host are alike."""
        return [name for name, of_kind in self.kinds if of_kind.intersection(cpus)]

    def keep_one_kind(self, cpus: list[int]) -> list[int]:
        """Those of the kind that most of them are of; of the fastest among equals."""
        kinds = [[cpu for cpu in cpus if cpu in of_kind] for _, of_kind in self.kinds]
        return max(kinds, key=len, default=[]) or cpus

    def usable(self, available: Iterable[int], kept_free: bool) -> list[int]:
        """What a machine may be given: all that our processes may use; with `kept_free` what the kernel keeps, too."""
        return sorted({*available, *(self.isolated if kept_free else ())})


UNKNOWN = Layout()


async def read(commands: Commands) -> Layout:
    return parse_layout((await run_checked(commands, "sh", "-c", _TOLD)).decode())


def parse_layout(text: str) -> Layout:
    """From lines of a kind (as `_TOLD` prints them) and its CPUs. Pure."""

    def of(kind: str) -> Iterator[frozenset[int]]:
        for line in text.splitlines():
            what, _, cpus = line.partition(" ")
            if what == kind and (found := frozenset(cpu_lists.parse(cpus))):  # a node may have memory and no CPUs
                yield found

    cores, nodes = (tuple(dict.fromkeys(of(kind))) for kind in ("core", "node"))
    isolated = frozenset().union(*of("isolated")) & frozenset().union(*of("online"))
    return Layout(cores, nodes, isolated, _parse_kinds(text, cores))


def _parse_kinds(text: str, cores: tuple[frozenset[int], ...]) -> tuple[tuple[str, frozenset[int]], ...]:
    """By what the kernel calls a kind, its capacity and its cache; if it tells none of them, by a core's threads."""
    named = {cpu: found[1] for found in _KIND.finditer(text) for cpu in cpu_lists.parse(found[2])}
    traits = {(int(cpu), trait): int(value) for cpu, trait, value in _TRAIT.findall(text)}
    tells = bool(named) or len({value for (_, trait), value in traits.items() if trait == "cpu_capacity"}) > 1
    kinds: dict[tuple[int, int, int, int], tuple[str, set[int]]] = {}
    for core in cores:
        for cpu in core:
            name, capacity = named.get(cpu, ""), traits.get((cpu, "cpu_capacity"), 0)
            cache, threads = traits.get((cpu, "cache/index3/size"), 0), 0 if tells else len(core)
            rank = _FASTEST_FIRST.index(name) if name in _FASTEST_FIRST else len(_FASTEST_FIRST)
            words = (name, f"capacity {capacity}" * bool(capacity), f"L3 {cache} KiB" * bool(cache))
            threaded = f"{threads} thread{'s' * (threads > 1)} a core" * bool(threads)
            called = ", ".join(filter(None, (*words, threaded)))
            kinds.setdefault((rank, -capacity, -threads, -cache), (called, set()))[1].add(cpu)
    found = tuple((called, frozenset(cpus)) for _, (called, cpus) in sorted(kinds.items(), key=lambda item: item[0]))
    return found if len(found) > 1 else ()


async def find_usable(machine: MachineSpec, commands: Commands) -> list[int]:
    """CPUs of a site that a machine may be given: those kept free by its kernel only where it is to have such."""
    available, lie = await asyncio.gather(list_available_cpus(commands), read(commands))
    return lie.usable(available, keeps_cpus(machine))
