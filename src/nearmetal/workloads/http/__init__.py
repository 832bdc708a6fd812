"""HTTP requests from every client, by the probe's load generator: a closed loop, an open loop or a ramp."""

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from nearmetal.errors import ToolFailed
from nearmetal.model import Cause, Completed, Frozen, Machine, Measurement, Stage
from nearmetal.workloads._load import gates as load_gates
from nearmetal.workloads._load import responses as load_responses
from nearmetal.workloads._load.document import LoadDocument, parse, require_document
from nearmetal.workloads._parameters import as_time, format_number
from nearmetal.workloads._server import Servers
from nearmetal.workloads._stage import uneven_start
from nearmetal.workloads.http.arguments import RequestArguments
from nearmetal.workloads.http.parameters import HttpParameters

SLACK = 20.0
"""Seconds beyond the load itself: starting the generator, and printing what it found."""

Argv = list[str]


class Http:
    kind: ClassVar[str] = "http"
    Parameters: ClassVar[type[Frozen]] = HttpParameters
    has_clients: ClassVar[bool] = True
    preparing = 0.0

    def __init__(self, parameters: HttpParameters) -> None:
        self._parameters = parameters
        rate = load_responses.RATE_BY_TLS if parameters.is_tls else load_responses.RATE
        self.responses = load_responses.RAMP if parameters.mode == "ramp" else rate
        self.primary = {"closed": "throughput", "open": "latency_p50", "ramp": "saturation"}[parameters.mode]
        self.duration = parameters.warmup + parameters.expected_seconds
        self.limit = parameters.longest_seconds
        self._requests = RequestArguments(parameters)
        words = partial(self._requests.make_arguments, once=True)
        self._servers = Servers(parameters, parameters.all_paths, words, "/" if parameters.mix else None)

    async def prepare(self, stage: Stage) -> None:
        await self._requests.put_files(stage.clients)
        await self._servers.start(stage)
        if self._parameters.warmup > 0:
            await self._run_load(stage, self._make_warming(), self._parameters.warmup + self._parameters.timeout)

    async def finish(self, stage: Stage) -> None:
        await self._servers.stop()
        await self._requests.remove_files(stage.clients)

    async def run(self, stage: Stage) -> Measurement:
        ended = await self._run_load(stage, self._make_measuring(), self._parameters.longest_seconds)
        documents = [parse(one.stdout, client.name) for one, client in zip(ended, stage.clients, strict=True)]
        for document, client in zip(documents, stage.clients, strict=True):
            if (silence := load_gates.find_silence(document)) is not None:
                said = {f"load-{index}.json": one.stdout for index, one in enumerate(ended)}
                raise ToolFailed(silence, client.name, said=said, cause=Cause.SERVICE_SILENT)
        return self._make_measurement(documents, ended)

    async def _run_load(self, stage: Stage, pace: Argv, limit: float) -> list[Completed]:
        """Load from every client at once; what became of each generator, which has printed a document."""
        commands = []
        for index, client in enumerate(stage.clients):
            argv = self._make_command(client, self._servers.make_url(stage.facing(index)), pace)
            commands.append((client, [*argv, *self._by_lot(stage, index)]))
        ended = await stage.together(commands, limit + SLACK)
        for one, client in zip(ended, stage.clients, strict=True):
            require_document(one, "the load generator", client)
        return ended

    def _make_command(self, client: Machine, url: str, pace: Argv) -> Argv:
        given = self._parameters
        argv = [client.probe, "load", url, *self._requests.make_arguments(client), "--json", *pace]
        argv += ["--workers", str(given.workers), "--threads", str(given.threads), "--timeout", as_time(given.timeout)]
        argv += ["--new-connections"] if given.new_connections else []
        if given.mode != "closed":
            argv += ["--arrivals", given.arrivals, *(["--spin"] if given.spin else [])]
        return argv

    def _by_lot(self, stage: Stage, client: int) -> Argv:
        """Arrivals that are drawn anew for each trial, and for each client: equal ones would come in batches."""
        if self._parameters.arrivals == "constant":
            return []
        drawn = hashlib.sha256(f"{stage.seed} {client}".encode()).digest()
        return ["--seed", str(int.from_bytes(drawn[:4]))]

    def _make_warming(self) -> Argv:
        """The load that is measured, a little of it: apart from it, so that neither what observers see nor the
        host's cost contains a request that is not counted."""
        given = self._parameters
        rate = {"closed": None, "open": given.rate, "ramp": given.from_}[given.mode]
        mode = ["closed"] if rate is None else ["open", "--rate", format_number(rate)]
        return ["--mode", *mode, "--duration", as_time(given.warmup)]

    def _make_measuring(self) -> Argv:
        given = self._parameters
        pace = ["--mode", given.mode]
        if given.mode == "ramp":
            steps = (("--from", given.from_), ("--step", given.step), ("--to", given.to))
            pace += [word for name, rate in steps for word in (name, format_number(rate))]
            return [*pace, "--per-step", given.per_step]
        if given.mode == "open":
            pace += ["--rate", format_number(given.rate)]
        if given.requests is not None:
            return [*pace, "--requests", str(given.requests)]
        return [*pace, "--duration", as_time(given.measured_seconds)]

    def _make_measurement(self, documents: Sequence[LoadDocument], ended: Sequence[Completed]) -> Measurement:
        given = self._parameters
        ramp = given.mode == "ramp"
        gates = load_gates.list_warnings(documents, given.threads, given.mode == "closed")
        return Measurement(
            responses=load_responses.of_ramp(documents) if ramp else load_responses.of_rate(documents, given.timeout),
            events=sum(document.requests.completed for document in documents),
            artifacts={f"load-{index}.json": one.stdout for index, one in enumerate(ended)},
            warnings=(*uneven_start(ended), *gates),
            invalid=load_gates.find_invalid(documents),
        )


plugin = Http
