"""How the CPUs of a site lie: which are threads of one core, which have one node's memory, which are kept free."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nearmetal import cpu_lists
from nearmetal.lab.machines.kernel import keeps_cpus
from nearmetal.lab.site import available_cpus, must
from nearmetal.model import Commands, MachineSpec

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

    def core(self, cpu: int) -> frozenset[int]:
        return next((core for core in self.cores if cpu in core), frozenset({cpu}))

    def node(self, cpu: int) -> frozenset[int]:
        return next((node for node in self.nodes if cpu in node), frozenset())

    def usable(self, available: Iterable[int], kept_free: bool) -> list[int]:
        """What a machine may be given: all that our processes may use; with `kept_free` what the kernel keeps, too."""
        return sorted({*available, *(self.isolated if kept_free else ())})


UNKNOWN = Layout()


async def read(commands: Commands) -> Layout:
    return parsed((await must(commands, "sh", "-c", _TOLD)).decode())


def parsed(text: str) -> Layout:
    """From lines of a kind (as `_TOLD` prints them) and its CPUs. Pure."""

    def of(kind: str) -> Iterator[frozenset[int]]:
        for line in text.splitlines():
            what, _, cpus = line.partition(" ")
            if what == kind and (found := frozenset(cpu_lists.parse(cpus))):  # a node may have memory and no CPUs
                yield found

    cores, nodes = (tuple(dict.fromkeys(of(kind))) for kind in ("core", "node"))
    return Layout(cores, nodes, frozenset().union(*of("isolated")) & frozenset().union(*of("online")))


async def usable(machine: MachineSpec, commands: Commands) -> list[int]:
    """CPUs of a site that a machine may be given: those kept free by its kernel only where it is to have such."""
    available, lie = await asyncio.gather(available_cpus(commands), read(commands))
    return lie.usable(available, keeps_cpus(machine))
