"""A machine of the user's own, reached by SSH: bare metal, a cloud instance, a guest of whatever hypervisor.

Options in [environments.NAME]:
`address`  where its SSH server answers, "user@host:port", or a name of ~/.ssh/config
`data`     the address on it that is measured, where that is not the one that SSH reaches
`image`    "own": what is measured are the programs that the machine has (the default); "chroot": those of the lab's
           image, which is sent there once and changes nothing of the machine's own
`key`, `host_key`, `jump`   in place of what the user's agent, known_hosts and configuration say

The machine is a site of its own, and it is used as it is: never destroyed, and booted again only with
`provision = "restart"`. What is measured runs in a control group with the CPUs and the memory that the study asks
for, in the machine's own network; docs/adr/machines-of-the-users.md says why, and how clients reach it. A chroot is a
machine of kind `host` there, and says so in the ledger.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from ipaddress import ip_address
from typing import Any, ClassVar, Literal

import asyncssh
from pydantic import IPvAnyAddress

from nearmetal import plugins
from nearmetal.config import LIMITS
from nearmetal.environments.host import limits_found
from nearmetal.errors import HostCannot, MachineLost, NearmetalError, NotProvisioned, TimedOut
from nearmetal.lab import borrowed, cgroup, network
from nearmetal.lab import machine as lab_machine
from nearmetal.lab.cgroup import Group
from nearmetal.lab.findings import finding, programs
from nearmetal.lab.site import must
from nearmetal.lab.ssh_commands import SshCommands
from nearmetal.lab.ssh_login import log_in
from nearmetal.lab.ssh_site import SshSite
from nearmetal.model import (
    Cost,
    Environment,
    EnvironmentSpec,
    Finding,
    Frozen,
    Handle,
    HostSpec,
    MachineSpec,
    Order,
    Provision,
    Recorder,
    SharedNetwork,
    Site,
    SiteRunning,
)
from nearmetal.model.study import SshTarget

ANSWER = LIMITS.boot
"""Seconds that a machine may be away, as one is that somebody boots again, before a trial is lost for it."""
BOOT = 900.0
"""Seconds that a machine may take to boot: the firmware of a server takes minutes by itself."""
_PAUSE = 1.0
"""Seconds between two attempts to reach it."""
_TOOLS = {"ip": "iproute2", "flock": "util-linux", "ethtool": "ethtool"}


# What is told to die with its parent does not when it gives up root, as web servers do. So a program that does holds
# the one end of a pipe, and what waits at the other removes the group. $1: the pipe. $2: a script. The rest: its words.
_WATCH = """
set -e
mkdir -p -- "${1%/*}"
mkfifo -m 600 -- "$1"
(
    exec <"$1" >/dev/null 2>&1
    rm -f -- "$1"
    shift
    script=$1
    shift
    trap '' HUP
    cat
    exec sh -c "$script" remove "$@"
) &
exec 9>"$1"
echo watching
exec sleep 2147483647
"""


_JOIN = 'pid=$1; shift; for group; do echo "$pid" >"$group/cgroup.procs"; done'


class Options(Frozen):
    address: SshTarget
    data: IPvAnyAddress | None = None
    image: Literal["own", "chroot"] = "own"
    key: str | None = None
    host_key: str | None = None
    jump: SshTarget | None = None


Confine = Callable[[str, MachineSpec, str, Site], Awaitable[Group]]
"""From a machine's name, limits and CPUs, on its site."""


class SshEnvironment:
    kind: ClassVar[str] = "ssh"
    Options: ClassVar[type[Frozen]] = Options
    provisions: ClassVar[tuple[Provision, ...]] = ("reuse", "restart")
    on_switch: ClassVar[bool] = False
    typical_ready: ClassVar[float] = 0.5

    def __init__(self) -> None:
        self._watchmen: dict[str, SiteRunning] = {}
        """By machine name: what ends its programs when the connection ends."""
        self._machines: dict[str, BorrowedMachine] = {}

    def host(self, options: Mapping[str, Any]) -> HostSpec:
        given = Options.model_validate(dict(options))
        return HostSpec(ssh=given.address, trunk=given.data, key=given.key, host_key=given.host_key, jump=given.jump)

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        options = Options.model_validate(dict(spec.options))
        found = [
            *await programs(site, _TOOLS),
            *_permitted(options, spec.provision, machine),
            *await limits_found(machine, site),
            await borrowed.found(site),
        ]
        if found[0].ok:
            found.append(await _address_found(site))
        if options.image == "chroot":
            found.append(lab_machine.image_found(machine.image))
        return found

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """From here on nobody else measures on it; and it has the image, where it is to have it."""
        await borrowed.hold(site)
        if Options.model_validate(dict(spec.options)).image == "chroot":
            await _host().prepare(spec, machine, site)

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        await _answered(site, ANSWER)
        await borrowed.hold(site)
        shared = await network.holding(str(site.underlay), site)
        if shared is None:
            raise HostCannot(f"none of its interfaces has the address {site.underlay} any more", site.name)
        if Options.model_validate(dict(order.options)).image == "chroot":
            return await _host().create(order.model_copy(update={"shared": shared}), site, ledger)
        handle = Handle(
            kind=self.kind,
            name=order.name,
            site=site.name,
            data={
                "role": order.role,
                "image": "none of ours: its own programs",
                "shared": shared.model_dump(mode="json"),
                "spec": order.spec.model_dump(mode="json"),
                "cpus": order.cpus,
            },
        )
        ledger.creating(handle)
        group = await self._confine(order.name, order.spec, order.cpus, site)
        whole = handle.model_copy(update={"data": {**handle.data, "group": asdict(group)}})
        ledger.creating(whole)
        return whole

    async def attach(self, handle: Handle, site: Site) -> "BorrowedMachine":
        if "group" not in handle.data:
            raise NotProvisioned("its creation was interrupted", handle.name)
        assert isinstance(site, SshSite)
        if (await site.exec(["test", "-d", handle.data["group"]["cpuset"]])).status != 0:
            # It went with another process' connection; there may be something to put back.
            spec = MachineSpec.from_json(handle.data["spec"])
            await self._confine(handle.name, spec, handle.data["cpus"], site)
        machine = BorrowedMachine(handle, site, self._confine)
        await machine.connect()
        self._machines[handle.name] = machine
        return machine

    async def _confine(self, name: str, spec: MachineSpec, cpus: str, site: Site) -> Group:
        """A control group for a machine's programs, which goes with the connection, and they with it."""
        group = await cgroup.create(name, spec, cpus, site, limit_memory=True)
        pipe = f"{borrowed.FILE}-{name}"
        watchman = await site.spawn(["sh", "-c", _WATCH, "watch", pipe, cgroup.REMOVE, *group.folders])
        self._watchmen[name] = watchman
        if await watchman.first_line(LIMITS.command) != b"watching":
            said = (await watchman.stop()).stderr.decode("utf-8", "replace")
            raise NotProvisioned(f"nothing would end its programs with the connection: {said.strip()}", name)
        return group

    async def destroy(self, handle: Handle, site: Site) -> None:
        """What was made there goes; the machine stays."""
        machine = self._machines.pop(handle.name, None)
        if machine:
            machine.close()
        await cgroup.remove(handle.name, site)
        watchman = self._watchmen.pop(handle.name, None)
        if watchman:
            with contextlib.suppress(MachineLost):
                await watchman.stop()


class BorrowedMachine(SshCommands):
    """A `Machine` of the user's own: all of a site, but for the limits.

    It has a connection of its own, whose far end is in the machine's control group, and so is all that is started
    there: joining a group takes a kernel ten milliseconds, which would be a command's time over again.
    """

    owned = False
    peer = None

    def __init__(self, handle: Handle, site: SshSite, confine: Confine) -> None:
        super().__init__(handle.name)
        shared = SharedNetwork.from_json(handle.data["shared"])
        self.role: str = handle.data["role"]
        self.site = site
        self.arch = site.arch
        self.boot_id = site.boot_id
        self.address = shared.address
        self.interface = shared.interface
        self.probe = site.probe
        self._group = Group(**handle.data["group"])
        self._spec = MachineSpec.from_json(handle.data["spec"])
        self._cpus: str = handle.data["cpus"]
        self._confine = confine

    async def connect(self) -> None:
        """NotProvisioned when it does not answer, or is not confined."""
        try:
            self._connection = await log_in(self.site.spec, self.site.where)
            async with asyncio.timeout(LIMITS.command):
                far_end = int(str((await self._connection.run("echo $PPID")).stdout))
            await must(self.site, "sh", "-c", _JOIN, "join", str(far_end), *self._group.folders)
        except (NearmetalError, asyncssh.Error, OSError, ValueError) as error:
            raise NotProvisioned(f"what runs on it cannot be confined: {error}", self.name) from None

    def started(self, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        return lab_machine.launch(self.probe, argv, env, *self.site.bound)

    async def reboot(self) -> None:
        with contextlib.suppress(MachineLost, TimedOut):
            await self.site.exec(["reboot"], timeout=LIMITS.stop)
        try:
            async with asyncio.timeout(BOOT):
                while self.site.boot_id == self.boot_id:
                    await asyncio.sleep(_PAUSE)
                    with contextlib.suppress(HostCannot, MachineLost):
                        await self.site.log_in_again()
        except TimeoutError:
            raise NotProvisioned(f"it did not come back within {BOOT:g} s", self.name) from None
        self.close()
        self.boot_id = self.site.boot_id
        await borrowed.hold(self.site)
        self._group = await self._confine(self.name, self._spec, self._cpus, self.site)
        await self.connect()

    async def cost(self) -> Cost:
        try:
            return await cgroup.cost(self._group, self.site)
        except HostCannot:
            raise self.lost() from None

    def close(self) -> None:
        """Let go of the connection; the machine goes on."""
        if self._connection:
            self._connection.abort()


def _host() -> Environment:
    found: Environment = plugins.load("environments", "host")
    return found


async def _answered(site: Site, within: float) -> None:
    """NotProvisioned when it does not answer in time."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within
    while True:
        try:
            await must(site, "true")
            return
        except MachineLost as error:
            if loop.time() > until:
                raise NotProvisioned(f"it does not answer any more: {error.what}", site.name) from None
        await asyncio.sleep(_PAUSE)


# ── What is missing ───────────────────────────────────────────────────────────────────────────────────────────────


def _permitted(options: Options, provision: Provision | None, machine: MachineSpec) -> list[Finding]:
    """What a study asks for that is not done to a machine of the user's unless they allow it. Pure."""
    is_chroot = options.image == "chroot"
    return [
        finding(
            "a chroot that is booted",
            not (is_chroot and provision == "restart"),
            "a chroot runs on the machine's kernel, which is not booted for it",
            'set provision = "reuse", or image = "own"',
        ),
        finding(
            "kernel arguments",
            not machine.kernel_arguments or (provision == "restart" and not is_chroot),
            "they take a boot of the machine, which is not booted unless you say so",
            'set provision = "restart" and image = "own", or leave isolation by the kernel out',
        ),
        finding(
            "neighbours",
            not machine.neighbours or is_chroot,
            "what goes on beside it comes from the lab's image, and the machine is to use its own programs",
            'set image = "chroot", or leave contention out',
        ),
    ]


async def _address_found(site: Site) -> Finding:
    """Whether what is measured can be reached by an address of the machine's own."""
    what, remedy = "an address to measure", 'name one that its clients reach: data = "192.168.7.2"'
    try:
        ip_address(str(site.underlay))
    except ValueError:
        return finding(what, False, "SSH goes by way of another host, so its own address is not known", remedy)
    there = await network.holding(str(site.underlay), site)
    return finding(
        what, there is not None, f"none of its interfaces has {site.underlay}, by which SSH reaches it", remedy
    )


plugin = SshEnvironment()
