"""What commands run on, and what makes it: sites, machines, environments, the stage of a trial."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from nearmetal.model.base import Frozen, Provision, Role
from nearmetal.model.description import Description
from nearmetal.model.handle import Handle, Port, SharedNetwork
from nearmetal.model.study import EnvironmentSpec, HostSpec, LinkSpec, MachineSpec
from nearmetal.progress_messages import Say


class Completed(Frozen):
    """How a command ended. A nonzero status is a value, not an error."""

    status: int
    """What it ended with; 0 is success."""
    stdout: bytes = b""
    """All of it, as bytes; `text` decodes it."""
    stderr: bytes = b""
    late: float | None = None
    """Seconds after the instant that several commands were to start at; None for one that had no such instant."""
    left: tuple[str, ...] = ()
    """The names of processes that it started and that outlived it, as far as somebody looked."""

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """What it wrote to stderr."""
        return self.stderr.decode("utf-8", "replace").strip()


class Running(Protocol):
    """A command that goes on in the background, and ends with whoever started it."""

    async def wait(self, timeout: float) -> Completed:
        """Wait for its end. TimedOut when it goes on; MachineLost when the machine is gone."""
        ...

    async def stop(self) -> Completed:
        """SIGTERM, then after a grace SIGKILL. Idempotent."""
        ...


class SiteRunning(Running, Protocol):
    """A command in the background of a site."""

    async def first_line(self, timeout: float) -> bytes:
        """The first line of its output, by which some programs say that they are ready, without the newline.

        What it wrote until then when it ended without one. TimedOut, MachineLost.
        """
        ...

    async def kill(self) -> Completed:
        """SIGKILL, to all of its process group. Idempotent. MachineLost if it cannot be sent."""
        ...


class Commands(Protocol):
    """Anything commands run on: a site, or a machine. Argument vectors only; nothing passes through a shell.

    Whatever it is, its errors are these and no others; an OSError never comes through:

    - MachineLost: it is gone, or does not answer any more.
    - BadInput: a word or a path holds a zero byte, or one that goes elsewhere is no UTF-8.
    - HostCannot: it does not start a command, or does not take a file.
    - ToolFailed: it does not give a file.

    A program that is not there ends with status 127, as in a shell; on the controller's own host it is HostCannot.
    """

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = ...,
    ) -> Completed:
        """Run to the end. MachineLost, HostCannot, BadInput, or TimedOut (what was started is killed)."""
        ...

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Running:
        """Start, and do not wait. MachineLost, HostCannot, BadInput."""
        ...

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        """Write a whole file; parents are made. MachineLost, HostCannot, BadInput."""
        ...

    async def get(self, path: str) -> bytes:
        """Read a whole file. MachineLost, ToolFailed (there is none, or it cannot be read), BadInput."""
        ...


class Site(Commands, Protocol):
    """A host where machines live and changes are made, local or by SSH."""

    name: str
    """As the study calls it; "local" is this host."""
    arch: str
    """As `uname -m` has it."""
    boot_id: str
    """Its kernel's."""
    say: Say
    """To whoever waits for what is done there."""

    @property
    def spec(self) -> HostSpec | None:
        """How it is reached; None for the host that the controller runs on."""
        ...

    @property
    def probe(self) -> str:
        """Where the probe lies on it."""
        ...

    @property
    def state(self) -> str:
        """The folder for the files of its machines."""
        ...

    @property
    def underlay(self) -> str | None:
        """The address by which other hosts reach it. None for the controller's, where it depends on who asks."""
        ...

    @property
    def bound(self) -> Sequence[str]:
        """Options of the probe's `launch` and `hold` by which a program ends with the controller, however that ends."""
        ...

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> SiteRunning: ...

    async def part(self, path: str, begin: int, most: int) -> bytes:
        """Of a file of any size so many bytes from there on; none where it ends before, or is not there.

        MachineLost, TimedOut, ToolFailed (it cannot be read), BadInput.
        """
        ...

    async def forward(self, port: int) -> int:
        """A port of the controller's loopback that leads to this one of the site's, until `withdraw`."""
        ...

    async def withdraw(self, port: int) -> None:
        """Let go of what `forward` made for this port of the site. Idempotent."""
        ...

    def socket(self, path: str) -> AbstractAsyncContextManager[str]:
        """The path on the controller's host of a socket that leads to the one at this path there."""
        ...

    async def open_socket(self, path: str) -> str:
        """The path here of a Unix socket of the site: as `socket`, for as long as the site is open. MachineLost."""
        ...

    async def place(self, file: Path, sha256: str) -> str:
        """Have a file of the controller's host there; its path there. A file with these contents is sent only once."""
        ...


class Cost(Frozen):
    """What the host spends on a machine, the virtual machine monitor included, since it was made."""

    cpu_seconds: float
    """Of all its processes, those that have ended included."""
    memory_bytes: int | None
    """The proportional set size of all processes of it, and the kernel's memory on their behalf; page cache apart.
    None where that cannot be told: no other measure of memory is to stand beside it."""


class Order(Frozen):
    """Everything an environment needs to make one machine."""

    name: str
    """Unique on the site, derived from the run; what is made carries it."""
    role: Role
    """Of the machine: it is measured, or loads what is."""
    spec: MachineSpec
    """What the study asks for, shaped by treatments."""
    options: Mapping[str, Any]
    """What stands in [environments.NAME] besides the kind."""
    provision: Provision
    """How a boot comes about; docs/study-file.md has the four ways."""
    port: Port | None
    """Its place on the lab's switch; None where its placement is another."""
    shared: SharedNetwork | None = None
    """For a machine that is not to have a network of its own, and so no port."""
    cpus: str
    """Host CPUs it may use, in cpuset notation; "" for all."""
    logins: bool = False
    """Whether people will log in by SSH, where it is not reached so anyway."""


class Machine(Commands, Protocol):
    name: str
    """Unique on its site; errors name it."""
    role: str
    site: Site
    """The host that carries it."""
    arch: str
    """As `uname -m` has it."""
    boot_id: str
    """As its kernel tells; changes with each boot."""
    owned: bool
    """Made by us, so that it may be rebooted and destroyed; a user's machine is only used."""
    address: str
    """On the data network."""
    interface: str
    """The data NIC's name inside."""
    peer: str | None
    """The other end of the data link, on the site, as "NAMESPACE/INTERFACE"; None where it cannot be known."""
    probe: str
    """Where the probe lies inside."""

    async def reboot(self) -> None:
        """Return when it answers again, with a new boot_id. HostCannot where the kind has no such thing."""
        ...

    async def paused(self, since: float) -> float:
        """Seconds that it was paused since then (Unix time) while its clock went on, as far as whoever runs it says.

        0 if nobody says so. A pause in which the machine's clock stands still needs no word: it is seen by the clock.
        """
        ...

    async def cost(self) -> Cost | None:
        """None where the host cannot tell: a machine that is not ours. MachineLost of one that is gone."""
        ...


def find_own_address(machine: Machine) -> str:
    """Where what serves in a machine listens: its address, unless that is translated on the way to it."""
    return getattr(machine, "own_address", None) or machine.address


@dataclass(frozen=True)
class Door:
    """A way into a machine that is up, for a person: a command of this host whose streams are those of the program."""

    build_command: Callable[[Sequence[str], Mapping[str, str], bool], list[str]]
    """The command, from the program's argument vector, what its environment has besides that of `Machine.exec`, and
    whether it gets a terminal."""
    own_failures: tuple[int, ...] = ()
    """Statuses by which the command says that it failed itself, though a program may end with them too."""
    leaves: Literal["nothing", "seen", "hidden"] = "nothing"
    """What of the program goes on if the command is killed: nothing, or processes, which this host sees or which are
    hidden from it."""


class Finding(Frozen):
    """Something doctor or an environment found out: whether it holds, and the remedy where it does not."""

    what: str
    """What was looked for, in a few words."""
    ok: bool
    """Whether it holds."""
    detail: str = ""
    """What was seen, for people."""
    remedy: str = ""
    """What to do or to type if it does not hold."""
    fatal: bool = True
    """Without it this environment cannot run; else it is only worth knowing."""
    packages: tuple[str, ...] = ()
    """Debian's names of the packages that are missing, if installing them is the remedy."""


class Recorder(Protocol):
    """The ledger as an environment sees it: what is made is written down before it exists."""

    def creating(self, handle: Handle) -> None: ...


class Environment(Protocol):
    """Makes machines of one kind."""

    kind: ClassVar[str]
    Options: ClassVar[type[Frozen]]
    """What [environments.NAME] takes besides `kind` and `provision`; `Frozen` itself for a kind that takes nothing."""
    provisions: ClassVar[tuple[Provision, ...]]
    """What it can do, its usual one first."""
    typical_ready: ClassVar[float]
    """Seconds from `create` to an answering machine and back to nothing, as usually seen: for estimates only."""

    def describe(self, options: Mapping[str, Any], spec: MachineSpec) -> Description:
        """Pure: what its machines are, from what stands in [environments.NAME] and what each is asked to be."""
        ...

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        """What is missing here; nothing is provisioned or changed."""
        ...

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        """By name, the version of each program of the site's that makes its machines, for readers of the results.

        `options` are what stands in [environments.NAME]. Empty if no program does. HostCannot if one is missing.
        """
        ...

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """What is done once for all its machines, so that no boot's time to ready pays for it. Idempotent."""
        ...

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        """Make it and return when it runs. `ledger.creating` comes before anything exists. NotProvisioned."""
        ...

    async def attach(self, handle: Handle, site: Site) -> Machine:
        """Reach it. NotProvisioned when it does not answer in time, with the last lines of its console."""
        ...

    async def open_door(self, handle: Handle) -> Door | None:
        """The way into a machine of this host for `nearmetal exec`, `ssh` and `cp`. HostCannot if it does not answer.

        None for a kind without such a command. `exec` then goes by `Machine.exec`, and `ssh` is refused.
        """
        ...

    async def destroy(self, handle: Handle, site: Site) -> None:
        """Remove all that `create` made, however far it came. Idempotent; also for a handle of a dead process."""
        ...


VIRTUAL_HARDWARE = frozenset(
    {
        *("accel", "cpu_model", "nic", "disk", "disk_format", "disk_cache"),
        *("board", "vmm", "vmm_arguments", "kernel"),
    }
)
"""Keys of [machine] that mean something only to machines which are given hardware."""


class Service(Protocol):
    """A program that serves while a workload runs, placed on the CPUs that are meant for what is measured."""

    machine: Machine
    """Where it runs."""

    async def alive(self) -> bool:
        """Whether it still runs, as the same process. MachineLost."""
        ...

    async def wait(self, timeout: float) -> Completed:
        """How it ended by itself. TimedOut while it goes on; MachineLost."""
        ...

    async def stop(self) -> Completed:
        """SIGTERM, then after a grace SIGKILL; how it ended. Idempotent."""
        ...


class Stage(Protocol):
    """The machines of a trial."""

    @property
    def servers(self) -> tuple[Machine, ...]: ...

    @property
    def clients(self) -> tuple[Machine, ...]: ...

    @property
    def sites(self) -> Mapping[str, Site]: ...

    @property
    def spec(self) -> MachineSpec:
        """What every server was asked to be."""
        ...

    @property
    def link(self) -> LinkSpec: ...

    @property
    def cpus(self) -> Mapping[str, Sequence[int]]:
        """By machine name: the CPUs it has, as it numbers them itself."""
        ...

    @property
    def ports(self) -> Mapping[str, int]:
        """By the name of each of the study's services that has one: the TCP port on which it listens."""
        ...

    @property
    def connect(self) -> str:
        """ "shared": all clients load the first server; "pairs": client i loads server i."""
        ...

    @property
    def seed(self) -> int:
        """Of what chance decides in this trial, such as when requests arrive: 32 bits, the same for all treatments of
        a block's attempt, which are compared, and others for every other block and repeat."""
        ...

    def facing(self, client: int) -> Machine:
        """The server that a client loads, by the client's index."""
        ...

    async def serve(self, machine: Machine, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Service:
        """Start what serves, where what is measured belongs: on a server that is kept alone, on the CPU meant for it.

        MachineLost, HostCannot, BadInput.
        """
        ...

    async def together(self, commands: Sequence[tuple[Machine, Sequence[str]]], limit: float) -> list[Completed]:
        """Start each command on its machine at one instant, silently, and return how each ended, in this order.

        Those on servers are placed as by `serve`. TimedOut if one goes on for more than `limit` seconds; ToolFailed if
        it cannot be started or prints too much; MachineLost.
        """
        ...
