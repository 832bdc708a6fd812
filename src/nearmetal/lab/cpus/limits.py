"""Whether what a machine may use of its host can be limited there: its CPUs and its memory, by control groups."""

from nearmetal.lab import cgroup, rootless
from nearmetal.lab.cpus import layout
from nearmetal.lab.host_checks import check_cpus
from nearmetal.model import Finding, MachineSpec, Site


async def check_limits(machine: MachineSpec, site: Site) -> list[Finding]:
    """Whether a site can limit a machine's CPUs and memory: a Finding on its CPUs, one on control groups."""
    usable = check_cpus(machine.vcpus, len(await layout.find_usable(machine, site)))
    if rootless.lacks_groups(site):
        return [usable, rootless.find_quota(machine)]
    return [usable, await cgroup.check_groups(site)]
