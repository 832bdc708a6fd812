"""Whether what a machine may use of its host can be limited there: its CPUs and its memory, by control groups."""

from pathlib import Path

from nearmetal.lab import cgroup, rootless
from nearmetal.lab.cpus import layout
from nearmetal.lab.host_checks import check_cpus, finding
from nearmetal.model import Finding, MachineSpec, Site


async def check_limits(machine: MachineSpec, site: Site) -> list[Finding]:
    """Whether a site can limit a machine's CPUs and memory: a Finding on its CPUs, one on control groups."""
    usable = check_cpus(machine.vcpus, len(await layout.find_usable(machine, site)))
    if rootless.lacks_groups(site):
        return [usable, rootless.find_quota(machine)]
    parents = [str(Path(folder).parent) for folder in cgroup.name_group("x", await cgroup.find_version(site)).folders]
    has_groups = all([(await site.exec(["test", "-d", parent])).status == 0 for parent in parents])
    detail = f"{cgroup.ROOT} lacks the controllers cpuset, cpuacct or memory"
    return [usable, finding("control groups", has_groups, detail, "mount them, and boot without cgroup_disable")]
