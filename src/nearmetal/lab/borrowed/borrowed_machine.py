"""A machine that is somebody's, in use: a control group on it, a connection of its own, and nothing left behind.

What is measured runs in the group, with the CPUs and the memory of the study. The group and all in it end with the
connection, however that ends; docs/adr/machines-of-the-users.md has the reasons.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from ipaddress import ip_address
from typing import TypeVar

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, MachineLost, NearmetalError, NotProvisioned, TimedOut
from nearmetal.lab import cgroup, host_lock, machine_programs
from nearmetal.lab.local_site import run_checked
from nearmetal.lab.machines import scratch
from nearmetal.lab.networks import network
from nearmetal.lab.ssh.commands import SshCommands
from nearmetal.lab.ssh.login import describe_error
from nearmetal.lab.ssh.login_shell import ask_shell
from nearmetal.lab.ssh.root_access import log_in_as_root
from nearmetal.lab.ssh.ssh_site import SshSite
from nearmetal.lab.ssh_library import asyncssh
from nearmetal.model import (
    ControlGroup,
    Cost,
    Finding,
    Handle,
    MachineImage,
    MachineSpec,
    Order,
    Recorder,
    SharedNetwork,
    Site,
    SiteRunning,
)

TOOLS = {"ip": "iproute2", "flock": "util-linux", "ethtool": "ethtool"}
"""What has to be installed on it, by the Debian packages that have it."""
BOOT = 900.0
"""Seconds that a machine may take to boot: the firmware of a server takes minutes by itself."""
_PAUSE = 1.0
"""Seconds between two attempts to reach it."""

# What is told to die with its parent does not when it gives up root, as web servers do. So a program that does holds
# the one end of a pipe, and what waits at the other removes the group. $1: the pipe. $2: a script. The rest: its words.
_WATCH = """
set -e
mkdir -p -- "${1%/*}"
rm -f -- "$1" # of a machine whose host lost its power
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

Kind = TypeVar("Kind", bound="BorrowedMachine")


class Borrowing:
    """The machines of one environment that are in use, each known by its handle's name.

    `there` is the machine itself as a site, which one logs in to as root.
    """

    def __init__(self) -> None:
        self._watchmen: dict[str, SiteRunning] = {}
        """By machine name: what ends its programs when the connection ends."""
        self._machines: dict[str, BorrowedMachine] = {}

    async def borrow(self, handle: Handle, order: Order, cpus: str, there: Site, ledger: Recorder) -> Handle:
        """Make the group for what will run, on these of its own CPUs; the handle has it. HostCannot, NotProvisioned."""
        noted = handle.knowing(
            role=order.role,
            image=MachineImage(name="none of ours: its own programs"),
            shared=await find_measured(there),
            data={"spec": order.spec.model_dump(mode="json"), "cpus": cpus},
        )
        ledger.creating(noted)
        whole = noted.knowing(data={"group": asdict(await self.confine(noted, there))})
        ledger.creating(whole)
        return whole

    async def attach(self, kind: type[Kind], handle: Handle, there: SshSite, site: Site) -> Kind:
        """`site` is the host that the machine is on, or the machine itself where it is nobody's guest."""
        if "group" not in handle.data:
            raise NotProvisioned("its creation was interrupted", handle.name)
        if (await there.exec(["test", "-d", handle.data["group"]["cpuset"]])).status != 0:
            # It went with another process' connection; there may be something to put back.
            await self.confine(handle, there)
        machine = kind(handle, there, site, self)
        await machine.connect()
        self._machines[handle.name] = machine
        return machine

    async def confine(self, handle: Handle, there: Site) -> ControlGroup:
        """A control group for a machine's programs, which goes with the connection, and they with it."""
        name, spec = handle.name, MachineSpec.from_json(handle.data["spec"])
        group = await cgroup.create_group(name, spec, handle.data["cpus"], there, limit_memory=True)
        pipe = scratch.name_scratch(name, "/run", "watch")
        watchman = await there.spawn(["sh", "-c", _WATCH, "watch", pipe, cgroup.REMOVE, *group.folders])
        self._watchmen[name] = watchman
        if await watchman.first_line(LIMITS.command) != b"watching":
            said = (await watchman.stop()).complaint
            raise NotProvisioned(f"nothing would end its programs with the connection: {said}", name)
        return group

    async def give_back(self, name: str, there: Site) -> None:
        """What was made there goes; the machine stays. Idempotent."""
        self.let_go(name)
        await cgroup.remove_group(name, there)
        await scratch.remove_scratch(name, there)
        if watchman := self._watchmen.pop(name, None):
            with contextlib.suppress(MachineLost):
                await watchman.stop()

    def let_go(self, name: str) -> None:
        """Of the connection, for a machine that is about to be stopped."""
        if machine := self._machines.pop(name, None):
            machine.close()


class BorrowedMachine(SshCommands):
    """A `Machine` of the user's own: all of it, but for the limits.

    It has a connection of its own, whose far end is in the machine's control group, and so is all that is started
    there: joining a group takes a kernel ten milliseconds, which would be a command's time over again.
    """

    owned = False
    peer: str | None = None

    def __init__(self, handle: Handle, there: SshSite, site: Site, borrowing: Borrowing) -> None:
        super().__init__(handle.name)
        assert handle.shared is not None
        self.role: str = handle.role
        self.site = site
        self.there = there
        self.arch = there.arch
        self.boot_id = there.boot_id
        self.address = handle.shared.address
        self.interface = handle.shared.interface
        self.probe = there.probe
        self._group = ControlGroup(**handle.data["group"])
        self._handle = handle
        self._borrowing = borrowing

    async def connect(self) -> None:
        """NotProvisioned when it does not answer, or is not confined."""
        try:
            self._connection = await log_in_as_root(self.there.spec, self.there.where)
            async with asyncio.timeout(LIMITS.command):
                far_end = int((await ask_shell(self._connection, "echo $PPID"))[0])
            await run_checked(self.there, "sh", "-c", _JOIN, "join", str(far_end), *self._group.folders)
        except (NearmetalError, asyncssh.Error, OSError, ValueError) as error:
            self.close()
            said = describe_error(error)
            raise NotProvisioned(f"what runs on it cannot be confined: {said}", self.name) from None

    def started(self, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        return machine_programs.build_launch(self.there, argv, env)

    async def reboot(self) -> None:
        with contextlib.suppress(MachineLost, TimedOut):
            await self.there.exec(["reboot"], timeout=LIMITS.stop)
        try:
            async with asyncio.timeout(BOOT):
                while self.there.boot_id == self.boot_id:
                    await asyncio.sleep(_PAUSE)
                    with contextlib.suppress(HostCannot, MachineLost):
                        await self.there.log_in_again()
        except TimeoutError:
            raise NotProvisioned(f"it did not come back within {BOOT:g} s", self.name) from None
        self.close()
        self.boot_id = self.there.boot_id
        await host_lock.hold_host(self.there)
        self._group = await self._borrowing.confine(self._handle, self.there)
        await self.connect()

    def must_be_connected(self) -> None:
        """MachineLost where the login ended, and with it all that was started on the machine."""
        if self._connection is None or self._connection.is_closed():
            raise self.lost()

    async def paused(self, since: float) -> float:
        return 0.0  # the clock of a guest stands still with it, and bare metal is not paused

    async def cost(self) -> Cost | None:
        self.must_be_connected()
        try:
            return await cgroup.read_group_cost(self._group, self.there)
        except HostCannot:
            raise self.lost() from None

    def close(self) -> None:
        """Let go of the connection; the machine goes on."""
        if self._connection:
            self._connection.abort()


async def wait_answer(there: Site, within: float) -> None:
    """Return when it answers. NotProvisioned when it does not in time."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within
    while True:
        try:
            await run_checked(there, "true")
            return
        except MachineLost as error:
            if loop.time() > until:
                raise NotProvisioned(f"it does not answer any more: {error.what}", there.name) from None
        await asyncio.sleep(_PAUSE)


async def find_measured(there: Site) -> SharedNetwork:
    """Its place in its own network: where it is measured. HostCannot, with what helps, when that is not known."""
    remedy = 'name one that its clients reach: data = "192.168.7.2"'
    try:
        ip_address(str(there.underlay))
    except ValueError:
        detail = "SSH goes by way of another host, so its own address is not known"
        raise HostCannot(detail, there.name, remedy) from None
    found = await network.find_interface(str(there.underlay), there)
    if found is None:
        raise HostCannot(f"none of its interfaces has {there.underlay}, by which SSH reaches it", there.name, remedy)
    return found


async def check_address(there: Site) -> Finding:
    """Whether what is measured can be reached by an address of the machine's own."""
    what = "an address to measure"
    try:
        await find_measured(there)
    except HostCannot as error:
        return Finding(what=what, ok=False, detail=error.what, remedy=error.remedy)
    return Finding(what=what, ok=True)
