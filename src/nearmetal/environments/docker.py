"""A Docker container, made of the lab's image, on the lab's switch instead of a network of the engine's.

Options in [environments.NAME], its networks, and why one with a kernel of its own takes another container, the keeper:
docs/environments.md. What it lives by: docs/adr/machines-die-with-their-controller.md. The engine of another host is
spoken to by that host's SSH connection, and its containers are made as here.

Security is the engine's default, because it is part of what a container costs, without some capabilities and with a
limit of processes, which cost nothing. Its data NIC is set from its host, so that it needs no capability for that.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, HostCannot, NotProvisioned, ToolFailed
from nearmetal.lab import cgroup, container_privileges, machine_handle, machine_image, machine_programs, probe, rootless
from nearmetal.lab.containers import config as container_config
from nearmetal.lab.containers import image as container_image
from nearmetal.lab.containers import imported_images, networks
from nearmetal.lab.containers.api import DOCKER, NOT_FOUND, Brand, ContainerEngine, EngineRefusal, ping
from nearmetal.lab.containers.container import Container
from nearmetal.lab.containers.private_engine import bury_engine, is_own
from nearmetal.lab.containers.sandboxed_container import SandboxedContainer, is_sandboxed
from nearmetal.lab.cpus import layout
from nearmetal.lab.host_checks import check_cpus, check_programs, check_provided, describe_place, finding
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.machines import share as shares
from nearmetal.lab.machines.init_process import FirstProcess
from nearmetal.lab.machines.shared_kernel import check_isolation
from nearmetal.lab.networks import network
from nearmetal.model import (
    VIRTUAL_HARDWARE,
    Description,
    Door,
    EnvironmentSpec,
    Finding,
    Frozen,
    Handle,
    MachineImage,
    MachineSpec,
    Order,
    Provision,
    Recorder,
    Site,
)
from nearmetal.progress_messages import meanwhile

_AWAY = 60.0
"""Seconds in which an engine that answered before may come back."""
_BETWEEN = 0.2
"""Seconds from asking it once to asking it again."""
_APPARMOR = "/sys/module/apparmor/parameters/enabled"


class Options(Frozen):
    engine: str | None = None
    runtime: str | None = None
    storage_driver: str | None = None


class DockerEnvironment:
    kind: ClassVar[str] = "docker"
    brand: ClassVar[Brand] = DOCKER
    Options: ClassVar[type[Frozen]] = Options
    provisions: ClassVar[tuple[Provision, ...]] = ("boot",)
    typical_ready: ClassVar[float] = 1.5
    keepers_runtime: ClassVar[str | None] = "runc"
    """Every engine has that, whatever else it has."""

    def __init__(self) -> None:
        self._engines: dict[tuple[str, str], ContainerEngine] = {}
        """By site and address."""
        self._lifelines: dict[str, asyncio.StreamWriter] = {}
        """By a container's name: the other end of its first process' input."""
        self._importing = threading.Lock()

    def is_rootless(self, site: Site) -> bool:
        """Whether its machines can be made there by an ordinary user, who is root of a user namespace alone."""
        return False

    def locate_engine(self, options: Mapping[str, Any], site: Site) -> str:
        """The address of the engine that makes the machines."""
        return self.brand.address(options, site)

    async def _find_engine(self, address: str, site: Site) -> ContainerEngine:
        """By its address on a site. One on another host is found again when the connection to that was made anew."""
        here = await site.open_socket(address.removeprefix("unix://")) if address.startswith("unix://") else address
        known = self._engines.get((site.name, address))
        if known is None or known.socket_here != here:
            known = self._engines[site.name, address] = await ContainerEngine.connect(address, self.brand, site)
        return known

    def describe(self, options: Mapping[str, Any], spec: MachineSpec) -> Description:
        """BadInput for what no container can have."""
        runtime = options.get("runtime")
        sandboxed = isinstance(runtime, str) and is_sandboxed(runtime)
        if sandboxed and spec.network != networks.STRAIGHT:
            what = f"containers by {runtime} have a network stack of their own, and hang on the lab's switch alone"
            raise BadInput(what, "machine.network", 'leave it out, or set network = "lab"')
        return Description(
            family="container",
            kernel="emulated" if sandboxed else "host",
            placement="switch",
            ignores=tuple(sorted(VIRTUAL_HARDWARE)),
        )

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        user = (await run_checked(site, "id", "-u")).decode().strip()
        return [
            *await self._check_engine(spec.options, machine, site),
            *self._check_power(user, machine, site),
            *await check_programs(site, await self._list_tools(machine, site)),
            check_provided("probe", probe.path),
            *([] if machine.brings_image else [machine_image.check_image(machine.image)]),
            *await self._check_image(spec.options, machine, site),
            check_cpus(machine.vcpus, len(await layout.find_usable(machine, site))),
            *await check_isolation(machine, site),
            *await shares.check_share(machine, site),
        ]

    def _check_power(self, user: str, machine: MachineSpec, site: Site) -> list[Finding]:
        if self.is_rootless(site):
            return [
                rootless.find_quota(machine),
                *container_privileges.find_missing(site, container_privileges.PRIVILEGED),
            ]
        return [
            rootless.find_root_of_host(user, "putting a container on the switch takes root", site),
            *container_privileges.find_missing(site, container_privileges.PRIVILEGED, container_privileges.GROUPS),
        ]

    async def _list_tools(self, machine: MachineSpec, site: Site) -> Mapping[str, str]:
        """Programs that it takes on a host, and Debian's packages that have them.

        Docker's engine starts no container without AppArmor's parser if the kernel has AppArmor on; its package only
        recommends it.
        """
        tools = dict(network.TOOLS)
        if self.brand is DOCKER and (await site.exec(["cat", _APPARMOR])).text.strip() == "Y":
            tools["apparmor_parser"] = "apparmor"
        if machine.network == "bridge":
            tools["iptables"] = "iptables"
        return tools

    async def _engine_lacking(self, error: HostCannot, site: Site) -> Finding:
        """Not installed, or not running."""
        found = Finding(what=self.brand.called, ok=False, detail=describe_place(error), remedy=error.remedy)
        (server,) = await check_programs(site, {self.brand.server: self.brand.package})
        if server.ok:
            return found
        remedies = dict.fromkeys((server.remedy, error.remedy))
        return found.model_copy(update={"remedy": "; or ".join(remedies), "packages": server.packages})

    async def _check_engine(self, options: Mapping[str, Any], machine: MachineSpec, site: Site) -> list[Finding]:
        try:
            engine = await self._find_engine(self.locate_engine(options, site), site)
            await engine.refuse_other()
            await engine.refuse_elsewhere(site)
            info = await engine.call(engine.client.info)
        except HostCannot as error:
            return [await self._engine_lacking(error, site)]
        runtime, driver = options.get("runtime") or info["DefaultRuntime"], info["Driver"]
        if is_sandboxed(runtime) and site.spec is not None:
            what, detail = f"containers with a kernel of their own on {site.name}", "nearmetal has to be on their host"
            remedy = 'place them with host = "local", or run nearmetal there'
            return [finding(what, False, f"{detail}, to see whether they live", remedy)]
        known, asked = self.runtimes(info), options.get("storage_driver", driver)
        knows = f"the engine knows {', '.join(known)}"
        has_limits = (info["MemoryLimit"] and info["CPUSet"]) or self.is_rootless(site) or await _can_delegate(site)
        lacks = "the engine cannot limit memory or choose CPUs"
        return [
            Finding(what=self.brand.called, ok=True, detail=f"{info['ServerVersion']}, storage {driver}"),
            finding(f"runtime {runtime}", runtime in known, knows, self.brand.other_runtime),
            finding(
                "a CPU of its own for what is measured",
                not (machine.alone and is_sandboxed(runtime)),
                f"programs by {runtime} may run on any CPU of their container's, whatever they are told inside",
                "leave isolation out for it",
            ),
            finding(
                f"storage driver {asked}",
                asked == driver,
                f"the engine has {driver}, and one for all its containers",
                "name an engine that has it: engine in [environments.NAME]",
            ),
            finding("limits", has_limits, lacks, "boot with the control groups memory and cpuset"),
        ]

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        """Of the engine, and of what it says it is made of, itself left out."""
        engine = await self._find_engine(self.locate_engine(options, site), site)
        version, called = await engine.call(engine.client.version), self.brand.called
        parts = [one for one in version.get("Components") or () if not one["Name"].endswith("Engine")]
        return {called: version["Version"], **{f"{called}'s {one['Name']}": one["Version"] for one in parts}}

    async def _check_image(self, options: Mapping[str, Any], machine: MachineSpec, site: Site) -> list[Finding]:
        """An image of the user's own."""
        if not machine.brings_image:
            return []
        try:
            engine = await self._find_engine(self.locate_engine(options, site), site)
            words = (machine.image, site.arch, self.brand.client)
            return [await engine.call(container_image.check_image, engine.client, *words)]
        except HostCannot:
            return []  # that no engine answers is found already

    def runtimes(self, info: Mapping[str, Any]) -> list[str]:
        """Those that can be asked for, from what the engine tells of itself. Pure."""
        return sorted(info["Runtimes"])

    def remedy(self, what: str) -> str:
        """For what the engine said when it did not start a container; "" where none is known. Pure."""
        return ""

    async def runtime_of(self, engine: ContainerEngine, details: Mapping[str, Any]) -> str:
        """The one that a container runs by, from what its inspection tells."""
        return str(details["HostConfig"]["Runtime"])

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """Have the engine take the image over, which takes some seconds the first time."""
        engine = await self._find_engine(self.locate_engine(spec.options, site), site)
        await engine.refuse_other()
        await engine.refuse_elsewhere(site)
        await engine.call(self._provide_image, engine.client, machine)

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        engine = await self._find_engine(self.locate_engine(order.options, site), site)
        await self._require_engine(engine, site)
        await engine.refuse_elsewhere(site)
        asked = order.options.get("runtime")
        sandboxed = is_sandboxed(asked or await self._default_runtime(engine))
        mode = order.spec.network if order.port else networks.STRAIGHT
        has_keeper = order.port and (sandboxed or mode != networks.STRAIGHT)
        keeper = container_config.name_keeper(order.name) if has_keeper else None
        handle = machine_handle.make_handle(
            self.kind, order, site, engine=engine.address, sandboxed=sandboxed, keeper=keeper
        )
        ledger.creating(handle)
        try:
            tag = await engine.call(self._provide_image, engine.client, order.spec)
            group, kept, net = None, None, container_config.NO_NETWORK
            if self.is_rootless(site):
                # What stands for a group that only root can make, with the file that it names.
                group = await cgroup.create_group(order.name, order.spec, order.cpus, site, limit_memory=True)
                await run_checked(site, "install", "-D", "--mode=600", "/dev/null", group.spent)
            if keeper:
                # It has a network namespace with the lab's link in it, before the machine is started.
                config = container_config.build_keeper(
                    engine.client, order, tag, self.keepers_runtime, site.probe, group
                )
                details, kept = await self._start_container(engine, config, site)
                if order.port:
                    await networks.plug_keeper(mode, order.port, kept.pid, site)
                net = f"container:{details['Id']}" if sandboxed or mode == "host" else net
            config = container_config.build_machine(engine.client, order, tag, net, site.probe, group)
            details, first = await self._start_container(engine, config, site)
            runtime = await self.runtime_of(engine, details)
        except EngineRefusal as error:
            raise NotProvisioned(error.what, order.name, self.remedy(error.what)) from error
        if asked not in (None, runtime) or is_sandboxed(runtime) != sandboxed:
            raise NotProvisioned(f"the engine took the runtime {runtime} instead of the one asked for", order.name)
        if order.port and not keeper:
            await network.plug_veth(order.port, first.pid, site)
        if order.port and kept:
            await networks.plug_machine(mode, order.port, kept.pid, first.pid, site)
        found = await networks.find_mode(None if sandboxed or not kept else kept.pid, first.pid, site)
        if found != mode:
            raise NotProvisioned(f"its network is {found} instead of {mode}", order.name)
        brought = f"{order.spec.image} {container_image.shorten_id(details['Image'])}"
        whole = handle.knowing(
            life=first.life,
            image=MachineImage(
                name=brought if order.spec.brings_image else handle.image.name,
                storage_driver=details["Driver"],
                storage_driver_asked=order.options.get("storage_driver"),
            ),
            network=found,
            own_address=networks.PRIVATE if found == "bridge" else None,
            is_limited=group is None,
            data={"container": details["Id"], "runtime": runtime, **({"group": asdict(group)} if group else {})},
        )
        ledger.creating(whole)
        return whole

    async def _require_engine(self, engine: ContainerEngine, site: Site) -> None:
        """HostCannot where it does not answer: what cannot even be begun leaves nothing to remove.

        It answered before, so it may be starting anew: that is waited for, lest the next attempts fail too. This one
        does all the same, for its time to ready would tell of the engine's.
        """
        try:
            await ping(engine.address, self.brand, engine.socket_here)
        except HostCannot as error:
            async with meanwhile(site.say, lambda: f"still waiting for the {self.brand.called} to answer again"):
                after = await _back_after(engine)
            what = error.what if after is None else f"{error.what}; it did again after {after:.1f} s"
            raise HostCannot(what, error.where, error.remedy) from None

    async def _default_runtime(self, engine: ContainerEngine) -> str:
        if engine.default_runtime is None:
            engine.default_runtime = str((await engine.call(engine.client.info))["DefaultRuntime"])
        return engine.default_runtime

    async def _start_container(
        self, engine: ContainerEngine, config: Mapping[str, Any], site: Site
    ) -> tuple[Mapping[str, Any], FirstProcess]:
        """A container that runs as long as we hold its input: what its inspection told, and its first process."""
        id = (await engine.call(engine.client.create_container, **config))["Id"]
        _, writer = await engine.stream(f"containers/{id}/attach?stream=1&stdin=1", {})
        self._lifelines[config["name"]] = writer
        await engine.call(engine.client.start, id)
        details = await engine.call(engine.client.inspect_container, id)
        pid = details["State"]["Pid"]
        first = await FirstProcess.of(pid, site) if pid else None
        if first is None:
            raise NotProvisioned(f"it ended at once: {await _last_words(engine, id)}", config["name"])
        is_seen = not self.is_rootless(site) and not is_sandboxed(details["HostConfig"].get("Runtime") or "runc")
        if is_seen and not await _is_in_group_of(pid, id, site):
            raise NotProvisioned(f"process {pid} of its host is none of the container's", config["name"])
        return details, first

    def _provide_image(self, client: Any, spec: MachineSpec) -> str:
        """What the engine calls the machine's image, which is there afterwards. Blocks."""
        if spec.brings_image:
            return container_image.provide_image(client, spec.image, self.brand.client)
        with self._importing:
            return imported_images.provide_copy(client, machine_image.find_image(spec.image))

    async def attach(self, handle: Handle, site: Site) -> "Container":
        made = SandboxedContainer if handle.data.get("sandboxed") else Container
        attached = made(handle, site, await self._find_engine(handle.data["engine"], site))
        if not await attached.first.is_alive(site):
            last = await _last_words(attached.engine, handle.data["container"])
            raise NotProvisioned(f"the container is not running: {last}", handle.name)
        if isinstance(attached, SandboxedContainer):
            await attached.identify()
        return attached

    async def open_door(self, handle: Handle) -> Door:
        """The engine's own client. What that has started goes on when it is killed, and the engine may be away."""
        address = handle.data["engine"]
        if handle.site != "local":
            what = "a container on another host has no door here"
            raise HostCannot(what, handle.site, f"{self.brand.client} exec there")
        try:
            await self._require_answer(address)
        except HostCannot as error:
            raise HostCannot(error.what, address, f"start its engine ({self.brand.start})") from None

        def build_command(argv: Sequence[str], env: Mapping[str, str], terminal: bool) -> list[str]:
            options = ["--interactive", *(["--tty"] if terminal else [])]
            return [
                *(self.brand.client, *self.brand.to_engine, address, "exec", *options, handle.data["container"]),
                *machine_programs.build_words(probe.INSIDE, argv, env, *container_config.build_place(handle)),
            ]

        return Door(build_command, leaves="hidden" if handle.data.get("sandboxed") else "seen")

    async def _require_answer(self, address: str) -> None:
        """HostCannot if an engine of this host does not answer."""
        await ping(address, self.brand)

    async def destroy(self, handle: Handle, site: Site) -> None:
        # Whose network it is goes last.
        for name in filter(None, (handle.name, handle.data.get("keeper"))):
            if lifeline := self._lifelines.pop(name, None):
                lifeline.close()
            await self._remove_containers(handle.data["engine"], name, site)
        await network.unplug(handle.port, site)
        # What was captured outside of it.
        await run_checked(site, "rm", "-rf", "--", machine_handle.name_folder(handle.name, site))

    async def _remove_containers(self, address: str, name: str, site: Site) -> None:
        """The containers of an engine of our own died with it, and need none that answers."""
        deadline = asyncio.get_running_loop().time() + LIMITS.stop
        while True:
            try:
                return await self._remove_container(await self._find_engine(address, site), name, site)
            except HostCannot as error:
                if not is_own(address):
                    raise
                failure = error
            try:
                return await bury_engine(address)
            except HostCannot:
                # It lives, perhaps starting or ending, or is being buried for another of its containers.
                if asyncio.get_running_loop().time() > deadline:
                    raise failure from None
            await asyncio.sleep(0.05)

    async def _remove_container(self, engine: ContainerEngine, name: str, site: Site) -> None:
        """Remove a container of ours; one of that name that is somebody else's stays."""
        try:
            details = await engine.call_until_ready(engine.client.inspect_container, name)
            if (details["Config"]["Labels"] or {}).get(container_config.LABEL) == name:
                await engine.remove_container(details["Id"])
                await self.clear_runtime(details["Id"], site)
        except EngineRefusal as error:
            if error.status != NOT_FOUND:
                remedy = f"{engine.brand.client} rm --force {name}"
                raise HostCannot(f"the container could not be removed: {error.what}", name, remedy) from error

    async def clear_runtime(self, container: str, site: Site) -> None:
        """Remove what the engine forgot of a container that it removed, by its number."""


async def _can_delegate(site: Site) -> bool:
    """Whether systemd can have control groups of version 2 limit memory and choose CPUs. Podman tells of its own
    group's controllers, which systemd gives it as soon as a container asks."""
    try:
        return {b"memory", b"cpuset"} <= set((await site.get("/sys/fs/cgroup/cgroup.controllers")).split())
    except ToolFailed:
        return False


async def _is_in_group_of(pid: int, container: str, site: Site) -> bool:
    """Whether a process is in a control group that an engine made for a container; true if it has ended."""
    try:
        return container in (await site.get(f"/proc/{pid}/cgroup")).decode("utf-8", "replace")
    except ToolFailed:
        return True


async def _back_after(engine: ContainerEngine) -> float | None:
    """Seconds until it answers; None where it does not within the time that it is given."""
    began = time.monotonic()
    while time.monotonic() - began < _AWAY:
        await asyncio.sleep(_BETWEEN)
        with contextlib.suppress(HostCannot):
            await ping(engine.address, engine.brand, engine.socket_here)
            return time.monotonic() - began
    return None


async def _last_words(engine: ContainerEngine, container: str) -> str:
    with contextlib.suppress(EngineRefusal):
        said: bytes = await engine.call(engine.client.logs, container, tail=20)
        return _find_complaint(said.decode("utf-8", "replace"))[-2000:] or "it said nothing"
    return "it is gone"


def _find_complaint(said: str) -> str:
    """What a first process had to say, without the document by which it tells that it is ready. Pure."""
    return "\n".join(line for line in said.strip().splitlines() if not line.startswith('{"schema":"hold.v1"'))


plugin = DockerEnvironment()
