"""A stage of scripted machines: what a workload asks of them is written down, what they answer is given."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nearmetal.errors import MachineLost, TimedOut
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.service import start_service
from nearmetal.model import Completed, Cost, LinkSpec, Machine, MachineSpec, Running, Service, Site

GOLDEN = Path(__file__).parent.parent / "golden" / "tools"

Answer = Callable[[list[str]], Completed]


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def said(name: str, status: int = 0) -> Completed:
    """What a real tool said, from a golden file."""
    return Completed(status=status, stdout=golden(name))


class ScriptedRunning:
    """A server that goes on until it is stopped, or has ended already."""

    def __init__(self, machine: "ScriptedMachine", ended: Completed | None) -> None:
        self.machine = machine
        self._ended = ended
        self.stopped = 0

    async def wait(self, timeout: float) -> Completed:
        if self._ended is None:
            raise TimedOut("it goes on", self.machine.name)
        return self._ended

    async def stop(self) -> Completed:
        self.stopped += 1
        if self.machine.lost:
            raise MachineLost("gone", self.machine.name)
        return self._ended or Completed(status=143, stderr=b"stopped in its prime")


class ScriptedMachine:
    site: Site = LocalSite()
    arch = "x86_64"
    boot_id = "boot"
    owned = True
    interface = "data"
    peer: str | None = None
    probe = "/run/nearmetal/nearmetal-probe"

    def __init__(self, name: str, address: str, answer: Answer, server_ended: Completed | None = None) -> None:
        self.name = name
        self.role = name.rstrip("0123456789")
        self.address = address
        self.ran: list[list[str]] = []
        self.files: dict[str, bytes] = {}
        self.started: list[ScriptedRunning] = []
        self.lost = False
        self._answer = answer
        self._server_ended = server_ended

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Completed:
        if self.lost:
            raise MachineLost("gone", self.name)
        self.ran.append(list(argv))
        return self._answer(list(argv))

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Running:
        self.ran.append(list(argv))
        self.started.append(ScriptedRunning(self, self._server_ended))
        return self.started[-1]

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        self.files[path] = content

    async def get(self, path: str) -> bytes:
        raise AssertionError("no workload reads files")

    async def reboot(self) -> None:
        raise AssertionError("no workload reboots")

    async def paused(self, since: float) -> float:
        return 0.0

    async def cost(self) -> Cost | None:
        return None


class ScriptedStage:
    """`together` runs the commands one after the other and keeps the limit that it was given."""

    def __init__(
        self,
        servers: Sequence[Machine],
        clients: Sequence[Machine],
        connect: str = "shared",
        link: LinkSpec | None = None,
    ) -> None:
        self.servers: tuple[Machine, ...] = tuple(servers)
        self.clients: tuple[Machine, ...] = tuple(clients)
        self.sites: Mapping[str, Site] = {}
        self.spec = MachineSpec()
        self.link = link or LinkSpec()
        self.cpus: Mapping[str, Sequence[int]] = {}
        self.ports: Mapping[str, int] = {}
        self.connect = connect
        self.seed = 0
        self.limits: list[float] = []

    def facing(self, client: int) -> Machine:
        return self.servers[client] if self.connect == "pairs" else self.servers[0]

    async def serve(self, machine: Machine, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Service:
        return await start_service(machine, argv, env, None, 0)

    async def together(self, commands: Sequence[tuple[Machine, Sequence[str]]], limit: float) -> list[Completed]:
        self.limits.append(limit)
        return [await machine.exec(argv) for machine, argv in commands]
