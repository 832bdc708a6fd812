"""The environment `mock`: pretended machines, for trying a study's design and for testing plugins without root.

Options in [environments.NAME], and which programs its machines answer: docs/environments.md.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictBool

from nearmetal.config import LIMITS
from nearmetal.errors import MachineLost, NotProvisioned, TimedOut, ToolFailed
from nearmetal.lab import probe
from nearmetal.lab.architecture import X86_64
from nearmetal.lab.commands.command_errors import cannot_read, cannot_write, refuse_no_text, refuse_zero_bytes
from nearmetal.lab.mock import programs as mock_programs
from nearmetal.lab.mock.world import State, World, read, write
from nearmetal.model import (
    Completed,
    Cost,
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
)


class MockMachine:
    interface = "data"
    peer = None
    probe = probe.INSIDE
    arch = X86_64.machine

    def __init__(self, handle: Handle, site: Site, world: World, state: State) -> None:
        self.name = handle.name
        self.site = site
        self.role: str = handle.role
        self.owned = not handle.stays
        self.address = str(state["address"])
        self.boot_id = str(state["boot_id"])
        self._world = world

    def _find_state(self) -> State:
        state = self._world.read(self.name)
        if state is None or not state["alive"]:
            raise MachineLost("the machine is gone", self.name)
        if _is_faulty(state, "exec"):
            self._world.kill(self.name)
            raise MachineLost("the machine was lost on the way", self.name)
        return state

    def _make_call(self, argv: Sequence[str], stdin: bytes, env: Mapping[str, str] | None) -> mock_programs.Call:
        refuse_zero_bytes(argv, env)
        refuse_no_text(argv, env)
        return mock_programs.Call(self._world, self._find_state(), list(argv), stdin, env or {})

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = LIMITS.command,
    ) -> Completed:
        call = self._make_call(argv, stdin, env)
        try:
            return await asyncio.wait_for(mock_programs.run(call), timeout)
        except TimeoutError:
            raise TimedOut(f"`{' '.join(argv)}` did not end within {timeout:g} s", self.name) from None

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Running:
        call = self._make_call(argv, b"", env)
        if _is_faulty(call.state, "spawn"):
            raise ToolFailed(f"`{argv[0]}` does not start", self.name)
        running = _MockRunning(asyncio.ensure_future(mock_programs.run(call)))
        await asyncio.sleep(0)  # let it begin, so that what it serves is there when we return
        return running

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        refuse_zero_bytes([path])
        state = self._find_state()
        if any(read(state, str(folder)) is not None for folder in PurePosixPath(path).parents):
            raise cannot_write(path, "Not a directory", self.name)
        write(state, path, content, mode)
        self._world.save(state)

    async def get(self, path: str) -> bytes:
        refuse_zero_bytes([path])
        content = read(self._find_state(), path)
        if content is None:
            raise cannot_read(path, "No such file or directory", self.name)
        return content

    async def reboot(self) -> None:
        state = self._find_state()
        self._world.boot(state)
        self.boot_id = str(state["boot_id"])

    async def paused(self, since: float) -> float:
        return 0.0

    async def cost(self) -> Cost | None:
        if not self.owned:
            return None
        state = self._find_state()
        state["spent"] = state.get("spent", 0.0) + 0.5
        self._world.save(state)
        return Cost(cpu_seconds=state["spent"], memory_bytes=64 * 2**20)


class _MockRunning:
    def __init__(self, task: "asyncio.Future[Completed]") -> None:
        self._task = task

    async def wait(self, timeout: float) -> Completed:
        if not (await asyncio.wait({self._task}, timeout=timeout))[0]:
            raise TimedOut(f"the program still runs after {timeout:g} s")
        return self._wait_ended()

    async def stop(self) -> Completed:
        self._task.cancel()
        await asyncio.wait({self._task})  # not by awaiting it: our own cancellation would look like its
        return self._wait_ended()

    def _wait_ended(self) -> Completed:
        return Completed(status=143) if self._task.cancelled() else self._task.result()


def _is_faulty(state: State, step: str) -> bool:
    return state.get("fault") == step and state["count"] in state.get("fault_on", [1])


class Options(Frozen):
    speed: Annotated[float, Field(gt=0)] = 1.0
    noise: Annotated[float, Field(ge=0)] = 0.01
    drift: float = 0.0
    effects: Mapping[str, float] = {}
    label: str | None = None
    borrowed: StrictBool = False
    address: str | None = None
    missing: str | None = None
    fault: Literal["create", "attach", "exec", "spawn"] | None = None
    fault_on: tuple[int, ...] = (1,)


class Mock:
    kind: ClassVar[str] = "mock"
    Options: ClassVar[type[Frozen]] = Options
    provisions: ClassVar[tuple[Provision, ...]] = ("boot", "restart", "restore", "reuse")
    typical_ready: ClassVar[float] = 0.02

    def describe(self, options: Mapping[str, Any], spec: MachineSpec) -> Description:
        return Description(family="pretended", kernel="own", placement="apart")

    async def check(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        missing = spec.options.get("missing")
        if missing:
            return [Finding(what=f"mock {missing}", ok=False, detail="as the study asked", remedy="remove `missing`")]
        return [Finding(what="mock", ok=True, detail="needs nothing")]

    async def versions(self, options: Mapping[str, Any], site: Site) -> Mapping[str, str]:
        """Nothing: nearmetal itself pretends them."""
        return {}

    async def prepare(self, spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> None:
        """Nothing: there is nothing to pretend."""

    async def create(self, order: Order, site: Site, ledger: Recorder) -> Handle:
        world = World(site.name)
        borrowed = bool(order.options.get("borrowed"))
        name = str(order.options.get("address", "borrowed")) if borrowed else order.name
        handle = Handle(kind=self.kind, name=name, site=site.name, role=order.role, stays=borrowed)
        ledger.creating(handle)
        if borrowed and world.read(name) is not None:
            return handle
        options = dict(order.options)
        state = world.make(
            name,
            str(options.pop("address", "")),
            **{**options, "environment": options.get("label", order.role)},
            vcpus=order.spec.vcpus,
            memory=order.spec.memory,
            nic=order.spec.nic,
        )
        state["arguments"] = [] if borrowed else list(order.spec.kernel_arguments)
        state["boots"] = 0
        world.boot(state)
        if _is_faulty(state, "create"):
            raise NotProvisioned("the pretended machine did not come up", name, "this is what the study asked for")
        return handle

    async def attach(self, handle: Handle, site: Site) -> MockMachine:
        world = World(site.name)
        state = world.read(handle.name)
        if state is None or not state["alive"]:
            raise MachineLost("the machine is gone", handle.name)
        if _is_faulty(state, "attach"):
            raise NotProvisioned("the pretended machine did not answer", handle.name)
        return MockMachine(handle, site, world, state)

    async def open_door(self, handle: Handle) -> Door | None:
        return None

    async def destroy(self, handle: Handle, site: Site) -> None:
        if not handle.stays:
            World(site.name).remove(handle.name)


plugin = Mock()
