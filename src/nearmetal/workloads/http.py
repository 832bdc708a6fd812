"""HTTP requests from every client, by the probe's load generator: a closed loop, an open loop or a ramp."""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

from nearmetal.errors import MachineError, TimedOut, ToolFailed
from nearmetal.model import Frozen, Machine, Measurement, ResponseKind, Running, Stage
from nearmetal.workloads import _load_gates, _load_responses
from nearmetal.workloads._http_parameters import HttpParameters
from nearmetal.workloads._load_document import LoadDocument, parse
from nearmetal.workloads._stage import SERVER, facing, last_words, succeeded

READY = 60.0
"""Seconds within which a server has to answer. An emulated guest starts PHP's children in about five."""
POLL = 0.1
"""Seconds between two attempts, so that waiting costs a starting guest little."""
SLACK = 20.0
"""Seconds beyond the load itself: starting the generator, and printing what it found."""

Argv = list[str]

SERVERS = {"lighttpd": 80, "probe": 9001}
"""Which port each server listens on."""


class Http:
    kind: ClassVar[str] = "http"
    Parameters: ClassVar[type[Frozen]] = HttpParameters

    def __init__(self, parameters: HttpParameters) -> None:
        self._parameters = parameters
        self._running: list[tuple[Machine, Running]] = []

    @property
    def responses(self) -> Mapping[str, ResponseKind]:
        return _load_responses.RAMP if self._parameters.mode == "ramp" else _load_responses.RATE

    @property
    def primary(self) -> str:
        return {"closed": "throughput", "open": "latency_p50", "ramp": "saturation"}[self._parameters.mode]

    @property
    def duration(self) -> float:
        return self._parameters.warmup + self._parameters.expected_seconds

    @property
    def limit(self) -> float:
        return self._parameters.longest_seconds

    # ── The server ────────────────────────────────────────────────────────────────────────────────────────────────

    async def prepare(self, stage: Stage) -> None:
        if self._parameters.server is not None:
            for server in stage.servers:
                self._running.append((server, await server.spawn(self._serving(server))))
        for index, client in enumerate(stage.clients):
            if index == 0 or stage.connect == "pairs":
                await self._answered(client, self._url(facing(stage, index)), index)
        if self._parameters.warmup > 0:
            await self._loaded(stage, self._warming(), self._parameters.warmup + self._parameters.timeout)

    def _serving(self, server: Machine) -> Argv:
        if self._parameters.server == "lighttpd":
            return ["lighttpd", "-D", "-f", "/etc/nearmetal/lighttpd.conf"]
        listen = f"{server.address}:{SERVERS['probe']}"
        return [server.probe, "serve", "--listen", listen, "--body", str(self._parameters.body)]

    def _url(self, server: Machine) -> str:
        """Where a client sends its requests. The first path stands in it; `_paths` tells the others."""
        if self._parameters.url is not None:
            return self._parameters.url.replace(SERVER, server.address)
        port = SERVERS[self._parameters.server or "lighttpd"]
        return f"http://{server.address}{f':{port}' if port != 80 else ''}{self._parameters.all_paths[0]}"

    def _paths(self) -> Argv:
        return [word for path in self._parameters.all_paths[1:] for word in ("--path", path)]

    async def _answered(self, client: Machine, url: str, index: int) -> None:
        """Return once a client got a 200 for every path, through the data network. ToolFailed when it does not come.

        An answer that says the request is wrong (4xx), or is a redirection, will not change by waiting.
        """
        paths = max(1, len(self._parameters.all_paths))
        asking = ["--requests", str(paths), "--workers", "1", "--timeout", _time(self._parameters.timeout), "--json"]
        argv = [client.probe, "load", url, *self._paths(), *asking]
        until = time.monotonic() + READY
        while True:
            ended = await client.exec(argv, timeout=self._parameters.timeout * paths + SLACK)
            document = parse(succeeded(ended, "the first request", client).stdout, client.name)
            if document.status.get("2xx", 0) == paths:
                return
            if any(document.status.get(name, 0) for name in ("1xx", "3xx", "4xx")):
                raise ToolFailed(f"{url} answers {_seen(document)} instead of 200", client.name, _LOOK_AT_PATH)
            await self._still_starting(index)
            if time.monotonic() > until:
                raise ToolFailed(
                    f"{url} did not answer with 200 within {READY:g} s, but with {_seen(document)}"
                    f"{await self._last_words(index)}",
                    client.name,
                )

    async def _still_starting(self, index: int) -> None:
        """Wait a little. ToolFailed when the server that this client faces has ended meanwhile."""
        if not self._running:
            await asyncio.sleep(POLL)
            return
        machine, running = self._running[index]
        try:
            ended = await running.wait(POLL)
        except TimedOut:
            return
        raise ToolFailed(
            f"{self._parameters.server} ended with status {ended.status} instead of serving: {last_words(ended)}",
            machine.name,
        )

    async def _last_words(self, index: int) -> str:
        if not self._running:
            return ""
        return f"; {self._parameters.server} said: {last_words(await self._running[index][1].stop())}"

    async def finish(self, stage: Stage) -> None:
        while self._running:
            _, running = self._running.pop()
            with contextlib.suppress(MachineError):  # with its machine, the server is gone too
                await running.stop()

    # ── The load ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, stage: Stage) -> Measurement:
        texts = await self._loaded(stage, self._measuring(), self._parameters.longest_seconds)
        documents = [parse(text, client.name) for text, client in zip(texts, stage.clients, strict=True)]
        return self._measurement(documents, texts)

    async def _loaded(self, stage: Stage, pace: Argv, limit: float) -> list[bytes]:
        """Load from every client at once; what each generator printed."""
        commands = [
            (client, self._command(client.probe, self._url(facing(stage, index)), pace))
            for index, client in enumerate(stage.clients)
        ]
        ended = await stage.together(commands, limit + SLACK)
        return [
            succeeded(one, "the load generator", client).stdout
            for one, client in zip(ended, stage.clients, strict=True)
        ]

    def _command(self, probe: str, url: str, pace: Argv) -> Argv:
        given = self._parameters
        argv = [probe, "load", url, *self._paths(), "--json", *pace, "--workers", str(given.workers)]
        argv += ["--threads", str(given.threads), "--timeout", _time(given.timeout)]
        argv += ["--new-connections"] if given.new_connections else []
        if given.mode != "closed":
            argv += ["--arrivals", given.arrivals, *(["--spin"] if given.spin else [])]
        return argv

    def _warming(self) -> Argv:
        """The load that is measured, a little of it: apart from it, so that neither what observers see nor the
        host's cost contains a request that is not counted."""
        given = self._parameters
        rate = {"closed": None, "open": given.rate, "ramp": given.from_}[given.mode]
        mode = ["closed"] if rate is None else ["open", "--rate", _number(rate)]
        return ["--mode", *mode, "--duration", _time(given.warmup)]

    def _measuring(self) -> Argv:
        given = self._parameters
        pace = ["--mode", given.mode]
        if given.mode == "ramp":
            steps = ["--from", _number(given.from_), "--step", _number(given.step), "--to", _number(given.to)]
            return [*pace, *steps, "--per-step", given.per_step]
        if given.mode == "open":
            pace += ["--rate", _number(given.rate)]
        if given.requests is not None:
            return [*pace, "--requests", str(given.requests)]
        return [*pace, "--duration", _time(given.measured_seconds)]

    def _measurement(self, documents: Sequence[LoadDocument], texts: Sequence[bytes]) -> Measurement:
        ramp = self._parameters.mode == "ramp"
        return Measurement(
            responses=_load_responses.of_ramp(documents) if ramp else _load_responses.of_rate(documents),
            events=sum(document.requests.completed for document in documents),
            artifacts={f"load-{index}.json": text for index, text in enumerate(texts)},
            warnings=tuple(
                _load_gates.warnings(documents, self._parameters.threads, self._parameters.mode == "closed")
            ),
            invalid=_load_gates.invalid(documents),
        )


_LOOK_AT_PATH = "look at `path`, `paths` or `url` of this workload"


def _seen(document: LoadDocument) -> str:
    counts = {**document.status, **document.errors.by_class}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing"


def _number(value: float | None) -> str:
    """Exactly, and never in a notation that starts with a sign."""
    if value is None:
        raise AssertionError("the parameters were validated to have it")
    return f"{value:.9f}".rstrip("0").rstrip(".")


def _time(seconds: float) -> str:
    return f"{_number(seconds)}s"


plugin = Http
