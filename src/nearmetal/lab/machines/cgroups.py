"""Where a machine's control groups lie on its site, whoever made them."""

from nearmetal.lab import cgroup, rootless
from nearmetal.lab.machines.init_process import ContainedMachine
from nearmetal.model import Machine, Site

_CONTROLLERS = ("cpuacct", "memory", "blkio", "pids")
"""Of version 1, those that count something."""

_EXISTING = """
for folder; do
    [ ! -d "$folder" ] || echo "$folder"
done
"""


async def folders(machine: Machine) -> list[str]:
    """The machine's own groups; none where it has none, such as a machine that is not ours."""
    site = machine.site
    if rootless.lacks_groups(site):
        return []  # that of whoever runs nearmetal is no machine's own
    version = await cgroup.find_version(site)
    named = cgroup.name_group(machine.name, version)
    own = await _existing((named.cpuacct, named.memory), site)
    if own or not isinstance(machine, ContainedMachine):
        return own
    ended = await site.exec(["cat", f"/proc/{machine.first.pid}/cgroup"])
    return await _existing(_of_lines(ended.text, version), site)


def _of_lines(text: str, version: int) -> list[str]:
    """From /proc/PID/cgroup, see cgroups(7). The root group is everybody's, and so is none of a machine's own."""
    counting = _CONTROLLERS if version == 1 else ("",)
    return [
        str(cgroup.ROOT / controller / path.lstrip("/"))
        for _, controllers, path in (line.split(":", 2) for line in text.splitlines())
        for controller in counting
        if path != "/" and controller in controllers.split(",")
    ]


async def _existing(wanted: tuple[str, ...] | list[str], site: Site) -> list[str]:
    ended = await site.exec(["sh", "-c", _EXISTING, "existing", *dict.fromkeys(wanted)])
    return ended.text.splitlines()
