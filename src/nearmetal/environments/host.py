"""The host itself as an environment: the image's root filesystem in namespaces of its own, on the host's kernel.

What "boot" means here: a fresh set of namespaces (mounts, processes, host name, IPC, network), a fresh control group
and an empty overlay over the image's files. The kernel is not booted, so its boot_id alone would be the same for
every machine: ours is the kernel's, "+", and the identity of the machine's first process (pid and start time in clock
ticks, which no two processes share while a kernel runs).

A machine that is not to hang on the lab's switch has the network of its host instead of one of its own: so do the
clients of servers that are reached by that network, and the image as a chroot on a machine of the user's.

A machine lives as long as its holder, `nearmetal-probe hold`, which ends with the process that made it, or with its
connection to the host; create it from a thread that lives as long as the machine shall.
"""

import asyncio
import contextlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from nearmetal.config import LIMITS
from nearmetal.errors import MachineLost, NotProvisioned, TimedOut
from nearmetal.lab import cgroup, probe
from nearmetal.lab import machine as lab_machine
from nearmetal.lab.cpus import layout
from nearmetal.lab.findings import enough_cpus, finding, programs, provided
from nearmetal.lab.image import placed
from nearmetal.lab.machines import share as shares
from nearmetal.lab.machines.identity import FirstProcess
from nearmetal.lab.machines.shared_kernel import SharedKernelMachine, isolation_found
from nearmetal.lab.networks import network
from nearmetal.lab.site import LocalSite, must
from nearmetal.model import (
    VIRTUAL_HARDWARE,
    Completed,
    ControlGroup,
    Description,
    Door,
    EnvironmentSpec,
    Finding,
    Frozen,
    Handle,
    MachineSpec,
    Order,
    Provision,
    Recorder,
    Running,
    Site,
    SiteRunning,
)

_REMOVING = 120.0
"""Seconds for deleting all that a machine wrote."""

# What a machine writes lies in its folder, with a probe of its own, to which it may do what it likes: set-user-ID
# programs too, so the folder is root's alone. The mode of `upper` is that of the machine's `/`. Every program that is
# started here costs time.
_LAY_OUT = """
set -e
mkdir -p -m 700 -- "$2"
mkdir -m 755 -- "$2/upper" "$2/cgroup" "$2/cgroup/cpuset" "$2/cgroup/cpuacct" "$2/cgroup/memory" "$2/cgroup/cpu"
exec cp -- "$1" "$2/nearmetal-probe"
"""


class HostEnvironment:
    kind: ClassVar[str] = "host"
    Options: ClassVar[type[Frozen]] = Frozen
    provisions: ClassVar[tuple[Provision, ...]] = ("boot",)
    typical_ready: ClassVar[float] = 0.3

    def __init__(self) -> None:
        self._holders: dict[str, SiteRunning] = {}
        """By machine name."""

    def describe(self, options: Mapping[str, Any], spec: MachineSpec) -> Description:
        return Description(
            family="metal",
            kernel="host",
            placement="switch",
            can_share_network=True,
            ignores=tuple(sorted(VIRTUAL_HARDWARE)),
        )

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        user = (await must(site, "id", "-u")).decode().strip()
        packages = {**network.TOOLS, "unshare": "util-linux", "tar": "tar"}
        return [
            finding("root", user == "0", "namespaces and control groups take root", "run nearmetal as root"),
            *await programs(site, packages),
            provided("probe", probe.path),
            lab_machine.image_found(machine.image),
            *await limits_found(machine, site),
            *await isolation_found(machine, site),
            *await shares.findings(machine, site),
        ]

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        """Nothing: its kernel makes them."""
        return {}

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """On another host the image's files are sent once; here they are used where they lie."""
        await placed.root(lab_machine.image(machine.image), site)

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        root = await placed.root(lab_machine.image(order.spec.image), site)
        folder = f"{site.state}/machines/{order.name}"
        handle = lab_machine.handle_of(self.kind, order, site, folder=folder)
        ledger.creating(handle)
        laid_out = asyncio.create_task(must(site, "sh", "-c", _LAY_OUT, "lay-out", site.probe, folder))
        try:
            group = await cgroup.create(order.name, order.spec, order.cpus, site, limit_memory=True)
        finally:
            await laid_out
        pid = await self._hold(order, root, folder, group, site)
        if order.port:
            await network.plug_veth(order.port, pid, site)
        first = await FirstProcess.of(pid, site)
        if first is None:
            raise NotProvisioned("its first process ended at once", order.name)
        whole = handle.knowing(life=first.life, data={"group": asdict(group)})
        ledger.creating(whole)
        return whole

    async def _hold(self, order: Order, root: str, folder: str, group: ControlGroup, site: Site) -> int:
        """Start the holder; the pid of the machine's first process. NotProvisioned with what it said."""
        name = order.name
        hold = [
            *(() if order.shared else ("unshare", "--net", "--")),
            *(site.probe, "hold", *site.bound),
            *("--root", root, "--scratch", folder, "--hostname", name[:63]),
            *("--bind", f"{folder}/nearmetal-probe:{probe.INSIDE}"),
            *(word for bind in _show_groups(folder, group) for word in ("--bind", bind)),
            *(("--bind-read-only", order.spec.share) if order.spec.share else ()),
            *group.joined,
        ]
        # What is in the environment of who runs nearmetal is nothing to the machine.
        holder = self._holders[name] = await site.spawn(lab_machine.by_env(hold))
        try:
            line = await holder.first_line(LIMITS.command)
        except TimedOut:
            await holder.stop()
            raise NotProvisioned(f"it was not ready within {LIMITS.command:g} s", name) from None
        if not line:
            ended = await holder.wait(LIMITS.command)
            raise NotProvisioned(f"its holder ended with status {ended.status}: {ended.complaint[-2000:]}", name)
        return int(json.loads(line)["pid"])

    async def attach(self, handle: Handle, site: Site) -> "HostMachine":
        attached = HostMachine(handle, site)
        if not await attached.first.is_alive(site):
            raise NotProvisioned("its first process is gone", handle.name)
        return attached

    async def open_door(self, handle: Handle) -> Door:
        site, first, group = LocalSite(), FirstProcess.in_ledger(handle), ControlGroup(**handle.data["group"])

        def build_command(argv: Sequence[str], env: Mapping[str, str], terminal: bool) -> list[str]:
            # A terminal belongs to one session, and a machine's programs have their own: `script` gives one inside.
            inside = ["script", "-qec", shlex.join(argv), "/dev/null"] if terminal else argv
            return _launched(inside, env, first, group, site)

        return Door(build_command)

    async def destroy(self, handle: Handle, site: Site) -> None:
        await cgroup.remove(handle.name, site)
        holder = self._holders.pop(handle.name, None)
        if holder:
            # One that ended with its connection cannot tell.
            with contextlib.suppress(MachineLost):
                await holder.wait(LIMITS.stop)
        await network.unplug(handle.port, site)
        await must(site, "rm", "-rf", "--", handle.data["folder"], timeout=_REMOVING)


async def limits_found(machine: MachineSpec, site: Site) -> list[Finding]:
    """Whether a machine's CPUs and memory can be limited on a site."""
    return [
        enough_cpus(machine.vcpus, len(await layout.usable(machine, site))),
        finding(
            "control groups",
            await _has_groups(site),
            f"{cgroup.ROOT} lacks the controllers cpuset, cpuacct or memory",
            "mount them, and boot without cgroup_disable",
        ),
    ]


async def _has_groups(site: Site) -> bool:
    parents = [str(Path(folder).parent) for folder in cgroup.named("x", await cgroup.version(site)).folders]
    return all([(await site.exec(["test", "-d", parent])).status == 0 for parent in parents])


def _show_groups(folder: str, group: ControlGroup) -> list[str]:
    """Binds that show a machine its own control group where programs look for their limits, and no other."""
    if group.version == 2:
        return [f"{group.memory}:{cgroup.ROOT}"]
    shown = {"cpuset": group.cpuset, "cpuacct": group.cpuacct, "memory": group.memory}
    if group.cpu:
        shown["cpu"] = group.cpu
    return [
        f"{folder}/cgroup:{cgroup.ROOT}",
        *(f"{directory}:{cgroup.ROOT}/{controller}" for controller, directory in shown.items()),
    ]


def _launched(
    argv: Sequence[str], env: Mapping[str, str] | None, first: FirstProcess, group: ControlGroup, site: Site
) -> list[str]:
    """The command of the site by which a program runs in a machine."""
    return lab_machine.launch(site.probe, argv, env, *site.bound, "--enter", str(first.pid), *group.joined)


class HostMachine(SharedKernelMachine):
    """A `Machine` of processes on the host's own kernel."""

    called = "a machine of kind 'host'"
    probe = probe.INSIDE

    def __init__(self, handle: Handle, site: Site) -> None:
        super().__init__(handle, site)
        self._group = ControlGroup(**handle.data["group"])

    async def group(self) -> ControlGroup:
        return self._group

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
        return _HostRunning(self, await self.site.spawn(self._launch(argv, env)))

    def _launch(self, argv: Sequence[str], env: Mapping[str, str] | None) -> list[str]:
        return _launched(argv, env, self.first, self._group, self.site)


class _HostRunning:
    def __init__(self, on: HostMachine, running: Running) -> None:
        self._on = on
        self._running = running

    async def wait(self, timeout: float) -> Completed:
        ended = await self._running.wait(timeout)
        await self._on.first.outlived(ended.status, self._on.site, self._on.name)
        return ended

    async def stop(self) -> Completed:
        return await self._running.stop()


plugin = HostEnvironment()
