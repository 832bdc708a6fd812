"""A Docker container, made of the lab's image, on the lab's switch instead of a network of the engine's.

Options in [environments.NAME]: `engine`, the URL of its socket (else DOCKER_HOST, else the usual one); `runtime`,
one that the engine knows ("runc", "runsc", …; else the engine's default); and `storage_driver`, the one that the engine
has to have ("overlay2", "vfs", …): an engine has one for all its containers.

A container lives as long as its standard input, whose other end the creating process holds: its first process, the
probe's `hold --until-eof`, ends with it. So none outlives its controller, whatever happens to that. Security is the
engine's default, because it is part of what a container costs; NET_ADMIN is added, which costs nothing, so that
offloads can be set on the data NIC from inside.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, NotProvisioned
from nearmetal.lab import cgroup, container_image, network, probe
from nearmetal.lab import machine as lab_machine
from nearmetal.lab import share as shares
from nearmetal.lab.container import Container
from nearmetal.lab.engine import bury, is_own
from nearmetal.lab.engine_api import DOCKER, Brand, Engine, Refused
from nearmetal.lab.findings import finding, program, provided
from nearmetal.lab.identity import FirstProcess
from nearmetal.lab.image import Image
from nearmetal.model import (
    EnvironmentSpec,
    Finding,
    Frozen,
    Handle,
    MachineSpec,
    Order,
    Port,
    Provision,
    Recorder,
    Site,
)

LABEL = "nearmetal.machine"
_DIGEST = "nearmetal.digest"
_TMPFS = {"/run": "rw,exec,nosuid,nodev,mode=755", "/tmp": "rw,exec,nosuid,nodev,mode=1777"}
"""As in the other environments; the engine's own default would forbid programs there."""
_NOT_FOUND = 404
_NOT_YET = (409, 500)
"""What Docker says while a container is being removed, and Podman while it is ending."""


class Options(Frozen):
    engine: str | None = None
    runtime: str | None = None
    storage_driver: str | None = None


class DockerEnvironment:
    kind: ClassVar[str] = "docker"
    brand: ClassVar[Brand] = DOCKER
    Options: ClassVar[type[Frozen]] = Options
    provisions: ClassVar[tuple[Provision, ...]] = ("boot",)
    on_switch: ClassVar[bool] = True
    typical_ready: ClassVar[float] = 1.5

    def __init__(self) -> None:
        self._engines: dict[str, Engine] = {}
        self._lifelines: dict[str, asyncio.StreamWriter] = {}
        """By machine name: the other end of its first process' input."""
        self._importing = threading.Lock()

    async def _engine(self, address: str) -> Engine:
        if address not in self._engines:
            self._engines[address] = await Engine.connect(address, self.brand)
        return self._engines[address]

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        if site.spec is not None:
            return [_only_here(site)]
        available = len(os.sched_getaffinity(0))
        return [
            *await self._check_engine(spec.options),
            finding("root", os.geteuid() == 0, "putting a container on the switch takes root", "run nearmetal as root"),
            *(program(name, package) for name, package in network.TOOLS.items()),
            provided("probe", probe.path),
            *([] if machine.brings_image else [lab_machine.image_found(machine.image)]),
            *await self._check_image(spec.options, machine, site),
            finding(
                f"{machine.vcpus} CPUs",
                machine.vcpus <= available,
                f"the host has {available}",
                f"set machine.vcpus to at most {available}",
            ),
            *await shares.findings(machine, site),
        ]

    async def _check_engine(self, options: Mapping[str, Any]) -> list[Finding]:
        try:
            engine = await self._engine(self.brand.address(options))
            told = await engine.call(engine.client.info)
        except HostCannot as error:
            return [Finding(what=self.brand.called, ok=False, detail=error.what, remedy=error.remedy)]
        runtime = options.get("runtime") or told["DefaultRuntime"]
        known = self.runtimes(told)
        return [
            Finding(what=self.brand.called, ok=True, detail=f"{told['ServerVersion']}, storage {told['Driver']}"),
            finding(
                f"runtime {runtime}",
                runtime in known,
                f"the engine knows {', '.join(known)}",
                self.brand.other_runtime,
            ),
            finding(
                f"storage driver {options.get('storage_driver', told['Driver'])}",
                options.get("storage_driver", told["Driver"]) == told["Driver"],
                f"the engine has {told['Driver']}, and one for all its containers",
                "name an engine that has it: engine in [environments.NAME]",
            ),
            finding(
                "limits",
                told["MemoryLimit"] and told["CPUSet"],
                "the engine cannot limit memory or choose CPUs",
                "boot with the control groups memory and cpuset",
            ),
        ]

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        """Of the engine, and of what it says it is made of."""
        engine = await self._engine(self.brand.address(options))
        told = await engine.call(engine.client.version)
        parts = {f"{self.brand.called}'s {one['Name']}": one["Version"] for one in told.get("Components") or ()}
        return {self.brand.called: told["Version"], **parts}

    async def _check_image(self, options: Mapping[str, Any], machine: MachineSpec, site: Site) -> list[Finding]:
        """An image of the user's own."""
        if not machine.brings_image:
            return []
        try:
            engine = await self._engine(self.brand.address(options))
            return [await engine.call(container_image.lacking, engine.client, machine.image, site.arch)]
        except HostCannot:
            return []  # that no engine answers is found already

    def runtimes(self, told: Mapping[str, Any]) -> list[str]:
        """Those that can be asked for, from what the engine tells of itself. Pure."""
        return sorted(told["Runtimes"])

    async def runtime_of(self, engine: Engine, told: Mapping[str, Any]) -> str:
        """The one that a container runs by, from what its inspection told."""
        return str(told["HostConfig"]["Runtime"])

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """Have the engine take the image over, which takes some seconds the first time."""
        engine = await self._engine(self.brand.address(spec.options))
        await engine.call(self._image, engine.client, machine)

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        if site.name != "local":
            raise HostCannot("containers are made on this host only", site.name, "run nearmetal there")
        engine = await self._engine(self.brand.address(order.options))
        handle = Handle(
            kind=self.kind,
            name=order.name,
            site=site.name,
            data={
                "engine": engine.address,
                "image": lab_machine.described(order.spec.image),
                "role": order.role,
                "port": order.port.model_dump(mode="json") if order.port else None,
            },
        )
        ledger.creating(handle)
        try:
            tag = await engine.call(self._image, engine.client, order.spec)
            container = (await engine.call(_make, engine.client, order, tag))["Id"]
            _, writer = await engine.stream(f"containers/{container}/attach?stream=1&stdin=1", {})
            self._lifelines[order.name] = writer
            await engine.call(engine.client.start, container)
            told = await engine.call(engine.client.inspect_container, container)
            runtime = await self.runtime_of(engine, told)
        except Refused as error:
            raise NotProvisioned(error.what, order.name) from error
        if order.options.get("runtime") not in (None, runtime):
            raise NotProvisioned(f"the engine took the runtime {runtime} instead of the one asked for", order.name)
        pid = told["State"]["Pid"]
        first = await FirstProcess.of(pid, site) if pid else None
        if first is None:
            raise NotProvisioned(f"it ended at once: {await _last_words(engine, container)}", order.name)
        if order.port:
            await network.plug_veth(order.port, pid, site)
        whole = handle.model_copy(
            update={
                "data": {
                    **handle.data,
                    "container": container,
                    "first": asdict(first),
                    "runtime": runtime,
                    "storage_driver": told["Driver"],
                    "storage_driver_asked": order.options.get("storage_driver"),
                }
            }
        )
        ledger.creating(whole)
        return whole

    def _image(self, client: Any, spec: MachineSpec) -> str:
        """What the engine calls the machine's image, which is there afterwards. Blocks."""
        if spec.brings_image:
            return container_image.provided(client, spec.image)
        return self._imported(client, lab_machine.image(spec.image))

    def _imported(self, client: Any, image: Image) -> str:
        """The image's tag in the engine, which takes it over once. Blocks."""
        from docker.errors import ImageNotFound

        tag = f"nearmetal/{image.name.lower()}:{image.digest[:12]}"
        with self._importing:
            try:
                labels = client.inspect_image(tag)["Config"]["Labels"] or {}
                present = labels.get(_DIGEST) == image.digest
            except ImageNotFound:
                present = False
            if not present:
                client.import_image_from_file(
                    str(image.tarball), repository=tag, changes=[f"LABEL {_DIGEST}={image.digest}"]
                )
        return tag

    async def attach(self, handle: Handle, site: Site) -> "Container":
        if "first" not in handle.data:
            raise NotProvisioned("its creation was interrupted", handle.name)
        attached = Container(handle, site, await self._engine(handle.data["engine"]))
        if not await attached.first.is_alive(site):
            last = await _last_words(attached.engine, handle.data["container"])
            raise NotProvisioned(f"the container is not running: {last}", handle.name)
        return attached

    async def destroy(self, handle: Handle, site: Site) -> None:
        lifeline = self._lifelines.pop(handle.name, None)
        if lifeline:
            lifeline.close()
        await self._remove(handle.data["engine"], handle.name)
        if handle.data["port"]:
            await network.unplug(Port.from_json(handle.data["port"]), site)

    async def _remove(self, address: str, name: str) -> None:
        """The containers of an engine of our own died with it, and need none that answers."""
        deadline = asyncio.get_running_loop().time() + LIMITS.stop
        while True:
            try:
                return await _remove(await self._engine(address), name)
            except HostCannot as error:
                if not is_own(address):
                    raise
                failure = error
            try:
                return await bury(address)
            except HostCannot:
                # It lives, perhaps starting or ending, or is being buried for another of its containers.
                if asyncio.get_running_loop().time() > deadline:
                    raise failure from None
            await asyncio.sleep(0.05)


def _make(client: Any, order: Order, tag: str) -> Any:

    return client.create_container(
        tag,
        # Whatever an image would start by itself, and as whom.
        entrypoint=[probe.INSIDE, "hold", "--until-eof"],
        command=[],
        user="0:0",
        working_dir="/",
        healthcheck={"test": ["NONE"]},
        name=order.name,
        hostname=order.name[:63],
        labels={LABEL: order.name},
        stdin_open=True,
        host_config=client.create_host_config(
            network_mode="none",
            cpuset_cpus=order.cpus or None,
            cpu_period=cgroup.PERIOD if order.spec.quota is not None else None,
            cpu_quota=cgroup.microseconds(order.spec),
            mem_limit=order.spec.memory,
            memswap_limit=order.spec.memory,
            tmpfs=_TMPFS,
            mounts=_mounts(order),
            cap_add=["NET_ADMIN"],
            runtime=order.options.get("runtime"),
        ),
    )


def _mounts(order: Order) -> list[Any]:
    from docker.types import Mount

    share = shares.of(order.spec)
    shared = [Mount(share.mountpoint, share.source, type="bind", read_only=True)] if share else []
    return [Mount(probe.INSIDE, str(probe.path()), type="bind", read_only=True), *shared]


async def _last_words(engine: Engine, container: str) -> str:
    with contextlib.suppress(Refused):
        said: bytes = await engine.call(engine.client.logs, container, tail=20)
        return said.decode("utf-8", "replace").strip()[-2000:]
    return "it is gone"


async def _remove(engine: Engine, name: str) -> None:
    """Remove a container of ours; one of that name that is somebody else's stays."""
    said = ""
    for _ in range(100):
        try:
            told = await engine.call(engine.client.inspect_container, name)
            if (told["Config"]["Labels"] or {}).get(LABEL) != name:
                return
            await engine.call(engine.client.remove_container, told["Id"], force=True, v=True)
        except Refused as error:
            if error.status == _NOT_FOUND:
                return
            said = error.what
            if error.status not in _NOT_YET:
                break
            await asyncio.sleep(0.1)
    raise HostCannot(f"the container could not be removed: {said}", name, f"{engine.brand.client} rm --force {name}")


def _only_here(site: Site) -> Finding:
    return Finding(
        what=f"docker on {site.name}",
        ok=False,
        detail="containers are made on the host that nearmetal runs on, so far",
        remedy='place them with host = "local", or run nearmetal there',
    )


plugin = DockerEnvironment()
