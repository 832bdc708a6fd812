"""HTTP requests from every client, by the probe's load generator: a closed loop, an open loop or a ramp."""

import contextlib
import hashlib
import json
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from nearmetal.errors import MachineError, ToolFailed
from nearmetal.model import Cause, Completed, Frozen, Machine, Measurement, Stage
from nearmetal.workloads._load import gates as load_gates
from nearmetal.workloads._load import responses as load_responses
from nearmetal.workloads._load.document import LoadDocument, parse, require_document
from nearmetal.workloads._parameters import as_time, format_number
from nearmetal.workloads._server import Servers
from nearmetal.workloads._stage import uneven_start
from nearmetal.workloads.http.parameters import HttpParameters, MixEntry


class RequestArguments:
    """The load generator's words for the requests of a workload, and the files that they name, on each client."""

    def __init__(self, given: HttpParameters) -> None:
        paths = () if given.mix else given.all_paths[1:]  # the first is the URL's
        self._paths = [word for path in paths for word in ("--path", path)]
        self._headers = [word for name, value in given.headers.items() for word in ("--header", f"{name}: {value}")]
        self._method = [] if given.method is None else ["--method", given.method]
        self._send = None if given.send is None else given.send.encode()
        self._send_file = given.send_file
        self._mix = given.mix
        self._tls = given.tls
        authorities = given.tls.ca if given.tls else None
        named = (given.send_file, authorities, *(entry.send_file for entry in given.mix))
        self._files = [file for file in named if file is not None]

    def make_arguments(self, client: Machine, *, once: bool = False) -> list[str]:
        """As the generator on this client is told; with `once`, each kind of request as often as any other."""
        words = [*self._paths, *self._method, *self._headers]
        if self._send is not None or self._send_file is not None:
            at = self._body_file(client) if self._send_file is None else self._send_file.locate_in(client)
            words += ["--data", f"@{at}"]
        if self._mix:
            words += ["--mix", json.dumps([self._make_entry(client, entry, once) for entry in self._mix])]
        if self._tls is not None and self._tls.ca is not None:
            words += ["--ca", self._tls.ca.locate_in(client)]
        return [*words, "--insecure"] if self._tls is not None and self._tls.insecure else words

    def _make_entry(self, client: Machine, entry: MixEntry, once: bool) -> dict[str, Any]:
        said = entry.model_dump(exclude_none=True, exclude={"send_file"})
        if entry.send_file is not None:
            said["send_file"] = entry.send_file.locate_in(client)
        return {**said, "weight": 1} if once else said

    def _body_file(self, client: Machine) -> str:
        return f"{client.probe}.send"

    async def put_files(self, clients: Sequence[Machine]) -> None:
        """Have the files on every client. ToolFailed when one is another than when the study was planned."""
        for client in clients:
            for file in self._files:
                await client.put(file.read(), file.locate_in(client))
            if self._send is not None:
                await client.put(self._send, self._body_file(client))

    async def remove_files(self, clients: Sequence[Machine]) -> None:
        """Remove them from every client that still answers."""
        for client in clients:
            there = [file.locate_in(client) for file in self._files]
            there += [] if self._send is None else [self._body_file(client)]
            if there:
                with contextlib.suppress(MachineError):
                    await client.exec(["rm", "-f", *there])


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
