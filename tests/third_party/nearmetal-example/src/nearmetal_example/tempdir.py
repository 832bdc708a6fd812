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

from nearmetal.errors import HostCannot, MachineLost, NotProvisioned
from nearmetal.lab.api import (
    LIMITS,
    build_launch,
    check_limits,
    check_programs,
    check_provided,
    create_group,
    make_finding,
    make_handle,
    put_file,
    read_file,
    read_group_cost,
    remove_group,
)
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
    MachineImage,
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
        return build_launch(self.site, [*inside, *argv], env, group=self._group)

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
        await put_file(self, content, path, mode)

    async def get(self, path: str) -> bytes:
        return await read_file(self, path)

    async def reboot(self) -> None:
        raise HostCannot("a machine of kind 'tempdir' has no kernel of its own", self.name, 'use kind = "qemu"')

    async def paused(self, since: float) -> float:
        return 0.0  # nothing pauses it

    async def cost(self) -> Cost:
        self._must_be_there()  # by this a trial hears that its machine is gone
        return await read_group_cost(self._group, self.site)


class Tempdir:
    kind: ClassVar[str] = "tempdir"
    provisions: ClassVar[tuple[Provision, ...]] = ("boot",)
    typical_ready: ClassVar[float] = 0.1
    Options: ClassVar[type[Frozen]] = TempdirOptions

    def describe(self, options: Mapping[str, Any], spec: MachineSpec) -> Description:
        return Description(family="metal", kernel="host", placement="apart")

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        return [
            make_finding("root", os.geteuid() == 0, "control groups take root", "run nearmetal as root"),
            *await check_programs(site, {"unshare": "util-linux"}),
            check_provided("probe", lambda: site.probe),
            *await check_limits(machine, site),
        ]

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        return {}  # no program but the kernel makes them

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """Nothing: there is no image to import."""

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        folder = Path(site.state, "tempdir", order.name)
        handle = make_handle(
            self.kind,
            order,
            site,
            MachineImage(name="none: this host's own files"),
            folder=str(folder),
            keep=TempdirOptions.model_validate(order.options).keep,
            niceness=order.spec.settings.get("niceness", 0),
            boot_id=f"{site.boot_id}+{uuid.uuid4().hex}",
        )
        ledger.creating(handle)  # before anything exists, so that `nearmetal clean` finds it after a crash
        folder.mkdir(parents=True)
        group = await create_group(order.name, order.spec, order.cpus, site, limit_memory=True)
        whole = handle.knowing(data={"group": asdict(group)})
        ledger.creating(whole)  # with all that another process needs to reach it
        return whole

    async def attach(self, handle: Handle, site: Site) -> TempdirMachine:
        if "group" not in handle.data:
            raise NotProvisioned("its creation was interrupted", handle.name)
        return TempdirMachine(handle, site)

    async def open_door(self, handle: Handle) -> None:
        """There is none: `nearmetal exec` goes by `TempdirMachine.exec`, and `nearmetal ssh` is refused."""

    async def destroy(self, handle: Handle, site: Site) -> None:
        await remove_group(handle.name, site)
        folder = Path(handle.data["folder"])
        if handle.data["keep"] and folder.is_dir():
            folder.rename(folder.with_name(f"{folder.name}.kept"))
        else:
            shutil.rmtree(folder, ignore_errors=True)


plugin: Environment = Tempdir()
