"""Bandwidth between each client and its server by iperf3: TCP, or UDP at an offered rate, either way or both."""

import asyncio
import time
from typing import ClassVar

from nearmetal.errors import TimedOut, ToolFailed
from nearmetal.model import Completed, Frozen, Machine, Measurement, Service, Stage, Warned, find_own_address
from nearmetal.workloads._parameters import format_number
from nearmetal.workloads._stage import ended_within, hint_at_loss, last_words, must_connect, stop_all, uneven_start
from nearmetal.workloads.iperf3 import responses as iperf3_responses
from nearmetal.workloads.iperf3.output import find_failure, never_started, parse
from nearmetal.workloads.iperf3.parameters import PORT, Iperf3Parameters

READY = 30.0
"""Seconds within which a server has to answer."""
POLL = 0.1
SLACK = 45.0
"""Seconds beyond the run itself: iperf3 greets its server, waits for what is still on the way, and fetches the
server's figures. It gives up a greeting that stays unanswered after 30 s."""
STARTS = 6
"""How often a run is started, at the most, when the network lost what it begins with. With 5 % of all frames and two
streams one start in five is lost so: all of three would be in one trial of 160, whose block is then repeated."""
SETTLED = 1.0
"""Seconds before it is started again: the word that the client has gone may be lost too, and is sent once more."""


class Iperf3:
    kind: ClassVar[str] = "iperf3"
    Parameters: ClassVar[type[Frozen]] = Iperf3Parameters
    has_clients: ClassVar[bool] = True
    primary = "bandwidth"
    preparing = 0.0

    def __init__(self, parameters: Iperf3Parameters) -> None:
        self._parameters = parameters
        self.responses = iperf3_responses.list_kinds(parameters)
        self.duration = parameters.whole
        self.limit = STARTS * (parameters.whole + SLACK + SETTLED)
        self._services: list[Service] = []

    async def prepare(self, stage: Stage) -> None:
        must_connect(stage, "iperf3, of UDP too,")
        for index in range(len(stage.clients)):
            server = stage.facing(index)
            self._services.append(await stage.serve(server, self._make_server_command(server, index)))
        for index, client in enumerate(stage.clients):
            await self._wait_answered(stage, client, index)

    async def finish(self, stage: Stage) -> None:
        await stop_all(self._services)

    async def run(self, stage: Stage) -> Measurement:
        given = self._parameters
        orders = [self._make_client_command(stage.facing(index), index) for index in range(len(stage.clients))]
        commands = list(zip(stage.clients, orders, strict=True))
        ended = await stage.together(commands, given.whole + SLACK)
        again = 0
        while again < STARTS - 1 and any(map(never_started, ended)):
            again += 1
            await asyncio.sleep(SETTLED)
            ended = await stage.together(commands, given.whole + SLACK)
        try:
            # First: what another one in its place said may be nothing that can be read.
            for index in range(len(self._services)):
                await self._still_serving(index)
            found = self.make_measurement(ended, [client.name for client in stage.clients], again)
        except ToolFailed as error:
            blamed = hint_at_loss(stage) if any(map(find_failure, ended)) else ""
            raise ToolFailed(f"{error.what}{blamed}", error.where, error.remedy, _make_artifacts(ended)) from None
        return found

    def make_measurement(self, ended: list[Completed], names: list[str], again: int = 0) -> Measurement:
        """What the clients' output says. Pure. ToolFailed when it says nothing that can be believed."""
        given = self._parameters
        runs = [parse(one, given, name) for one, name in zip(ended, names, strict=True)]
        warnings = [*uneven_start(ended), *iperf3_responses.list_warnings(runs, given)]
        if again:
            text = f"iperf3 was started {again + 1} times, because the network had lost what it begins with"
            warnings.append(Warned(code="started-again", text=text))
        return Measurement(
            responses=iperf3_responses.make_responses(runs, given),
            events=iperf3_responses.count_events(runs, given),
            artifacts={f"iperf3-{index}.json": one.stdout for index, one in enumerate(ended)},
            warnings=tuple(warnings),
        )

    def _make_server_command(self, server: Machine, index: int) -> list[str]:
        place = ["--bind", find_own_address(server), "--port", str(PORT + index)]
        return ["iperf3", "--server", *place, "--interval", format_number(self._parameters.interval), "--json"]

    def _make_client_command(self, server: Machine, index: int) -> list[str]:
        given = self._parameters
        argv = [*_start_client_command(server, index), "--time", format_number(given.duration)]
        argv += ["--interval", format_number(given.interval)]
        argv += ["--omit", format_number(given.warmup), "--parallel", str(given.parallel), "--get-server-output"]
        argv += ["--udp"] if given.protocol == "udp" else []
        # iperf3 means each stream's.
        argv += ["--bitrate", str(given.rate // given.parallel)] if given.rate is not None else []
        argv += ["--length", str(given.length)] if given.length is not None else []
        return argv + {"forward": [], "reverse": ["--reverse"], "both": ["--bidir"]}[given.direction]

    async def _wait_answered(self, stage: Stage, client: Machine, index: int) -> None:
        """Return once a client has sent its server a few bytes, through the data network. ToolFailed."""
        argv = [*_start_client_command(stage.facing(index), index), "--bytes", "1K"]
        until = time.monotonic() + READY
        while True:
            try:
                ended = await client.exec(argv, timeout=READY)
            except TimedOut:
                raise ToolFailed(f"no iperf3 answers within {READY:g} s{hint_at_loss(stage)}", client.name) from None
            if ended.status != 0:
                raise ToolFailed(f"iperf3 ended with status {ended.status}: {last_words(ended)}", client.name)
            failure = find_failure(ended)
            await self._still_serving(index)
            if failure is None:
                return
            if time.monotonic() > until:
                what = f"no iperf3 answers within {READY:g} s: {failure}{hint_at_loss(stage)}"
                raise ToolFailed(what, client.name, said={f"iperf3-{index}.json": ended.stdout})
            await asyncio.sleep(POLL)

    async def _still_serving(self, index: int) -> None:
        """ToolFailed when the server of a client has ended: whatever answers in its place is not ours."""
        ended = await ended_within(self._services[index], 0)
        if ended is not None:
            why = find_failure(ended) or last_words(ended)
            raise ToolFailed(f"iperf3 ended instead of serving: {why}", self._services[index].machine.name)


def _start_client_command(server: Machine, index: int) -> list[str]:
    return ["iperf3", "--client", server.address, "--port", str(PORT + index), "--json"]


def _make_artifacts(ended: list[Completed]) -> dict[str, bytes]:
    """All that the clients' iperf3 printed, understood or not, as files."""
    printed = {f"iperf3-{index}.json": one.stdout for index, one in enumerate(ended)}
    return {name: text for name, text in printed.items() if text} | {
        f"iperf3-{index}.err": one.stderr for index, one in enumerate(ended) if one.stderr
    }


plugin = Iperf3
