"""The host itself as an environment: the image's root filesystem in namespaces of its own, on the host's kernel.

What "boot" means here: a fresh set of namespaces (mounts, processes, host name, IPC, network), a fresh control group
and an empty overlay over the image's files. The kernel is not booted, so its boot_id alone would be the same for
every machine: ours is the kernel's, "+", and the identity of the machine's first process (pid and start time in clock
ticks, which no two processes share while a kernel runs).

A machine lives as long as its holder, `nearmetal-probe hold`, which dies with the process that made it; create it from
a thread that lives as long as the machine shall.
"""

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from nearmetal.config import LIMITS, Paths
from nearmetal.errors import HostCannot, NotProvisioned, TimedOut
from nearmetal.lab import cgroup, network, probe, process
from nearmetal.lab import machine as lab_machine
from nearmetal.lab.cgroup import Group
from nearmetal.lab.findings import finding, program, provided
from nearmetal.lab.identity import FirstProcess
from nearmetal.model import (
    Completed,
    Cost,
    EnvironmentSpec,
    Finding,
    Frozen,
    Handle,
    MachineSpec,
    Order,
    Port,
    Provision,
    Recorder,
    Running,
    Site,
)


class HostEnvironment:
    kind: ClassVar[str] = "host"
    Options: ClassVar[type[Frozen]] = Frozen
    provisions: ClassVar[tuple[Provision, ...]] = ("boot",)
    on_switch: ClassVar[bool] = True
    typical_ready: ClassVar[float] = 0.3

    def __init__(self) -> None:
        self._holders: dict[str, asyncio.subprocess.Process] = {}
        """By machine name; a transport that nobody refers to would end its process."""

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        available = len(os.sched_getaffinity(0))
        return [
            finding("root", os.geteuid() == 0, "namespaces and control groups take root", "run nearmetal as root"),
            *(program(name, package) for name, package in {**network.TOOLS, "unshare": "util-linux"}.items()),
            provided("probe", probe.path),
            lab_machine.image_found(machine.image),
            finding(
                f"{machine.vcpus} CPUs",
                machine.vcpus <= available,
                f"the host has {available}",
                f"set machine.vcpus to at most {available}",
            ),
            finding(
                "control groups",
                all(Path(folder).parent.is_dir() for folder in cgroup.named("x", await cgroup.version(site)).folders),
                f"{cgroup.ROOT} lacks the controllers cpuset, cpuacct or memory",
                "mount them, and boot without cgroup_disable",
            ),
        ]

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """Nothing: the image's files are used where they lie."""

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        if site.name != "local":
            raise HostCannot("machines of kind 'host' are made on this host only", site.name, 'use kind = "ssh" there')
        image = lab_machine.image(order.spec.image)
        folder = Paths.default().state / "machines" / order.name
        handle = Handle(
            kind=self.kind,
            name=order.name,
            site=site.name,
            data={
                "folder": str(folder),
                "role": order.role,
                "port": order.port.model_dump(mode="json") if order.port else None,
            },
        )
        ledger.creating(handle)
        own_probe = _lay_out(folder)
        group = await cgroup.create(order.name, order.spec, order.cpus, site, limit_memory=True)
        pid = await self._hold(order.name, image.root, folder, own_probe, group)
        if order.port:
            await network.plug_veth(order.port, pid, site)
        first = FirstProcess.of(pid)
        if first is None:
            raise NotProvisioned("its first process ended at once", order.name)
        whole = handle.model_copy(update={"data": {**handle.data, "first": asdict(first), "group": asdict(group)}})
        ledger.creating(whole)
        return whole

    async def _hold(self, name: str, root: Path, folder: Path, own_probe: Path, group: Group) -> int:
        """Start the holder; the pid of the machine's first process. NotProvisioned with what it said."""
        holder = await process.start(
            [
                *("unshare", "--net", "--", str(probe.path()), "hold"),
                f"--die-with-parent={os.getpid()}",
                *("--root", str(root), "--scratch", str(folder), "--hostname", name[:63]),
                *("--bind", f"{own_probe}:{probe.INSIDE}"),
                *(word for bind in _show_groups(folder, group) for word in ("--bind", bind)),
                *(word for directory in group.folders for word in ("--cgroup", directory)),
            ],
            stdin=asyncio.subprocess.DEVNULL,
        )
        self._holders[name] = holder
        assert holder.stdout and holder.stderr
        try:
            line = await asyncio.wait_for(holder.stdout.readline(), LIMITS.command)
        except TimeoutError:
            holder.kill()
            raise NotProvisioned(f"it was not ready within {LIMITS.command:g} s", name) from None
        if not line:
            said = (await holder.stderr.read()).decode("utf-8", "replace").strip()
            raise NotProvisioned(f"its holder ended with status {await holder.wait()}: {said[-2000:]}", name)
        return int(json.loads(line)["pid"])

    async def attach(self, handle: Handle, site: Site) -> "HostMachine":
        if "first" not in handle.data:
            raise NotProvisioned("its creation was interrupted", handle.name)
        attached = HostMachine(handle, site)
        if not attached.first.is_alive:
            raise NotProvisioned("its first process is gone", handle.name)
        return attached

    async def destroy(self, handle: Handle, site: Site) -> None:
        await cgroup.remove(handle.name, site)
        holder = self._holders.pop(handle.name, None)
        if holder:
            await holder.wait()
        if handle.data["port"]:
            await network.unplug(Port.from_json(handle.data["port"]), site)
        with contextlib.suppress(FileNotFoundError):
            await asyncio.to_thread(shutil.rmtree, handle.data["folder"])


def _show_groups(folder: Path, group: Group) -> list[str]:
    """Binds that show a machine its own control group where programs look for their limits, and no other."""
    if group.version == 2:
        return [f"{group.memory}:{cgroup.ROOT}"]
    stand_in = folder / "cgroup"
    shown = {controller: getattr(group, controller) for controller in ("cpuset", "cpuacct", "memory")}
    for controller in shown:
        (stand_in / controller).mkdir(parents=True)
    return [
        f"{stand_in}:{cgroup.ROOT}",
        *(f"{directory}:{cgroup.ROOT}/{controller}" for controller, directory in shown.items()),
    ]


class HostMachine:
    """A `Machine` of processes on the host's own kernel."""

    owned = True
    interface = network.INSIDE
    probe = probe.INSIDE

    def __init__(self, handle: Handle, site: Site) -> None:
        port = Port.from_json(handle.data["port"]) if handle.data["port"] else None
        self.name = handle.name
        self.role: str = handle.data["role"]
        self.site = site
        self.arch = site.arch
        self.address = port.address if port else ""
        self.peer = network.peer(port)
        self.first = FirstProcess(**handle.data["first"])
        self._group = Group(**handle.data["group"])
        self.boot_id = self.first.boot_id

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = LIMITS.command,
    ) -> Completed:
        self.first.require(self.name)
        try:
            ended = await self.site.exec(self._launch(argv, env), stdin=stdin, timeout=timeout)
        except TimedOut:
            raise TimedOut(f"`{' '.join(argv)[:200]}` did not end within {timeout:g} s", self.name) from None
        return await self.first.judged(ended, self.name)

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Running:
        self.first.require(self.name)
        return _HostRunning(self, await self.site.spawn(self._launch(argv, env)))

    def _launch(self, argv: Sequence[str], env: Mapping[str, str] | None) -> list[str]:
        place = [f"--die-with-parent={os.getpid()}", "--enter", str(self.first.pid)]
        place += [word for directory in self._group.folders for word in ("--cgroup", directory)]
        return lab_machine.launch(str(probe.path()), argv, env, *place)

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        await lab_machine.put(self, content, path, mode)

    async def get(self, path: str) -> bytes:
        return await lab_machine.get(self, path)

    async def reboot(self) -> None:
        raise HostCannot(
            "a machine of kind 'host' runs on the host's own kernel and cannot be rebooted",
            self.name,
            'use kind = "qemu", or kind = "ssh" for a machine that may be rebooted',
        )

    async def cost(self) -> Cost:
        try:
            return await cgroup.cost(self._group, self.site)
        except HostCannot:
            self.first.require(self.name)
            raise


class _HostRunning:
    def __init__(self, on: HostMachine, running: Running) -> None:
        self._on = on
        self._running = running

    async def wait(self, timeout: float) -> Completed:
        return await self._on.first.judged(await self._running.wait(timeout), self._on.name)

    async def stop(self) -> Completed:
        return await self._running.stop()


def _lay_out(folder: Path) -> Path:
    """The machine's folder, for what it writes, with a probe of its own: it may do to it what it likes."""
    folder.mkdir(parents=True)
    own_probe = folder / "nearmetal-probe"
    shutil.copyfile(probe.path(), own_probe)
    own_probe.chmod(0o755)
    return own_probe


plugin = HostEnvironment()
