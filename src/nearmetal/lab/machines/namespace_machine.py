"""Machines made of namespaces over a root filesystem, each held by `nearmetal-probe hold` as long as it lives.

The holder mounts an empty overlay over the root, and starts the machine's first process in namespaces of its own for
mounts, processes, host name, IPC and, unless it is to share its host's, the network. It ends with the process that
made it, or with its connection to the host: start it from a thread that lives as long as the machine shall.
"""

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence

from nearmetal.config import LIMITS
from nearmetal.errors import NotProvisioned, TimedOut
from nearmetal.lab import cgroup, machine_programs, probe
from nearmetal.lab.host_checks import finding
from nearmetal.lab.local_site import LocalSite, run_checked
from nearmetal.lab.machines.init_process import FirstProcess
from nearmetal.lab.machines.shared_kernel import SharedKernelMachine
from nearmetal.model import Completed, ControlGroup, Door, Finding, Handle, Running, Site, SiteRunning

_MOMENT = 1.0
"""Seconds in which a program ends that hears a signal."""

# What a machine writes lies in its folder, with a probe of its own, to which it may do what it likes: set-user-ID
# programs too, so the folder is root's alone. The mode of `upper` is that of the machine's `/`. Every program that is
# started here costs time.
_LAY_OUT = """
set -e
mkdir -p -m 700 -- "$2"
mkdir -m 755 -- "$2/upper" "$2/cgroup" "$2/cgroup/cpuset" "$2/cgroup/cpuacct" "$2/cgroup/memory" "$2/cgroup/cpu"
exec cp -- "$1" "$2/nearmetal-probe"
"""


# The first folder that is there, with the mount it lies on.
_FIND_MOUNT = """
folder=$1
while [ -n "$folder" ] && [ ! -e "$folder" ]; do folder=${folder%/*}; done
echo "${folder:-/}"
exec findmnt --noheadings --output FSTYPE,OPTIONS --target "${folder:-/}"
"""
_NO_UPPER = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "vfat", "exfat", "overlay"})
"""File systems that cannot hold what is written to an overlay: docs.kernel.org/filesystems/overlayfs.html, "Upper and
Lower". They lack its attributes or its kinds of files."""


async def check_scratch(site: Site) -> Finding:
    """Whether machines of a site can write where it has their files, and run programs from there."""
    ended = await site.exec(["sh", "-c", _FIND_MOUNT, "find-mount", site.state])
    lines = ended.text.splitlines()
    if ended.status != 0 or len(lines) < 2:
        return Finding(what="machines' files", ok=True)  # a system without such mounts: creating one will tell
    folder, (kind, options) = lines[0], lines[-1].split()
    why = None
    if kind in _NO_UPPER:
        why = f"an overlay cannot write to its file system, {kind}"
    elif "noexec" in options.split(","):
        why = "nothing on its file system may be run: it is mounted noexec"
    remedy = "name a folder on a disk of this host: NEARMETAL_HOME, or XDG_STATE_HOME"
    return finding("machines' files", why is None, f"{folder}: {why}", remedy)


async def make_scratch(folder: str, site: Site) -> None:
    """Make the folder of a site for all that a machine writes, as `start_holder` needs it. HostCannot."""
    await run_checked(site, "sh", "-c", _LAY_OUT, "lay-out", site.probe, folder)


async def start_holder(
    name: str,
    root: str,
    folder: str,
    group: ControlGroup,
    site: Site,
    *,
    own_network: bool = True,
    share: str | None = None,
) -> SiteRunning:
    """Start the holder of a machine over a root filesystem, in a control group; `find_first_process` tells it is up.

    `folder` is one that `make_scratch` made. `own_network`: a network namespace of its own, with a loopback that is
    down. `share`: a directory of the host to be seen inside, as "HOST:INSIDE". HostCannot.
    """
    hold = [
        *(("unshare", "--net", "--") if own_network else ()),
        *(site.probe, "hold", *site.bound),
        *("--root", root, "--scratch", folder, "--hostname", name[:63]),
        *("--bind", f"{folder}/nearmetal-probe:{probe.INSIDE}"),
        *(word for bind in _show_groups(folder, group) for word in ("--bind", bind)),
        *(("--bind-read-only", share) if share else ()),
        *group.joined,
    ]
    # What is in the environment of who runs nearmetal is nothing to the machine.
    return await site.spawn(machine_programs.build_env(hold))


async def find_first_process(holder: SiteRunning, name: str, site: Site) -> FirstProcess:
    """Wait until a holder's machine is up; its first process. NotProvisioned, with what the holder said."""
    try:
        line = await holder.first_line(LIMITS.command)
    except TimedOut:
        await holder.stop()
        raise NotProvisioned(f"it was not ready within {LIMITS.command:g} s", name) from None
    if not line:
        ended = await holder.wait(LIMITS.command)
        raise NotProvisioned(f"its holder ended with status {ended.status}: {ended.complaint[-2000:]}", name)
    first = await FirstProcess.of(int(json.loads(line)["pid"]), site)
    if first is None:
        raise NotProvisioned("its first process ended at once", name)
    return first


def _show_groups(folder: str, group: ControlGroup) -> list[str]:
    """Binds that show a machine its own control group where programs look for their limits, and no other."""
    if group.version == 0:
        return []
    if group.version == 2:
        return [f"{group.memory}:{cgroup.ROOT}"]
    shown = {"cpuset": group.cpuset, "cpuacct": group.cpuacct, "memory": group.memory, "cpu": group.cpu}
    own = (f"{directory}:{cgroup.ROOT}/{controller}" for controller, directory in shown.items() if directory)
    return [f"{folder}/cgroup:{cgroup.ROOT}", *own]


class HeldMachine(SharedKernelMachine):
    """A `Machine` that a holder made, in this control group. Its handle's `life` is its first process.

    Who inherits says what such a machine is `called`.
    """

    probe = probe.INSIDE

    def __init__(self, handle: Handle, group: ControlGroup, site: Site) -> None:
        super().__init__(handle, site)
        self._group = group

    async def group(self) -> ControlGroup:
        return self._group

    async def is_frozen(self) -> bool:
        """Whether its control group of version 2 stands still, by whose order ever."""
        if self._group.version != 2:
            return False
        return (await self.site.exec(["grep", "-q", "^frozen 1$", f"{self._group.memory}/cgroup.events"])).status == 0

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = LIMITS.command,
    ) -> Completed:
        await self.first.require(self.site, self.name)
        try:
            ended = await self.site.exec(self._launch(argv, env), stdin=stdin, timeout=timeout)
        except TimedOut:
            raise TimedOut(f"`{' '.join(argv)[:200]}` did not end within {timeout:g} s", self.name) from None
        await self.first.outlived(ended.status, self.site, self.name)
        return ended

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Running:
        await self.first.require(self.site, self.name)
        return _HeldRunning(self, await self.site.spawn(self._launch(argv, env)))

    def _launch(self, argv: Sequence[str], env: Mapping[str, str] | None) -> list[str]:
        return machine_programs.build_launch(self.site, argv, env, group=self._group, inside=self.first.pid)


class _HeldRunning:
    def __init__(self, on: HeldMachine, running: SiteRunning) -> None:
        self._on = on
        self._running = running

    async def wait(self, timeout: float) -> Completed:
        ended = await self._running.wait(timeout)
        await self._on.first.outlived(ended.status, self._on.site, self._on.name)
        return ended

    async def stop(self) -> Completed:
        stopping = asyncio.ensure_future(self._running.stop())
        await asyncio.wait([stopping], timeout=_MOMENT)
        if not stopping.done() and await self._on.is_frozen():
            # A frozen group of version 2 hears of SIGTERM no sooner than it is thawed, and of SIGKILL at once.
            await self._running.kill()
        return await stopping


def build_held_door(handle: Handle, group: ControlGroup) -> Door:
    """The way for people into a `HeldMachine` of this host. NotProvisioned if its creation was interrupted."""
    site, first = LocalSite(), FirstProcess.in_ledger(handle)

    def build_command(argv: Sequence[str], env: Mapping[str, str], terminal: bool) -> list[str]:
        # A terminal belongs to one session, and a machine's programs have their own: `script` gives one inside.
        inside = ["script", "-qec", shlex.join(argv), "/dev/null"] if terminal else argv
        return machine_programs.build_launch(site, inside, env, group=group, inside=first.pid)

    return Door(build_command)
