"""The environment `tempdir`: processes of this host in a control group, with a folder of their own as /tmp.

Not isolated: files outside /tmp, the network (every machine is 127.0.0.1), process numbers, users. A server listens
on the host's loopback, and two that want the same port are in each other's way.
"""

import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from nearmetal.config import LIMITS, Paths
from nearmetal.errors import HostCannot, MachineLost
from nearmetal.lab import cgroup, findings
from nearmetal.lab import machine as lab_machine
from nearmetal.model import (
    Completed,
    ControlGroup,
    Cost,
    Description,
    Environment,
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
)

# $0 is the folder: what stands here is constant, and everything that varies is a word of its own.
_OWN_TMP = 'mount --bind "$0" /tmp && exec "$@"'


class TempdirOptions(Frozen):
    """What [environments.NAME] may say besides the kind."""

    keep: bool = False
    """Leave the folder behind, to look at what a workload wrote."""


class TempdirMachine:
    owned = True
    address = "127.0.0.1"
    interface = "lo"
    peer: str | None = None
    probe = "/tmp/nearmetal-probe"

    def __init__(self, handle: Handle, site: Site) -> None:
        self.name = handle.name
        self.role: str = handle.role
        self.site = site
        self.arch = site.arch
        self.boot_id: str = handle.data["boot_id"]
        self._folder = Path(handle.data["folder"])
        self._group = ControlGroup(**handle.data["group"])
        self._niceness: int = handle.data["niceness"]

    def _must_be_there(self) -> None:
        if not self._folder.is_dir():
            raise MachineLost("its folder is gone", self.name)

    def _launch(self, argv: Sequence[str], env: Mapping[str, str] | None) -> list[str]:
        self._must_be_there()
        inside = ["nice", "-n", str(self._niceness), "unshare", "--mount", "sh", "-c", _OWN_TMP, str(self._folder)]
        place = [word for folder in self._group.folders for word in ("--cgroup", folder)]
        return lab_machine.launch(self.site.probe, [*inside, *argv], env, f"--die-with-parent={os.getpid()}", *place)

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = LIMITS.command,
    ) -> Completed:
        ended = await self.site.exec(self._launch(argv, env), stdin=stdin, timeout=timeout)
        self._must_be_there()  # one that was destroyed meanwhile is lost, whatever its last command said
        return ended

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Running:
        return await self.site.spawn(self._launch(argv, env))

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        await lab_machine.put(self, content, path, mode)

    async def get(self, path: str) -> bytes:
        return await lab_machine.get(self, path)

    async def reboot(self) -> None:
        raise HostCannot("a machine of kind 'tempdir' has no kernel of its own", self.name, 'use kind = "qemu"')

    async def paused(self, since: float) -> float:
        return 0.0  # nothing pauses it

    async def cost(self) -> Cost:
        self._must_be_there()  # by this a trial hears that its machine is gone
        return await cgroup.cost(self._group, self.site)


class Tempdir:
    kind: ClassVar[str] = "tempdir"
    provisions: ClassVar[tuple[Provision, ...]] = ("boot",)
    typical_ready: ClassVar[float] = 0.1
    Options: ClassVar[type[Frozen]] = TempdirOptions

    def describe(self, options: Mapping[str, Any], spec: MachineSpec) -> Description:
        return Description(family="metal", kernel="host", placement="apart")

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        return [
            findings.finding("root", os.geteuid() == 0, "control groups take root", "run nearmetal as root"),
            findings.program("unshare", "util-linux"),
            findings.provided("probe", lambda: site.probe),
        ]

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        return {}  # no program but the kernel makes them

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """Nothing: there is no image to import."""

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        folder = Paths.default().state / "tempdir" / order.name
        handle = Handle(
            kind=self.kind,
            name=order.name,
            site=site.name,
            role=order.role,
            data={
                "folder": str(folder),
                "keep": TempdirOptions.model_validate(order.options).keep,
                "niceness": order.spec.settings.get("niceness", 0),
                "boot_id": f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}+{uuid.uuid4().hex}",
                "group": asdict(cgroup.named(order.name, await cgroup.version(site))),
            },
        )
        ledger.creating(handle)  # before anything exists, so that `nearmetal clean` finds it after a crash
        folder.mkdir(parents=True)
        await cgroup.create(order.name, order.spec, order.cpus, site, limit_memory=True)
        return handle

    async def attach(self, handle: Handle, site: Site) -> TempdirMachine:
        return TempdirMachine(handle, site)

    async def open_door(self, handle: Handle) -> None:
        """There is none: `nearmetal exec` goes by `TempdirMachine.exec`, and `nearmetal ssh` is refused."""

    async def destroy(self, handle: Handle, site: Site) -> None:
        await cgroup.remove(handle.name, site)
        folder = Path(handle.data["folder"])
        if handle.data["keep"] and folder.is_dir():
            folder.rename(folder.with_name(f"{folder.name}.kept"))
        else:
            shutil.rmtree(folder, ignore_errors=True)


plugin: Environment = Tempdir()
