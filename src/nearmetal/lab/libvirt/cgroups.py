"""The control group that libvirt has made for a domain: its QEMU's, whose threads are in others below it."""

import re

from nearmetal.model import ControlGroup, Site

_OF_THREADS = re.compile(r"/(?:emulator|(?:vcpu|iothread)\d+)$")
# Groups of threads refuse to list processes, which those above them do for them.
_MEMBERS = """
[ -e "$1/memory.stat" ] && find "$1" -name cgroup.procs -exec cat {} + 2>/dev/null
true
"""


def find_domain_group(group: ControlGroup) -> ControlGroup:
    """The group of the whole domain, from that of its first thread. Pure."""
    cpuset, cpuacct, memory, cpu = (
        _OF_THREADS.sub("", folder) for folder in (group.cpuset, group.cpuacct, group.memory, group.cpu)
    )
    return ControlGroup(cpuset, cpuacct, memory, group.version, cpu)


async def is_own(group: ControlGroup, pid: int, site: Site) -> bool:
    """Whether memory is counted there, of that process and nobody else's: libvirt may have been told to make none."""
    listed = await site.exec(["sh", "-c", _MEMBERS, "members", group.memory])
    return set(listed.text.split()) == {str(pid)}
