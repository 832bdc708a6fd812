"""A container that runs: its commands by the engine's API, what it costs by its control group."""

import asyncio
import json
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from nearmetal.errors import HostCannot, MachineLost
from nearmetal.lab import cgroup, machine_programs, probe
from nearmetal.lab.commands.background_commands import OutputCollector, list_signals, write_stdin
from nearmetal.lab.commands.command_errors import refuse_no_text, refuse_zero_bytes
from nearmetal.lab.containers import config as container_config
from nearmetal.lab.containers.api import PODMAN, ContainerEngine, EngineRefusal, read_frames
from nearmetal.lab.machines import pause_events
from nearmetal.lab.machines.pause_events import PauseEvent
from nearmetal.lab.machines.shared_kernel import SharedKernelMachine
from nearmetal.lab.remote.commands import StartedCommands
from nearmetal.model import ControlGroup, Handle, Site

_PAUSE, _UNPAUSE = "pause", "unpause"


async def _measure_pause(engine: ContainerEngine, container: str, since: float) -> float:
    """Seconds that it was paused since then (Unix time), from what its engine remembers; 0 where that keeps no events.

    The engine keeps its last few hundred. In a container that is measured hardly anything happens that is one, but
    where others come and go by the dozen meanwhile, a pause may be forgotten.
    """
    until = time.time()
    try:
        events = await engine.call(_list_pauses, engine, container, since, until)
    except (EngineRefusal, HostCannot):
        return 0.0
    return pause_events.sum_paused_seconds(events, since, until)


def _list_pauses(engine: ContainerEngine, container: str, since: float, until: float) -> list[PauseEvent]:
    """By a request of our own: of a span that is over Podman tells nothing, and the SDK asks for no other."""
    filters = json.dumps({"container": [container], "event": [_PAUSE, _UNPAUSE]})
    until_now = {"stream": "false"} if engine.brand == PODMAN else {"until": f"{until:.6f}"}
    client = engine.client
    answer = client.get(
        f"{client.base_url}/v{client.api_version}/events",
        params={"since": f"{since:.6f}", "filters": filters, **until_now},
        timeout=client.timeout,
    )
    answer.raise_for_status()
    lines = map(json.loads, answer.text.splitlines())
    return [PauseEvent(one["timeNano"] / 1e9, is_stop=one["Action"] == _PAUSE) for one in lines]


Signal = Callable[[Sequence[str], int], Awaitable[None]]
"""Signals a command's process group: by the signals' names, and by the process that the engine knows it by."""


class Container(StartedCommands, SharedKernelMachine):
    called = "a container"
    probe = probe.INSIDE

    def __init__(self, handle: Handle, site: Site, engine: ContainerEngine) -> None:
        super().__init__(handle, site)
        self.engine = engine
        self.id: str = handle.data["container"]
        self.own_address = handle.own_address
        self._group = container_config.find_group(handle)
        self._place = container_config.build_place(handle)

    async def group(self) -> ControlGroup:
        self._group = self._group or await cgroup.find_group(self.first.pid, self.site)
        return self._group

    async def start(self, argv: Sequence[str], env: Mapping[str, str] | None, stdin: bytes) -> "_Exec":
        refuse_zero_bytes(argv, env)
        refuse_no_text(argv, env)
        await self.first.require(self.site, self.name)
        command, signals = self.prepared(argv, env)
        try:
            made = await self.engine.call(self.engine.client.exec_create, self.id, command, stdin=True)
            stream = await self.engine.stream(f"exec/{made['Id']}/start", {"Detach": False, "Tty": False})
        except EngineRefusal as error:
            await self.first.require(self.site, self.name)
            raise HostCannot(f"the engine refuses to run a command: {error.what}", self.name) from error
        except HostCannot as error:
            raise MachineLost(f"its engine is gone: {error.what}", self.name) from error
        return _Exec(self, made["Id"], stream, stdin, signals)

    async def paused(self, since: float) -> float:
        return await _measure_pause(self.engine, self.id, since)

    def prepared(self, argv: Sequence[str], env: Mapping[str, str] | None) -> tuple[list[str], Signal]:
        """What the engine is told to run, and how that is signalled."""
        return machine_programs.build_words(self.probe, argv, env, *self._place), self._signal

    def watched(self, abandon: Callable[[], None]) -> AbstractContextManager[None]:
        """While a command runs. Its streams end with the container, so there is nobody to tell."""
        return nullcontext()

    async def _signal(self, names: Sequence[str], pid: int) -> None:
        """The runtime makes a command the leader of a session of its own."""
        for name in names:
            await self.site.exec(["kill", f"-{name}", "--", f"-{pid}"])


class _Exec(OutputCollector):
    """A command in a container, and the stream that its bytes come by."""

    def __init__(
        self,
        container: Container,
        id: str,
        stream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        stdin: bytes,
        signals: Signal,
    ) -> None:
        self._container = container
        self._signals = signals
        self._engine = container.engine
        self._id = id
        self._reader, self._writer = stream
        self._feeding = asyncio.ensure_future(write_stdin(self._writer, stdin))
        super().__init__(container.name)

    async def collect_output(self) -> int:
        try:
            with self._container.watched(self._writer.transport.abort):
                async for is_complaint, piece in read_frames(self._reader):
                    (self.add_stderr if is_complaint else self.add_stdout)(piece)
        finally:
            self._feeding.cancel()
            self._writer.close()
        status = await self._status()
        if status is None:
            await self._container.first.require(self._container.site, self._container.name)
            raise MachineLost("the engine does not tell how a command ended", self._container.name)
        await self._container.first.outlived(status, self._container.site, self._container.name)
        return status

    async def _inspect(self) -> Mapping[str, Any]:
        """What the engine knows of it; nothing when the container is gone."""
        try:
            return dict(await self._engine.call(self._engine.client.exec_inspect, self._id))
        except (EngineRefusal, HostCannot):
            return {}

    async def _status(self) -> int | None:
        """The engine closes the streams shortly before it has noted the status."""
        for _ in range(100):
            state = await self._inspect()
            if not state or not state["Running"]:
                return state.get("ExitCode")
            await asyncio.sleep(0.01)
        return None

    async def signal(self, number: signal.Signals) -> None:
        """Once the engine knows which process it is."""
        for _ in range(50):
            state = await self._inspect()
            if not state or not state["Running"]:
                return
            if state["Pid"]:
                names = [one.name.removeprefix("SIG") for one in list_signals(number)]
                await self._signals(names, state["Pid"])
                return
            await asyncio.sleep(0.02)
        self.unsignalled = "the engine does not tell which process it is"
