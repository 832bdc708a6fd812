"""Which kernel a machine runs on, as its boot_id tells. Pure.

A machine with a kernel of its own shows that kernel's boot_id. One without shows that of the kernel it shares, a "+",
and what tells it apart from its neighbours (see identity.py).
"""

from nearmetal.model import Machine, MachineSpec, Site


def boot_of(machine: Machine | Site) -> str:
    """The boot_id of the kernel alone."""
    return machine.boot_id.partition("+")[0]


def is_shared(one: Machine, other: Machine) -> bool:
    """By two machines: they then have one clock, and count the same CPUs."""
    return boot_of(one) == boot_of(other)


def is_its_hosts(machine: Machine) -> bool:
    return boot_of(machine) == machine.site.boot_id


def keeps_cpus(machine: MachineSpec) -> bool:
    return any(word.startswith("isolcpus=") for word in machine.kernel_arguments)
